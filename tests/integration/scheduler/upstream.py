"""Kubernetes' own integration tests of preemption, with the plugin in the place of DefaultPreemption.

They are in the module k8s.io/kubernetes that services/scheduler/go.mod pins. Nothing of them is in this repository: an
overlay of `go test` shows the compiler a registry of plugins, and a test file, that differ in a few words from those in
the module cache, and in pkg/preemption the file services/scheduler/upstream/inplace.go. What is in the module cache may
not be overlaid, so the module is taken from a link to it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scavenger_cluster.build import GO_SETTINGS, Go, ensure_tools

MODULE: Final = Path(__file__).resolve().parents[3] / "services" / "scheduler"
TESTS: Final = "k8s.io/kubernetes/test/integration/scheduler/preemption"
PACKAGES: Final = ("", "/misc", "/nominatednodename", "/podgroup")
ROOT: Final = "preemption"
"""The package without a folder of its own among these."""
IN_PLACE: Final = "ScavengerPreemption in the place of DefaultPreemption"
"""What the plugin says where it is made for such a test."""

_IMPORT: Final = '"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"'
_OURS: Final = 'scavenger "scavenger.dev/scheduler/pkg/preemption"'
_REGISTRY: Final = (
    ("fts, defaultpreemption.New)", "fts, scavenger.InPlace)", 1),
    ("import (\n", f"import (\n\t{_OURS}\n", 1),
)
_ASYNC_TEST: Final = (
    ("defaultpreemption.New)", "scavenger.InPlace)", 1),
    ("*defaultpreemption.DefaultPreemption", "*scavenger.Plugin", 2),
    (_IMPORT, _OURS, 1),
)
_NO_SHORT_CUT: Final = (("return t.number.Load() == 0", "return false", 1),)


@dataclass
class Outcome:
    """What came of the tests, by `package/Test/case`; `said` is the end of what was printed."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)
    in_place: int = 0
    said: str = ""

    def leaves(self) -> list[str]:
        """What failed by itself, and not as the whole of which a part did."""
        return [name for name in self.failed if not self._parts(name)]

    def forgive(self, name: str) -> None:
        """Have a failed test passed, and with it all of which nothing else has failed."""
        while name and not self._parts(name):
            self.failed.pop(name, None)
            if "/" in name:  # else a package
                self.passed.add(name)
            name = name.rpartition("/")[0]

    def _parts(self, name: str) -> list[str]:
        return [other for other in self.failed if other.startswith(f"{name}/")]


@dataclass(frozen=True)
class Build:
    """What `go test` is told of the changed modules."""

    overlay: Path
    modfile: Path


def prepare(folder: Path, *, short_cut: bool) -> Build:
    """Write what the tests are built with into a folder.

    `short_cut`: where there are no scavenger pods, as in these tests, the plugin leaves almost all to
    DefaultPreemption. Without it, the plugin decides as if there were some.
    """
    upstream = folder / "kubernetes"
    upstream.symlink_to(_go("list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").strip())
    pinned = (MODULE / "go.mod").read_text()
    (folder / "go.mod").write_text(f"{pinned}\nreplace k8s.io/kubernetes => {upstream}\n")
    (folder / "go.sum").write_text((MODULE / "go.sum").read_text())
    preemption = MODULE / "pkg" / "preemption"
    inplace = (MODULE / "upstream" / "inplace.go").read_text()
    texts = {preemption / "inplace.go": changed(inplace, (("//go:build ignore\n", "", 1),))}
    for path, changes in (
        (upstream / "pkg/scheduler/framework/plugins/registry.go", _REGISTRY),
        (upstream / "test/integration/scheduler/preemption/preemption_test.go", _ASYNC_TEST),
        (preemption / "jobs.go", () if short_cut else _NO_SHORT_CUT),
    ):
        texts[path] = changed(path.read_text(), changes)
    replace = {}
    for number, (path, text) in enumerate(texts.items()):
        stand_in = folder / f"{number}-{path.name}"
        stand_in.write_text(text)
        replace[str(path)] = str(stand_in)
    overlay = folder / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replace}))
    return Build(overlay, folder / "go.mod")


def changed(text: str, changes: Iterable[tuple[str, str, int]]) -> str:
    """Replace words that must be there so many times. ValueError: upstream has changed, and so has this to."""
    for old, new, times in changes:
        if text.count(old) != times:
            raise ValueError(f"{old!r} is there {text.count(old)} times, not {times}")
        text = text.replace(old, new)
    return text


def run(build: Build, pattern: str = "", packages: Iterable[str] = PACKAGES) -> Outcome:
    """Run the tests whose names match the pattern, all of them by default.

    They start API servers in this process and wait seconds for what happens: on a busy machine one in some hundred is
    too late. What failed is run once more by itself, and has failed if it does so again.
    """
    outcome = _go_test(build, pattern, packages)
    for name in outcome.leaves():
        package, _, test = name.partition("/")
        folder = "" if package == ROOT else f"/{package}"
        if test and name in _go_test(build, exactly(test), [folder]).passed:
            outcome.forgive(name)
    return outcome


def exactly(test: str) -> str:
    """What `go test -run` takes for one test, or one case of it."""
    return "/".join(f"^{re.escape(part)}$" for part in test.split("/"))


def _go_test(build: Build, pattern: str, packages: Iterable[str], minutes: int = 25) -> Outcome:
    etcd = ensure_tools(["etcd"], print)["etcd"]
    environment = {**_environment(), "PATH": f"{etcd.parent}{os.pathsep}{os.environ['PATH']}"}
    argv = [Go.find().program, "test", "-vet=off", "-count=1", "-json", f"-timeout={minutes}m"]
    argv += [f"-overlay={build.overlay}", f"-modfile={build.modfile}"]
    argv += [f"-run={pattern}"] if pattern else []
    done = subprocess.run(
        [*argv, *(TESTS + package for package in packages)],
        cwd=MODULE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return parse(done.stdout.splitlines())


def parse(lines: Iterable[str]) -> Outcome:
    """Read what `go test -json` prints."""
    outcome = Outcome()
    said: dict[str, list[str]] = {}
    rest: list[str] = []
    for line in lines:
        try:
            event: Mapping[str, Any] = json.loads(line)
        except ValueError:
            rest.append(line)
            continue
        package = event.get("Package", "").removeprefix(TESTS).strip("/") or ROOT
        name = f"{package}/{event['Test']}" if "Test" in event else package
        if "Elapsed" in event:
            outcome.seconds[name] = event["Elapsed"]
        match event.get("Action"):
            case "output" | "build-output":
                outcome.in_place += IN_PLACE in event["Output"]
                said.setdefault(name, []).append(event["Output"])
            case "pass" if "Test" in event:
                outcome.passed.add(name)
            case "skip" if "Test" in event:
                outcome.skipped.add(name)
            case "fail":
                outcome.failed[name] = "".join(said.get(name, []))
    outcome.said = "\n".join(rest) + "".join("".join(words) for words in said.values())[-20_000:]
    return outcome


def _environment() -> dict[str, str]:
    return {**os.environ, **GO_SETTINGS}


def _go(*words: str) -> str:
    done = subprocess.run(
        [Go.find().program, *words], cwd=MODULE, env=_environment(), capture_output=True, text=True, check=True
    )
    return done.stdout
