"""The commands of a page of documentation, to be run as a user pastes them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(`{3,}|~{3,})(\w*)\n(.*?)^\1$\n?", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?: {4}.*\n(?:\n(?= {4}))*)+")
_PROMPT = "$ "


def blocks(page: Path, heading: str, language: str = "sh") -> list[str]:
    """The blocks of shell commands (```sh), or of another language, under a heading such as `## Uninstall`, and under
    those below it.

    Raises ValueError where there is no such heading, or nothing to paste under it.
    """
    found = [fence[3] for fence in _FENCE.finditer(_section(page, heading)[1]) if fence[2] == language]
    if not found:
        raise ValueError(f"{page.name} has no {'commands' if language == 'sh' else language} under {heading!r}")
    return found


def _section(page: Path, heading: str) -> re.Match[str]:
    until = rf"(?=^#{{1,{len(heading.partition(' ')[0])}}} |\Z)"
    found = re.search(rf"^{re.escape(heading)}\n(.*?){until}", page.read_text(), re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{page.name} has no heading {heading!r}")
    return found


@dataclass(frozen=True)
class Block:
    """What a page has users paste at once, and the lines that it says are then printed."""

    page: Path
    line: int
    script: str
    printed: str = ""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def commands(page: Path, programs: Collection[str], heading: str = "") -> list[Block]:
    """Everything of a page that is meant for a shell, or of what is under a heading of it, in order.

    That is blocks of `sh` and `bash`; in blocks of `console` what follows a prompt, with its further lines behind
    `> ` or a backslash; and indented blocks that begin with one of `programs`, or with a prompt.
    """
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start(3)) + 1
        if fence[2] in ("sh", "bash"):
            found.append(Block(page, line, fence[3]))
        elif fence[2] == "console":
            found += list(_prompted(page, line, fence[3]))
    rest = _FENCE.sub(lambda fence: "~\n" * fence[0].count("\n"), text)
    for block in _INDENTED.finditer(rest):
        line = rest.count("\n", 0, block.start()) + 1
        script = textwrap.dedent(block[0])
        if script.startswith(_PROMPT):
            found += list(_prompted(page, line, script))
        elif re.split(r"[\s=]", script, maxsplit=1)[0] in programs:
            found.append(Block(page, line, script))
    first, last = 0, text.count("\n") + 1
    if heading:
        first, last = (text.count("\n", 0, at) + 1 for at in _section(page, heading).span())
    return sorted((block for block in found if first <= block.line <= last), key=lambda block: block.line)


def _prompted(page: Path, first: int, text: str) -> Iterator[Block]:
    """Each command of a block with prompts, and what it prints."""
    script, printed, line = "", "", first
    for number, written in enumerate(text.splitlines(keepends=True), first):
        if written.startswith(_PROMPT):
            if script:
                yield Block(page, line, script, printed)
            script, printed, line = written.removeprefix(_PROMPT), "", number
        elif script and not printed and (written.startswith("> ") or script.endswith("\\\n")):
            script += written.removeprefix("> ")
        else:
            printed += written
    if script:
        yield Block(page, line, script, printed)
