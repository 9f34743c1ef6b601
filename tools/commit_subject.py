"""Whether the subject of a commit says a change, shortly: `where: imperative …`, in at most 72 characters.

    python -m tools.commit_subject FILE           of a message that is being written, as the commit-msg hook calls it
    python -m tools.commit_subject --range A..B   of commits that are there

Subjects that git itself writes (merges, reverts, fixups) are as they are.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

MOST: Final = 72
"""Characters: what `git log --oneline` and forges show without a cut."""
OF_GIT: Final = re.compile(r"(?:Merge|Revert|fixup!|squash!|amend!) ?")
SHAPE: Final = re.compile(r"(?P<where>[a-zA-Z][\w ,./-]*): (?P<verb>[\w'-]+),?(?: .*)?")
NO_VERBS: Final = re.compile(
    r"an?|the|all|any|each|every|no|who|what|which|when|where|how|its?|this|that|there|these|those|they|we|you|nobody|"
    r"for|from|in|of|on|to|with|without|jobs|pods|tests"
)
"""First words of subjects that state how things are."""
OTHER_FORMS: Final = re.compile(r"(?:\w{3,}ed|\w{3,}ing|\w{2,}[^su]s|is|was|are|were|has|had)")
"""Of verbs: added, adding, adds."""
IMPERATIVES: Final = re.compile(r"embed|\w*ceed|feed|need|seed|shed|speed|bring")
"""That look like such a form."""


def wrong(subject: str) -> Iterator[str]:
    """What is wrong with the subject of a commit."""
    if OF_GIT.match(subject):
        return
    if len(subject) > MOST:
        yield f"it has {len(subject)} characters, and {MOST} are allowed"
    shaped = SHAPE.fullmatch(subject)
    if shaped is None:
        yield "write where the change is, a colon, and the change: `admitter: keep the turn per pool`"
        return
    verb = shaped["verb"].lower()
    if NO_VERBS.fullmatch(verb) or (OTHER_FORMS.fullmatch(verb) and not IMPERATIVES.fullmatch(verb)):
        yield f"write the change as an order, such as `add` or `keep`, and not {shaped['verb']!r}"


def subject_of(message: str) -> str:
    """The first line that is no comment; git cuts off the others."""
    return next((line.strip() for line in message.splitlines() if line.strip() and not line.startswith("#")), "")


def of_range(commits: str) -> list[str]:
    """The subjects of commits, as `git log` takes them. Raises subprocess.CalledProcessError."""
    words = ["git", "log", "--format=%s", commits]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def main(words: Sequence[str] | None = None) -> int:
    """Command line. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.commit_subject", description=__doc__.partition("\n")[0])
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("file", nargs="?", type=Path, metavar="FILE", help="with the message of a commit")
    chosen.add_argument("--range", metavar="A..B", help="commits that are there")
    args = parser.parse_args(words)
    subjects = of_range(args.range) if args.range else [subject_of(args.file.read_text())]
    found = [f"{subject!r}: {fault}\n" for subject in subjects for fault in wrong(subject)]
    sys.stderr.writelines(found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
