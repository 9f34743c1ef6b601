"""Files that are either the old ones or the new ones, and checkpoints that can be told from torn ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MAGIC: Final = b"scavenger-checkpoint 1 "
_HEADER: Final = len(_MAGIC) + 64 + 1  # a SHA-256 in hexadecimal, a line feed


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file so that a reader, at any moment and after any crash, sees all of the old or all of the new.

    The content goes to `PATH.new`, onto the disk, and is then renamed. Text is UTF-8. Raises OSError.
    """
    target = Path(path)
    with _flushed(target, content.encode() if isinstance(content, str) else content) as temporary:
        temporary.replace(target)
    _flush_folder(target.parent)


@dataclass(frozen=True)
class Loaded:
    """What was found of a checkpoint."""

    content: bytes | None
    """The newest state that is whole; None where there is none, and the work begins."""
    problems: tuple[str, ...] = ()
    """What was wrong with newer ones, a line each."""


class Store:
    """A checkpoint in one file, and the one before it in `PATH.previous`, to fall back to.

    Each carries the checksum of its content. One process at a time may write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`path`: of the checkpoint; its folder must exist."""
        self.current = Path(path)
        self.previous = self.current.with_name(f"{self.current.name}.previous")

    def save(self, content: bytes) -> None:
        """Write a checkpoint; the last one that is whole becomes the previous one. Raises OSError."""
        header = _MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n"
        with _flushed(self.current, header + content) as temporary:
            # A torn one must not take the place of a whole one.
            if isinstance(_read(self.current), bytes):
                self.current.replace(self.previous)
            temporary.replace(self.current)
        _flush_folder(self.current.parent)

    def load(self) -> Loaded:
        """The newest checkpoint that is whole. Raises OSError where one is there and may not be read."""
        problems: list[str] = []
        for file in (self.current, self.previous):
            found = _read(file)
            if isinstance(found, bytes):
                return Loaded(found, tuple(problems))
            if found is not None:
                problems.append(f"{file.name}: {found}")
        return Loaded(None, tuple(problems))


def _read(file: Path) -> bytes | str | None:
    """The content, what is wrong with it, or None for no file."""
    try:
        stored = file.read_bytes()
    except FileNotFoundError:
        return None
    content = stored[_HEADER:]
    if len(stored) < _HEADER or not stored.startswith(_MAGIC):
        return "it is cut short, or no checkpoint"
    if stored[len(_MAGIC) : _HEADER - 1] != hashlib.sha256(content).hexdigest().encode():
        return "its checksum is wrong: it is cut short or damaged"
    return content


@contextlib.contextmanager
def _flushed(target: Path, content: bytes) -> Iterator[Path]:
    """The content in a file beside the target, on the disk; what is left of it afterwards goes."""
    temporary = target.with_name(f"{target.name}.new")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _flush_folder(folder: Path) -> None:
    """Names live in the folder: without this a rename may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems know no fsync of folders
        pass
    finally:
        os.close(descriptor)
