"""No command of a page is out of date: each is held against the program that it is for, or stands in a table below.

Blocks are run by a shell in which every program does nothing but write down its arguments, after loops and variables. A
program that is not known here ends the shell: then say in WITHOUT why no test can hold it against anything.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
from contextlib import redirect_stderr
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from scavenger_cli import main as cli
from scavenger_cluster import cli as cluster_cli
from scavenger_testing import pages
from typer import TyperException
from typer.core import TyperGroup

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("demo-apps/*/README.md")),
]

WITHOUT = {
    "apt-get": "changes the machine",
    "docker": "no Docker engine where this is tested; tests/charts/test_compose.py has what can be checked without",
    "pip": "fetches from an index; tests/integration/release builds and uses the same wheels",
    "uv": "fetches from an index; tests/unit/tools/test_cli_wheel.py does it",
    "amtool": "needs an Alertmanager; tests/charts/test_alerts.py holds the matchers against the names",
    "git": "tests/integration/release does the same with two clones",
    "diff": "tests/integration/release does the same with two clones",
    "openssl": "makes and uses keys: a program of others",
    "sha256sum": "a program of others; tests/integration/release verifies with it",
    "cosign": "needs signed images in a registry; the page says what a test verifies, and by what",
    "skopeo": "needs a registry",
    "cat": "shows a file",
    "date": "a program of others",
    "seq": "a program of others",
    "grep": "a program of others",
    "sed": "a program of others",
    "base64": "a program of others",
    "curl": "asks a running service",
    "python": "tests/unit/checkpoint runs the tester on a program of its own",
    "python3": "run by tests/unit/counter, tests/integration/programs and tests/unit/checkpoint",
    "scavenger-simulator": "tests/unit/simulator/test_commands.py has its options; it needs a Prometheus or minutes",
    "services/build-image.sh": "needs a builder; tests/integration/charts and release build all images by it",
    "./tools/uv": "CONTRIBUTING.md: runs single tests",
}
"""Programs that are written down only, and why that is all, or who runs them."""
CHECKED = ("kubectl", "helm", "make", "scavenger-cluster")
OF_THE_SHELL = ("for", "export", "cd", "password", "upgrade")
"""Words and variables that a block may begin with."""
BEGIN = (*WITHOUT, *CHECKED, *OF_THE_SHELL, "/usr/bin/python3", "if", "while", "sudo")

VERBS = {
    "annotate", "apply", "create", "delete", "describe", "get", "label", "logs", "patch", "port-forward", "rollout",
    "scale", "set", "top", "wait", "config", "explain", "krew", "sj", "auth",
}  # fmt: skip
"""Of kubectl. Their flags are not checked: that takes kubectl itself."""

Words = list[str]
RECORD = """\
#!/bin/sh
[ "${0##*/}" != seq ] || echo 1
call=$(printf '%s\\037' "${0#$STUBS/}" "$@")
printf '%s\\036' "$call" >> "$RECORD"
"""
"""With what a shell has built in, as many are called, and one write for each: a pipe runs several at once."""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs that do nothing but write down how they are called."""
    folder = tmp_path_factory.mktemp("stubs")
    for name in (*WITHOUT, *CHECKED):
        program = folder / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(RECORD)
        program.chmod(0o755)
    return folder


