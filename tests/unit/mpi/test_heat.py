"""The ends of a rank of the heat equation, without MPI."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

HEAT = Path(__file__).resolve().parents[3] / "demo-apps" / "mpi" / "heat.py"


@pytest.fixture
def heat(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, with modules of Debian's Python that are none."""
    for name in ("numpy", "numpy.typing", "mpi4py"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    sys.modules["mpi4py"].MPI.COMM_WORLD.Abort.side_effect = sys.exit  # it does not return
    spec = importlib.util.spec_from_file_location("heat", HEAT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "StopRequest", bool)
    return module


def test_a_rank_that_cannot_write_ends_all_of_them(heat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for it in the middle of a step, and it would wait for them in the end of MPI."""

    def execute(run: object) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr(heat.Run, "__init__", lambda *_: None)
    monkeypatch.setattr(heat.Run, "execute", execute)
    with pytest.raises(SystemExit) as ended:
        heat.main([])
    assert ended.value.code == heat.EXIT_FAILED
