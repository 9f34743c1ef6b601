"""What the services may do that they could not in the last release.

    python -m tools.rights --check      exit 1 where the CHANGELOG does not name what was gained
    python -m tools.rights --since REV  print what has come and gone since a commit or tag
    python -m tools.rights --release    make the roles as they are now those of the last release

The rights of the last release are in `tools/rights.txt`, one to a line. `make verify` compares them with the roles in
`manifests/`, and wants each line that has come, as it is printed here, under UNRELEASED in the CHANGELOG.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
LAST: Final = ROOT / "tools" / "rights.txt"
MANIFESTS: Final = "manifests"


def rights_of(texts: Iterable[str]) -> set[str]:
    """The rights of all roles in these manifests: `ROLE: VERB RESOURCE.GROUP`, with the only name that it is for."""
    found: set[str] = set()
    for text in texts:
        for document in yaml.safe_load_all(text):
            if document and document["kind"] in ("ClusterRole", "Role"):
                found |= _rights_of_role(document)
    return found


def _rights_of_role(role: Mapping[str, Any]) -> set[str]:
    where = "" if role["kind"] == "ClusterRole" else " in its own namespace"
    found = set()
    for rule in role.get("rules") or ():
        for name in rule.get("resourceNames") or ("",):
            only = f" {name}" if name else ""
            for group in rule.get("apiGroups") or ("",):
                of = f".{group}" if group else ""
                for resource in rule.get("resources") or rule.get("nonResourceURLs") or ():
                    found |= {
                        f"{role['metadata']['name']}: {verb} {resource}{of}{only}{where}" for verb in rule["verbs"]
                    }
    return found


def now() -> set[str]:
    """The rights of the roles in manifests/."""
    return rights_of(file.read_text() for file in sorted((ROOT / MANIFESTS).rglob("*.yaml")))


def at(revision: str) -> set[str]:
    """The rights at a commit or tag. Raises subprocess.CalledProcessError for one that there is not."""
    names = _git("ls-tree", "-r", "--name-only", revision, MANIFESTS).splitlines()
    return rights_of(_git("show", f"{revision}:{name}") for name in names if name.endswith(".yaml"))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def untold(gained: Iterable[str], changelog: str) -> list[str]:
    """Rights that the UNRELEASED part of a CHANGELOG does not name."""
    part = changelog.partition("## UNRELEASED")[2].partition("\n## ")[0]
    return sorted(right for right in gained if f"`{right}`" not in part)


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.rights", description=(__doc__ or "").partition("\n")[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="the CHANGELOG names what was gained")
    mode.add_argument("--since", metavar="REV", help="print what has come (+) and gone (-) since then")
    mode.add_argument("--release", action="store_true", help="write tools/rights.txt")
    arguments = parser.parse_args(words)
    if arguments.since:
        before = at(arguments.since)
        lines = [f"+ {right}" for right in now() - before] + [f"- {right}" for right in before - now()]
        sys.stdout.write("".join(f"{line}\n" for line in sorted(lines, key=lambda line: (line[2:], line))))
        return 0
    if arguments.release:
        LAST.write_text("".join(f"{right}\n" for right in sorted(now())))
        return 0
    missing = untold(now() - set(LAST.read_text().splitlines()), (ROOT / "CHANGELOG.md").read_text())
    for right in missing:
        sys.stderr.write(f"`{right}`\n")
    if missing:
        sys.stderr.write("new since the last release: name these rights in CHANGELOG.md under UNRELEASED, and why\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
