"""Names of clusters, asked for by several processes at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
from scavenger_testing.cluster_names import cluster_name
print(cluster_name("e2e"), cluster_name("e2e"), cluster_name("demo"), flush=True)
sys.stdin.read()
"""


def test_a_name_is_one_process_s_until_that_ends(tmp_path: Path) -> None:
    def ask() -> subprocess.Popen[str]:
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=pipe, stdout=pipe, text=True, env=environment)

    def told(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    with ask() as first:
        assert told(first) == "e2e e2e demo"
        with ask() as second:
            assert told(second) == "e2e-2 e2e-2 demo-2"
            with ask() as third:
                assert told(third) == "e2e-3 e2e-3 demo-3"
                third.communicate()
            second.communicate()
        with ask() as again:
            assert told(again) == "e2e-2 e2e-2 demo-2"
            again.communicate()
        first.communicate()
