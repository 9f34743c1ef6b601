"""The contract tests that the fake API server passes, against a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "contract"


def test_the_real_api_server_keeps_the_contract(kubeconfig: Path) -> None:
    """The fake one has kept it among the unit tests."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(TESTS), "-k", "real", "-q", "-p", "no:cacheprovider", "-rs"],
        env={**os.environ, "SCAVENGER_TEST_KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "names no cluster" not in done.stdout
