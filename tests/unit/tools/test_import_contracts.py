"""What a core may import is a list: everything else is refused by lint-imports, also where another module brings it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONTRACT = """
[importlinter]
root_packages =
    lab
include_external_packages = True
contract_types =
    allowed: tools.import_contracts.AllowedContract

[importlinter:contract:pure]
name = pure
type = allowed
source_modules =
    lab.core
allowed_modules =
    math
    lab.shared
"""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("core", "shared", "refused"),
    [
        ("import math\nfrom lab.shared import one\nfrom lab.core.more import two\n", "import math\n", ""),
        ("import os\n", "", "lab.core.plan is not allowed to import os"),
        ("def late() -> None:\n    import os\n", "", "lab.core.plan is not allowed to import os"),
        ("import subprocess, socket\n", "", "lab.core.plan is not allowed to import socket"),
        ("import lab.client\n", "", "lab.core.plan is not allowed to import lab.client"),
        ("import lab.shared\n", "import os\n", "lab.shared is not allowed to import os"),
    ],
    ids=["allowed", "os", "in a function", "others", "another module", "through what is allowed"],
)
def test_imports(tmp_path: Path, core: str, shared: str, refused: str) -> None:
    package = tmp_path / "lab"
    files = {"__init__.py": "", "core/__init__.py": "", "core/more.py": "two = 2\n", "client.py": "import os\n"}
    for name, text in {**files, "core/plan.py": core, "shared.py": f"{shared}one = 1\n"}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (tmp_path / ".importlinter").write_text(CONTRACT)
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == bool(refused), done.stdout + done.stderr
    assert refused in done.stdout
