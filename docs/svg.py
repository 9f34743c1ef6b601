"""What the drawn pictures have in common: text, the frame, and a file that is written or compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", colour: str = "#222222") -> str:
    """Words at a point, in pixels from the upper left."""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def framed(width: int, height: int, parts: Sequence[str]) -> str:
    """The whole picture: parts on white."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def main(picture: Path, drawn: str, source: str, module: str) -> int:
    """Write the picture, or with --check on the command line compare it; returns the exit code. source: what it is
    drawn from, in words. module: what draws it."""
    if "--check" not in sys.argv[1:]:
        picture.write_text(drawn)
        return 0
    if picture.exists() and picture.read_text() == drawn:
        return 0
    sys.stderr.write(f"{picture} is not what the {source} says: run python -m {module}\n")
    return 1
