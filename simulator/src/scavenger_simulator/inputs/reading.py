"""Files of lines and fields, plain or gzipped, and errors that name the place and the remedy."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO


class InputError(Exception):
    """Something to be read cannot be used.

    problem: what is wrong, one sentence without a full stop. remedy: what to do about it. source: the file or address.
    line: from 1; 0 for the whole of it. field: its name.
    """

    def __init__(self, problem: str, remedy: str, *, source: str = "", line: int = 0, field: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        self.source = source
        self.line = line
        self.field = field
        place = [source] if source else []
        place += [f"line {line}"] if line else []
        place += [f"field {field}"] if field else []
        super().__init__(f"{', '.join(place)}: {problem}" if place else problem)


@dataclass(frozen=True, slots=True)
class Row:
    """A line with named fields."""

    source: str
    line: int
    fields: Mapping[str, str]

    def error(self, field: str, problem: str, remedy: str) -> InputError:
        """An error about one of the fields."""
        return InputError(problem, remedy, source=self.source, line=self.line, field=field)

    def text(self, field: str, default: str | None = None) -> str:
        """What stands there, or the default where nothing does. Raises InputError where there is neither."""
        value = self.fields.get(field, "").strip()
        if value:
            return value
        if default is None:
            raise self.error(field, "it is empty", "every line needs a value here")
        return default

    def number(self, field: str, *, least: float = 0.0, most: float = math.inf, default: float | None = None) -> float:
        """A finite number within limits, or the default where nothing stands. Raises InputError."""
        if default is not None and not self.fields.get(field, "").strip():
            return default
        text = self.text(field)
        try:
            value = float(text)
        except ValueError:
            raise self.error(field, f"{text!r} is not a number", "write digits, with a point for fractions") from None
        if not math.isfinite(value) or not least <= value <= most:
            limits = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
            raise self.error(field, f"{text} is out of range", f"write a number that is {limits}")
        return value


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1, without line ends; a file named .gz is unpacked on the way.
    Raises InputError."""
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n")
    except FileNotFoundError:
        raise InputError("there is no such file", "check the path", source=str(path)) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        remedy = "the file is damaged or not gzipped: fetch it again, or take .gz off its name"
        raise InputError(f"it cannot be unpacked: {error}", remedy, source=str(path), line=number + 1) from error
    except UnicodeDecodeError as error:
        remedy = "it must be text in UTF-8; a gzipped file's name must end in .gz"
        raise InputError(f"it is not text: {error.reason}", remedy, source=str(path), line=number + 1) from error
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", "check the path", source=str(path)) from error


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def rows(path: Path, required: Sequence[str], optional: Sequence[str] | None = None) -> Iterator[Row]:
    """The lines of a CSV file with a header; blank ones and those that begin with `#` are passed over.

    required: columns that must be there. optional: others that may; None for any. Raises InputError.
    """
    header: list[str] = []
    for number, line in lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        cells = next(csv.reader([line]))
        if not header:
            header = [cell.strip() for cell in cells]
            _check_header(str(path), number, header, required, optional)
        elif len(cells) != len(header):
            problem = f"it has {len(cells)} fields, the header {len(header)}"
            raise InputError(problem, "quote fields that contain commas", source=str(path), line=number)
        else:
            yield Row(str(path), number, dict(zip(header, cells, strict=True)))
    if not header:
        raise InputError("it is empty", f"its first line must name the columns {', '.join(required)}", source=str(path))


def _check_header(
    source: str, line: int, header: Sequence[str], required: Sequence[str], optional: Sequence[str] | None
) -> None:
    for name in required:
        if name not in header:
            remedy = f"the first line must name the columns {', '.join(required)}"
            raise InputError("the column is missing", remedy, source=source, line=line, field=name)
    for name in header if optional is not None else ():
        if name not in required and name not in (optional or ()):
            remedy = f"columns are {', '.join([*required, *(optional or ())])}"
            raise InputError("there is no such column", remedy, source=source, line=line, field=name)
