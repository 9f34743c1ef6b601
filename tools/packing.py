"""Archives that are the same whenever, wherever and by whomever they are packed."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import IO, cast


def repack(source: Path, target: Path, epoch: int) -> None:
    """Write what a .tar or .tgz holds anew: sorted by name, of root, of this time (seconds since 1970), all may read.

    The target is compressed where its name ends with .tgz. A program stays one. Raises tarfile.TarError for an entry
    that is neither file nor folder.
    """
    with tarfile.open(source) as old, tempfile.TemporaryFile() as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in sorted(old.getmembers(), key=lambda member: member.name):
                new.addfile(_plain(member, epoch), old.extractfile(member) if member.isfile() else None)
        packed.seek(0)
        with target.open("wb") as file:
            if target.suffix == ".tgz":
                # Without a name in its header, which gzip takes from the file otherwise.
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
                    shutil.copyfileobj(packed, cast(IO[bytes], compressed))
            else:
                shutil.copyfileobj(packed, file, io.DEFAULT_BUFFER_SIZE * 16)


def _plain(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    """The entry without what differs from machine to machine."""
    if not (member.isfile() or member.isdir()):
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
    info = tarfile.TarInfo(member.name)
    info.type = member.type
    info.size = member.size
    info.mtime = epoch
    info.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return info
