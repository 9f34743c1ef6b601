"""How far a `go build` is, and how long it will still take: pure arithmetic on what the compiler says.

What a package costs to compile is taken to be proportional to the size of its source; that is within a quarter of the
truth for Kubernetes from the first minute on. Linking a program counts as LINK_BYTES of source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

LINK_BYTES = 600_000
"""Of source that compile in the time of one link, measured on kube-apiserver and kubelet."""
LIST_FORMAT = '{{.ImportPath}}\t{{if .StaleReason}}stale{{end}}\t{{.Dir}}\t{{join .GoFiles ","}}'
"""For `go list -deps -f`; a package without a reason to be stale comes from the build cache."""


def weights(listing: str) -> dict[str, int]:
    """Return the bytes of source of each package that has to be compiled, from what LIST_FORMAT lists."""
    found = {}
    for line in listing.splitlines():
        package, stale, folder, files = line.split("\t")
        if stale:
            found[package] = sum(_size(Path(folder) / name) for name in files.split(",") if name)
    return found


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


@dataclasses.dataclass
class Compilation:
    """What is to be compiled and linked, and what the compiler has begun with so far.

    Attributes:
        sources: bytes of source of each package to compile.
        programs: how many programs are linked at the end.
    """

    sources: Mapping[str, int]
    programs: int
    begun: set[str] = dataclasses.field(default_factory=set)

    def begin(self, package: str) -> bool:
        """Note a package that `go build -v` names; False if the line is none of the packages."""
        if package not in self.sources:
            return False
        self.begun.add(package)
        return True

    @property
    def total(self) -> int:
        """Bytes of source, and what links count as."""
        return sum(self.sources.values()) + self.programs * LINK_BYTES

    def share(self) -> float:
        """The part that is done, between 0 and 1."""
        return _sum(self.sources, self.begun) / self.total if self.total else 1.0

    def describe(self, seconds: float) -> str:
        """Return one line on how far it is after so many seconds."""
        share = self.share()
        line = f"compiled {len(self.begun)} of {len(self.sources)} packages, {share:.0%}"
        if share < 0.02:  # too little to tell from
            return line
        return f"{line}, about {in_words(seconds * (1 - share) / share)} to go"


def _sum(sources: Mapping[str, int], packages: Iterable[str]) -> int:
    return sum(sources[package] for package in packages)


def in_words(seconds: float) -> str:
    """Return a duration as one says it: `40 s`, `6 min`."""
    return f"{max(5, round(seconds / 5) * 5)} s" if seconds < 100 else f"{round(seconds / 60)} min"
