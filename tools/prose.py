"""How the prose reads: words a sentence, and words that the glossary has another one for.

python -m tools.prose           the figures of each page, the longest sentences last
python -m tools.prose PAGE…     every sentence of these pages that is too long, and every word to replace
python -m tools.prose --check   fail where README and docs read worse than they may

Code, tables and headings do not count; each paragraph and list item is read by itself.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).resolve().parents[1]

MOST_WORDS: Final = 25
"""A sentence that has more is to be split (CONTRIBUTING.md)."""
LONG: Final = 30
MEAN_ALLOWED: Final = 16.0
LONG_ALLOWED: Final = 0.05
"""The share of sentences of more than LONG words."""

REPLACED: Final = {
    r"in line\b": "queued",
    r"\bwho (?:runs|administers) (?:it|the cluster|a cluster)": "the cluster administrator",
    r"\bnobody\b|\bwhoever\b": "a noun for the actor",
    r"comes to nothing": "fails",
    r"\bwater levels?\b": "levels",
}
"""Patterns, and what to write instead; case does not matter."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[)\"]*\s+(?=[\"(*`A-Z0-9])")
_WORD: Final = re.compile(r"[\w'`./-]*\w[\w'`./-]*")


def pages() -> list[Path]:
    """README and the pages of docs that people write."""
    docs = sorted((ROOT / "docs").glob("*.md"))
    return [ROOT / "README.md", *(page for page in docs if "<!-- generated" not in page.read_text().lower())]


def sentences(text: str) -> Iterator[str]:
    """The sentences of the paragraphs and list items of a Markdown text; code is one word."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, block in pairwise(tokens):
        if before.type == "paragraph_open" and block.children:
            prose = re.sub(r"\s+", " ", "".join(map(_spoken, block.children))).strip()
            yield from filter(_WORD.search, _SENTENCE_END.split(prose))


def _spoken(token: Token) -> str:
    return {"code_inline": "`code`", "text": token.content, "softbreak": " "}.get(token.type, "")


def words(sentence: str) -> int:
    """How many words it has."""
    return len(_WORD.findall(sentence))


def figures(found: Sequence[str]) -> tuple[float, float]:
    """Words a sentence, and the share of sentences that are long."""
    counts = [words(one) for one in found]
    return sum(counts) / len(counts), sum(count > LONG for count in counts) / len(counts)


def faults(found: Sequence[str]) -> Iterator[str]:
    """What is wrong with each of these sentences."""
    for sentence in found:
        if (count := words(sentence)) > MOST_WORDS:
            yield f"{count} words: {sentence}"
        for pattern, instead in REPLACED.items():
            if re.search(pattern, sentence, re.IGNORECASE):
                yield f"{instead}: {sentence}"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where README and docs read worse than they may")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    args = parser.parse_args(argv)
    if args.pages:
        lines = [line for page in args.pages for line in faults([*sentences(page.read_text())])]
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 0
    read = {page: [*sentences(page.read_text())] for page in pages()}
    if not args.check:
        for page, found in read.items():
            sys.stdout.write(
                f"{page.relative_to(ROOT)!s:32} {sum(map(words, found)):6} words, {_spell(*figures(found))}\n"
            )
    mean, share = figures([sentence for found in read.values() for sentence in found])
    sys.stdout.write(f"{'README and docs':32} {_spell(mean, share)}\n")
    return int(args.check and (mean > MEAN_ALLOWED or share > LONG_ALLOWED))


def _spell(mean: float, share: float) -> str:
    return f"{mean:.1f} a sentence, {share:.1%} of more than {LONG}"


if __name__ == "__main__":
    sys.exit(main())
