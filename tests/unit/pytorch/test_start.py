"""The start of the training, with a torch that is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scavenger_cluster import stack

TORCH = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nraise SystemExit(7)\n"


def test_who_is_told_to_end_while_torch_is_loaded_has_heard_it(tmp_path: Path) -> None:
    """Process 1 does not get a signal at all that it has no handler for, and torch takes seconds to load."""
    (tmp_path / "torch.py").write_text(TORCH)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "scavenger_pytorch"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}{os.pathsep}{stack.python_path('pytorch')}"},
        check=False,
    )
    assert done.returncode == 7
