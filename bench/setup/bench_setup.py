"""How long a new user waits: `make demo` in a fresh clone with empty caches, and once more.

Everything that is fetched or built goes into folders of this benchmark: Python packages, Go modules, Go's build cache,
programs, images. Only Debian packages cannot be taken away: where they are installed already, as the line it prints
says, getting them is not part of the figure. What is measured is the last commit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scavenger_cluster import requirements

from bench import Skipped

Figure = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CACHES = ("SCAVENGER_CACHE", "GOCACHE", "GOMODCACHE", "UV_CACHE_DIR", "XDG_STATE_HOME")


def run() -> list[Figure]:
    """Seconds from `make demo` to its end, cold and warm."""
    if reasons := requirements.obstacles():
        raise Skipped(f"without real nodes the demo is another one: {'; '.join(reasons)}")
    missing = [*requirements.missing_node_packages(), *requirements.missing_image_packages()]
    print(f"  Debian packages still to be installed: {' '.join(missing) or 'none'}", file=sys.stderr, flush=True)
    folder = Path(tempfile.mkdtemp(prefix="scavenger-setup-"))
    environment = {**os.environ, **{name: str(folder / name.lower()) for name in CACHES}}
    environment.pop("VIRTUAL_ENV", None)  # of this process: the clone makes one of its own
    try:
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        cold = _demo(clone, environment)
        warm = _demo(clone, environment)
    finally:
        # The files of Go's module cache are read-only: only go removes them.
        subprocess.run(["go", "clean", "-modcache"], env=environment, cwd=folder, check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return [
        {"name": "setup.cold_demo_seconds", "value": cold, "unit": "s", "goal": "<= 600"},
        {"name": "setup.warm_demo_seconds", "value": warm, "unit": "s", "goal": "<= 240"},
    ]


def _demo(clone: Path, environment: dict[str, str]) -> float:
    began = time.monotonic()
    with subprocess.Popen(
        ["make", "demo"], cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            sys.stderr.write(f"  {line}")
            sys.stderr.flush()
    if demo.returncode:
        raise RuntimeError(f"make demo ended with {demo.returncode}")
    return time.monotonic() - began
