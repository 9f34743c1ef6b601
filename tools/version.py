"""The version of everything: pyproject.toml has it, and this writes it wherever else it must stand.

    python -m tools.version                 print it
    python -m tools.version --check         exit 1 with the places that have another one
    python -m tools.version --set 0.2.0     write another one into pyproject.toml and all places

`make version VERSION=0.2.0` does the last, and has what is generated from these files written anew.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = r'(?<=^version = ")[^"]+(?="$)'
IN_CHARTS: Final = r"(?<=ersion: )\d[^\s]*$"
"""Of `version` and `appVersion` of the chart, and of the library it depends on."""
IMAGE: Final = r"(?<=/scavenger/{component}:)\d[\w.-]*"

PLACES: Final = {
    "packages/*/pyproject.toml": PROJECT,
    "services/*/pyproject.toml": PROJECT,
    "cli/pyproject.toml": PROJECT,
    "cli/distribution/pyproject.toml": PROJECT,
    "cluster/pyproject.toml": PROJECT,
    "simulator/pyproject.toml": PROJECT,
    "demo-apps/*/pyproject.toml": PROJECT,
    "charts/*/Chart.yaml": IN_CHARTS,
    "demo-apps/tuner/manifests/tuner/deployment.yaml": IMAGE.format(component="tuner"),
    "docs/gitops.md": r"(?<=targetRevision: )\d[\w.-]*",
    "docs/install.md": r"(?:(?<=/admitter:)|(?<=/mine:))\d[\w.-]*",
    "docs/publish.md": r"(?<=charts/scavenger --version )\d[\w.-]*",
}
"""Files, and what in them is the version."""


def current(root: Path = ROOT) -> str:
    """The version of the project."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return version


def places(root: Path) -> Iterator[tuple[Path, str]]:
    """Every file that names the version, and the pattern of it; ValueError where a file has none."""
    for names, pattern in PLACES.items():
        files = sorted(root.glob(names))
        if not files:
            raise ValueError(f"{names}: there is no such file")
        for file in files:
            if not re.search(pattern, file.read_text(), re.MULTILINE):
                raise ValueError(f"{file.relative_to(root)} names no version")
            yield file, pattern


def others(root: Path = ROOT) -> list[str]:
    """A line for each place that has another version than the project."""
    version = current(root)
    return [
        f"{file.relative_to(root)}: {found}, and pyproject.toml has {version}"
        for file, pattern in places(root)
        for found in re.findall(pattern, file.read_text(), re.MULTILINE)
        if found != version
    ]


def set_to(version: str, root: Path = ROOT) -> None:
    """Write it everywhere. ValueError for what is no version to both Python and helm: three numbers, and for a release
    before that of these numbers -alpha.1, -beta.1 or -rc.1."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?", version):
        raise ValueError(f"{version!r} is no version such as 0.2.0 or 0.2.0-rc.1")
    for file, pattern in [*places(root), (root / "pyproject.toml", PROJECT)]:
        file.write_text(re.sub(pattern, version, file.read_text(), flags=re.MULTILINE))


def main(words: list[str] | None = None) -> int:
    """The command line; the exit code of the process."""
    parser = argparse.ArgumentParser(description="The version of everything.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="exit 1 with the places that have another one")
    mode.add_argument("--set", metavar="VERSION", help="write another one everywhere")
    arguments = parser.parse_args(words)
    try:
        if arguments.set is not None:
            set_to(arguments.set)
        wrong = others()
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in wrong) or f"{current()}\n")
    return int(bool(arguments.check and wrong))


if __name__ == "__main__":
    sys.exit(main())