def recorded(script: str, stubs: Path, folder: Path) -> list[Words]:
    """Every program that a script calls, with its arguments. Fails where it calls one that is not known."""
    record = folder / "record"
    record.unlink(missing_ok=True)
    record.touch()
    for name in ("ca.crt", "ca.key"):
        (folder / name).touch()  # what commands before these have made
    script = script.replace("/usr/bin/python3", "python3").replace("{folder}", "'{folder}'")
    environment = {"PATH": str(stubs), "RECORD": str(record), "STUBS": str(stubs), "HOME": str(folder)}
    shutil.copytree(stubs / "services", folder / "services", dirs_exist_ok=True)
    shutil.copytree(stubs / "tools", folder / "tools", dirs_exist_ok=True)
    bash = shutil.which("bash") or "/bin/bash"
    done = subprocess.run(
        [bash, "-c", f"command_not_found_handle() {{ echo \"$1: not known\" >&2; kill $$; }}\n{script}"],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [call.split("\037")[:-1] for call in record.read_text().split("\036")[:-1]]


@cache
def sj() -> TyperGroup:
    found = typer.main.get_command(cli.application())
    assert isinstance(found, TyperGroup)
    return found


def parse(words: Words) -> None:
    """Raises TyperException for what `kubectl sj` would refuse, without running it."""
    words = cli.without_values(words)
    command: Any = sj()
    context = None
    while isinstance(command, TyperGroup):
        context = command.make_context(command.name or "sj", list(words), parent=context)
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name
    command.make_context(command.name, list(words), parent=context)


def wrong(words: Words) -> str:
    """What is wrong with one command; "" if nothing is."""
    program, *rest = words
    if "…" in rest:
        return "it cannot be pasted as it is"
    if program == "make":
        targets = [word for word in rest if re.fullmatch(r"[a-z][a-z-]*", word)]
        known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return next((f"no target {target}" for target in targets if target not in known), "")
    if program == "kubectl":
        return of_kubectl(rest)
    if program == "scavenger-cluster":
        return of_the_cluster(rest)
    if program == "helm":
        return of_helm(rest)
    return ""


def of_helm(rest: Words) -> str:
    """Charts that are not there, and values that their schemas do not know. `tests/charts` renders what is to be pasted
    in README and docs/install.md."""
    for chart in (ROOT / word for word in rest if word.startswith("charts/")):
        if not (chart / "Chart.yaml").is_file():
            return f"no {chart.relative_to(ROOT)}"
        for at, word in enumerate(rest):
            if word == "--set" and not known(rest[at + 1].partition("=")[0], chart):
                return f"{chart.name} has no value {rest[at + 1]}"
    return ""


def known(value: str, chart: Path) -> bool:
    """Whether the schema of a chart has a value such as `settings.reserve`."""
    if value.startswith("global."):
        return True  # meant for all charts: helm takes it everywhere
    component, _, rest = value.partition(".")
    if (chart / "charts" / component / "Chart.yaml").is_file():
        return known(rest, chart / "charts" / component)
    schema: Any = json.loads((chart / "values.schema.json").read_text())
    for part in value.split("."):
        schema = schema.get("properties", {}).get(part)
        if schema is None:
            return False
    return True


def of_the_cluster(rest: Words) -> str:
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            cluster_cli.parser().parse_args(rest)
    except SystemExit:
        return said.getvalue()
    return ""


def of_kubectl(rest: Words) -> str:
    if rest[:1] == ["sj"]:
        try:
            parse(rest[1:])
        except TyperException as error:
            return f"{type(error).__name__}: {error}"
        return ""
    verbs = [word for word in rest if word in VERBS]
    if not verbs:
        return f"no verb of {sorted(VERBS)}"
    if verbs[0] == "apply":
        files = [rest[at + 1] for at, word in enumerate(rest) if word in ("-f", "-k")]
        missing = [file for file in files if "/" in file and not (ROOT / file).exists()]
        return f"no {missing}" if missing else ""
    return ""


def everything() -> list[pages.Block]:
    return [block for page in PAGES for block in pages.commands(page, BEGIN)]


def test_no_block_looks_like_commands_and_is_taken_for_something_else() -> None:
    """Such as one that begins with a program that is not in BEGIN."""
    taken = "".join(block.script for block in everything())
    line = re.compile(r"^ {4}(?:\$ )?((?:kubectl|helm|make|docker|pip|scavenger-cluster) .*)$", re.MULTILINE)
    missed = [found for page in PAGES for found in line.findall(page.read_text()) if found.strip() not in taken]
    assert not missed


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("kubectl sj run x --imaginary y", "--imaginary"),
        ("kubectl sj queue creat x", "creat"),
        ("kubectl sj -n a list --status running", ""),
        ("kubectl frobnicate x", "no verb"),
        ("kubectl apply -f demo-apps/absent.yaml", "absent.yaml"),
        ("helm upgrade x charts/absent", "charts/absent"),
        ("helm upgrade x …", "pasted"),
        ("helm upgrade x charts/scavenger-regulator --set settings.reserve=25", ""),
        ("helm upgrade x charts/scavenger-regulator --set settings.reserves=25", "settings.reserves"),
        ("helm upgrade x charts/scavenger --set scavenger-base.dashboards.enabled=true", ""),
        ("helm upgrade x charts/scavenger --set scavenger-base.dashboard.enabled=true", "dashboard"),
        ("make imaginary", "imaginary"),
        ("make up NODES=fake:3", ""),
        ("scavenger-cluster up --imaginary", "--imaginary"),
        ("scavenger-cluster status", ""),
    ],
)
def test_what_is_wrong_is_found(words: str, what: str) -> None:
    assert what in wrong(words.split())
    assert bool(what) is bool(wrong(words.split()))


def test_a_program_that_is_not_known_is_found(stubs: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="frobnicate: not known"):
        recorded("frobnicate x", stubs, tmp_path)
    assert recorded("for n in $(seq 3); do kubectl get x-$n; done", stubs, tmp_path)[-1] == ["kubectl", "get", "x-1"]


def test_the_table_has_no_more_than_the_pages_need(stubs: Path, tmp_path: Path) -> None:
    used = {words[0] for block in everything() for words in recorded(block.script, stubs, tmp_path)}
    assert used >= set(WITHOUT), "a row that no page needs is to go"


@pytest.mark.parametrize("block", everything(), ids=str)
def test_every_command_is_one_that_there_is(block: pages.Block, stubs: Path, tmp_path: Path) -> None:
    """By its arguments, as a shell gives them."""
    for words in recorded(block.script, stubs, tmp_path):
        assert not wrong(words), shlex.join(words)
