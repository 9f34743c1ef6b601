"""How the prose reads: words a sentence, and words that the glossary has another one for.

python -m tools.prose                the figures of each page and of each kind of text outside of the pages
python -m tools.prose PAGE…          every sentence of these pages that is too long, and every word to replace
python -m tools.prose --texts KIND…  the same of kinds of text, such as values.yaml; without KIND, of all
python -m tools.prose --check        fail where pages or texts read worse than they may, or use a word to replace
python -m tools.prose --words        how many words each page has in all, as `wc -w` counts them
python -m tools.prose --docstrings   how many docstrings have a word to replace, by folder

Each paragraph and list item is read by itself. Code is left out. Tables and headings of pages have no sentences to
measure, but their words are checked as well. `tools/texts.py` says which texts are read beside the pages, and how.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools import texts as outside

ROOT: Final = Path(__file__).resolve().parents[1]

MOST_WORDS: Final = 25
"""A sentence that has more is to be split (CONTRIBUTING.md)."""
LONG: Final = 30
MEAN_ALLOWED: Final = 14.0
LONG_ALLOWED: Final = 0.02
"""The share of sentences of more than LONG words."""
REFERENCE: Final = ("cli.md", "reasons.md", "versions.md")
"""Pages to look things up in that people write; the others are generated."""

REPLACED: Final = {
    r"\b(?:in|out of) line\b": "queued",
    r"\bwho (?:runs|administers|operates) (?:it|the cluster|a cluster)\b": "cluster administrators",
    r"\b(?:for|to|let|from) who\b": "a noun for the actor",
    r"\bno(?:body| one)\b|\bwhoever\b|\b(?:any|every|some)body\b": "a noun for the actor",
    r"\bcom(?:e|es|ing) to nothing\b": "fails to start",
    r"\bwater levels?\b": "levels",
    r"\b(?:admission|lower|upper) levels?\b": "low watermark, admission threshold or eviction threshold",
    r"\bdefinitions\b": "CRDs",
    r"\bstart-overs?\b": "assumed checkpoint",
    r"\b(?:the|a|new) guard\b": "admission policies",
    r"\b(?:the|our|all|four) (?-i:services)\b": "components",
    r"\banew\b": "again",
    r"\b(?:of ours|our own|as it were)\b": "say whose, or leave it out",
    r"\bat risk\b": "unsaved work",
    r"(?<!by class: )\bordinary\b(?!-workload)": "regular",
    r"\brooms?\b": "capacity",
}
"""Patterns, and what to write instead; case does not matter."""

_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[)\"]*\s+(?=[\"(*`A-Z0-9])")
_WORD: Final = re.compile(r"[\w'`./-]*\w[\w'`./-]*")


def pages() -> list[Path]:
    """README and the pages of docs that people write."""
    docs = sorted((ROOT / "docs").glob("*.md"))
    return [ROOT / "README.md", *(page for page in docs if "<!-- generated" not in page.read_text().lower())]


def sentences(text: str) -> Iterator[str]:
    """The sentences of the paragraphs and list items of a Markdown text; code is one word."""
    tokens = _MARKDOWN.parse(text)
    for before, block in pairwise(tokens):
        if before.type == "paragraph_open" and block.children:
            prose = re.sub(r"\s+", " ", "".join(map(_spoken, block.children))).strip()
            yield from filter(_WORD.search, _SENTENCE_END.split(prose))


def spoken(text: str) -> Iterator[str]:
    """Each paragraph, list item, heading and cell of a Markdown text; code is one word."""
    for block in _MARKDOWN.parse(text):
        if block.type == "inline":
            yield re.sub(r"\s+", " ", "".join(map(_spoken, block.children or ()))).strip()


def _spoken(token: Token) -> str:
    return {"code_inline": "`code`", "text": token.content, "softbreak": " "}.get(token.type, "")


def words(sentence: str) -> int:
    """How many words it has."""
    return len(_WORD.findall(sentence))


def figures(found: Sequence[str]) -> tuple[float, float]:
    """Words a sentence, and the share of sentences that are long."""
    counts = [words(one) for one in found]
    return sum(counts) / len(counts), sum(count > LONG for count in counts) / len(counts)


def long(text: str) -> Iterator[str]:
    """The sentences that are to be split."""
    return (f"{count} words: {one}" for one in sentences(text) if (count := words(one)) > MOST_WORDS)


def replaced(text: str) -> Iterator[str]:
    """What has a word that the glossary has another one for."""
    for one in spoken(text):
        for pattern, instead in REPLACED.items():
            if match := re.search(pattern, one, re.IGNORECASE):
                yield f"{match[0]!r}, write {instead}: {one}"


def faults(text: str) -> Iterator[str]:
    """Every sentence to split and every word to replace."""
    yield from long(text)
    yield from replaced(text)


def measured(found: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, list[str]]:
    """The sentences of each page or kind of text."""
    return {name: [one for _, text in texts for one in sentences(text)] for name, texts in found.items()}


def worse(read: Mapping[str, Sequence[str]], limits: tuple[float, float]) -> list[str]:
    """What reads worse than it may."""
    return [name for name, one in read.items() if one and any(map(float.__gt__, figures(one), limits))]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where pages or texts read worse than they may")
    parser.add_argument("--texts", action="store_true", help="what to change in kinds of text outside of the pages")
    parser.add_argument("--words", action="store_true", help="how many words each page has in all")
    parser.add_argument("--docstrings", action="store_true", help="how many docstrings have a word to replace")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="a page, or with --texts a kind")
    args = parser.parse_args(argv)
    if args.docstrings:
        return _count_docstrings()
    if args.texts:
        chosen = {kind: [*outside.READERS[kind]()] for kind in args.pages or outside.READERS}
        _print(f"{where}: {line}" for found in chosen.values() for where, text in found for line in faults(text))
        return 0
    if args.pages:
        _print(line for page in args.pages for line in faults(Path(page).read_text()))
        return 0
    read = {page: page.read_text() for page in pages()}
    if args.words:
        return _count_words(read)
    return _judge(read, {kind: [*reader()] for kind, reader in outside.READERS.items()}, args.check)


def _judge(read: Mapping[Path, str], texts: Mapping[str, Sequence[tuple[str, str]]], check: bool) -> int:
    by_page = measured({_name(page): [("", text)] for page, text in read.items()})
    by_kind = measured(texts)
    docs = {"README and docs": [one for found in by_page.values() for one in found]}
    if not check:
        _print(f"{name:32} {sum(map(words, one)):6} words, {_spell(*figures(one))}" for name, one in by_page.items())
    old = [f"{_name(page)}: {line}" for page, text in read.items() for line in replaced(text)]
    old += [f"{where}: {line}" for found in texts.values() for where, text in found for line in replaced(text)]
    _print([*old, *(f"{name:32} {_spell(*figures(one))}" for name, one in {**docs, **by_kind}.items())])
    bad = worse({**docs, **by_kind}, (MEAN_ALLOWED, LONG_ALLOWED))
    _print(f"{name} has sentences that are too long" for name in bad)
    return int(check and bool(old or bad))


def _count_words(read: Mapping[Path, str]) -> int:
    counts = {page: len(text.split()) for page, text in read.items()}
    _print(f"{_name(page):32} {count:6}" for page, count in counts.items() if page.name not in REFERENCE)
    _print([f"{'all but the reference':32} {sum(n for page, n in counts.items() if page.name not in REFERENCE):6}"])
    return 0


def _count_docstrings() -> int:
    folders = Counter("/".join(where.split("/")[:2]) for where, text in outside.docstrings() if any(replaced(text)))
    _print([*(f"{folder:32} {count:6}" for folder, count in folders.items()), f"{'in all':32} {folders.total():6}"])
    return 0


def _print(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _name(page: Path) -> str:
    return os.path.relpath(page, ROOT)


def _spell(mean: float, share: float) -> str:
    return f"{mean:.1f} a sentence, {share:.1%} of more than {LONG}"


if __name__ == "__main__":
    sys.exit(main())
