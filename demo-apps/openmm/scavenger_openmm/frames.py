"""The trajectory: the edge of the box and the oxygen atoms in each frame, in one file that grows."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from scavenger_openmm.analysis import Numbers


class Frames:
    """A file of frames of the same length: little-endian single precision, nm."""

    def __init__(self, path: Path, molecules: int) -> None:
        """`molecules`: of which a frame has a position each."""
        self._path = path
        self._numbers = 1 + 3 * molecules
        self._size = 4 * self._numbers

    def cut(self, count: int) -> bool:
        """Leave so many frames, the first ones; False, and all is left as it is, where there are fewer."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if os.fstat(descriptor).st_size < count * self._size:
                return False
            os.ftruncate(descriptor, count * self._size)
        finally:
            os.close(descriptor)
        return True

    def append(self, edge: float, positions: Numbers) -> None:
        """Write one more. It is on the disk when `flush` has been called."""
        frame = np.concatenate([[edge], positions.reshape(-1)]).astype("<f4")
        with self._path.open("ab") as file:
            file.write(frame.tobytes())

    def flush(self) -> None:
        """Have all of them on the disk: a checkpoint that counts on them is to be written."""
        with self._path.open("ab") as file:
            os.fsync(file.fileno())

    def read(self) -> tuple[Numbers, Numbers]:
        """The edge in each frame, and the positions: (frames, molecules, 3)."""
        found = np.fromfile(self._path, "<f4").reshape(-1, self._numbers).astype(np.float64)
        return found[:, 0], found[:, 1:].reshape(len(found), -1, 3)
