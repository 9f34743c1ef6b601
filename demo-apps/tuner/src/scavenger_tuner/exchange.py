"""The folder that tuners and jobs share: a folder for each attempt, in it configuration.json and what the job leaves.

What is read here was written by a program that anybody may have replaced: nothing but regular files of moderate size is
opened, no link is followed, and what is in them is checked.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from scavenger_tuner.core.endings import MESSAGE_LENGTH, Complaint, Left, Model, Result
from scavenger_tuner.core.trial import Configuration

CONFIGURATION: Final = "configuration.json"
RESULT: Final = "result.json"
FAILURE: Final = "failure.json"

MAX_BYTES: Final = 1 << 20

M = TypeVar("M", bound=Model)


def write_input(folder: Path, configuration: Configuration, wall_seconds: float, user: int) -> None:
    """Make the folder of an attempt, with its input; what is there already stays as it is.

    The file appears as a whole: a job never sees half of it. user: whom the job runs as; a tuner that runs as root,
    outside of the cluster, gives it the folder. Raises OSError.
    """
    folder.mkdir(mode=0o770, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, user, user)
    target = folder / CONFIGURATION
    if target.is_file() and not target.is_symlink():
        return
    draft = folder / f".{CONFIGURATION}.{os.getpid()}"
    draft.write_text(json.dumps(configuration.document(wall_seconds), indent=2) + "\n", encoding="utf-8")
    draft.chmod(0o644)
    draft.replace(target)


def read_left(folder: Path) -> Left:
    """What the job has left. A file that cannot be believed is as good as none, and said to be so. Raises OSError for
    what another try may mend."""
    troubles: list[str] = []
    result = _read(folder / RESULT, Result, troubles)
    complaint = _read(folder / FAILURE, Complaint, troubles)
    return Left(result, complaint, "; ".join(troubles)[:MESSAGE_LENGTH])


def _read(path: Path, model: type[M], troubles: list[str]) -> M | None:
    try:
        body = _bytes(path)
        return None if body is None else model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        troubles.append(f"{path.name}: {'.'.join(map(str, first['loc']))} {first['msg']}")
    except _UnbelievableError as error:
        troubles.append(f"{path.name}: {error}")
    return None


class _UnbelievableError(Exception):
    """No program of ours writes such a file."""


def _bytes(path: Path) -> bytes | None:
    """The content; None where there is no such file."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink():
            raise _UnbelievableError("is a link") from error
        raise
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise _UnbelievableError("is no file")
        body = file.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise _UnbelievableError(f"is larger than {MAX_BYTES} bytes")
    return body
