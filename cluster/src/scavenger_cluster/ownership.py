"""Whose a data folder is. A marker in it decides, so that nothing is deleted or ended that is not the cluster's own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scavenger_cluster.errors import ClusterError
from scavenger_cluster.layout import Layout, cache_dir, state_dir
from scavenger_cluster.state import read_json, write_json

ABOUT = "The data folder of an embedded cluster: `scavenger-cluster down` deletes it with all that is in it."


def check(layout: Layout, name: str) -> None:
    """Raise ClusterError unless the folder is this cluster's and user's, empty, or not there. Changes nothing."""
    folder = layout.root
    try:
        _check_place(folder)
        if folder.exists():
            _check_folder(layout, name)
    except OSError as error:
        raise ClusterError(f"--data-dir {folder}: {error.strerror}; choose a folder that is yours") from error


def owner(layout: Layout) -> str | None:
    """Return the name of the cluster the folder belongs to; None if there is no marker that says so."""
    name = _marker(layout).get("cluster")
    return str(name) if name else None


def claim(layout: Layout, name: str) -> None:
    """Make the folder the cluster's own, unless it is. The lock must be held, and `check` must have been passed."""
    if owner(layout) != name:
        write_json(layout.marker, {"cluster": name, "uid": os.geteuid(), "about": ABOUT})


def made_by_locking(layout: Layout) -> tuple[Path, ...]:
    """Return the folders that are ours to remove if no cluster comes of it, innermost first.

    Those are what taking the lock is going to make; the data folder itself also when a command that was killed may have
    left it, but not when it was found empty.
    """
    folder = layout.root
    if folder.is_dir() and not any(folder.iterdir()):
        return ()
    return (folder, *(parent for parent in folder.parents if not parent.exists()))


def tidy(layout: Layout, folders: Iterable[Path]) -> None:
    """Remove marker, lock and then `folders`, if there is nothing else in the folder.

    The lock must be held, and `check` must have been passed since.
    """
    if not layout.root.is_dir() or _contents(layout) - {layout.marker.name}:
        return
    remove_ownership(layout)
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_ownership(layout: Layout) -> None:
    """Remove the marker, then the lock, from a folder that is empty otherwise.

    In this order: a folder with nothing but a lock counts as empty, so whoever is interrupted here may try again.
    """
    for file in (layout.marker, _half_written(layout), layout.lock):
        file.unlink(missing_ok=True)


def _check_place(folder: Path) -> None:
    """Refuse what holds more than a cluster, or vanishes with another one, whatever is in it."""
    if held := [path for path in _kept_places() if path.is_relative_to(folder)]:
        raise ClusterError(
            f"--data-dir {folder}: {held[0]} is there, which no `down` may delete; choose another folder"
        )
    for parent in folder.parents:
        if Layout(parent).marker.exists():
            raise ClusterError(
                f"--data-dir {folder} is inside {parent}, the data folder of another cluster, "
                "and would be deleted with it; choose another folder"
            )


def _check_folder(layout: Layout, name: str) -> None:
    folder, marker, marker_name = layout.root, _marker(layout), layout.marker.name
    if not folder.is_dir():
        raise ClusterError(f"--data-dir {folder} is not a folder; choose one that is new or empty")
    if not marker.get("cluster"):
        if _contents(layout):
            raise ClusterError(
                f"--data-dir {folder} is not empty and not the data folder of a cluster: it has no {marker_name} "
                "that names one. Nothing was changed; give `up` a new or empty folder, and any other command the one "
                "that `up` was given"
            )
    elif marker["cluster"] != name:
        raise ClusterError(
            f"--data-dir {folder} is the data folder of cluster {marker['cluster']}, not of {name}. "
            f"Nothing was changed; give --name {marker['cluster']}, or another folder"
        )
    elif marker.get("uid", os.geteuid()) != os.geteuid():
        raise ClusterError(
            f"--data-dir {folder} is the data folder of a cluster of another user (uid {marker['uid']}; we are "
            f"{os.geteuid()}). Nothing was changed; run this as that user, or choose another folder"
        )


def _kept_places() -> list[Path]:
    """The user's home, and the folders in which all clusters keep something."""
    places = [state_dir(), cache_dir()]
    with contextlib.suppress(RuntimeError):  # a user without a home
        places.append(Path.home())
    return [place.resolve() for place in places]


def _marker(layout: Layout) -> dict[str, Any]:
    return read_json(layout.marker)


def _half_written(layout: Layout) -> Path:
    """What `write_json` leaves of the marker when it is killed."""
    return layout.marker.with_name(f"{layout.marker.name}.new")


def _contents(layout: Layout) -> set[str]:
    """The names in the folder, but for a lock of ours (an empty file) and a marker that was only begun."""
    names = {entry.name for entry in layout.root.iterdir()} - {_half_written(layout).name}
    is_ours = layout.lock.is_file() and layout.lock.stat().st_size == 0
    return names - {layout.lock.name} if is_ours else names
