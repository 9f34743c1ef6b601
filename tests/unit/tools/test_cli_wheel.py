"""The wheel of `kubectl sj`: one for every platform, which `uv tool install` and `pipx` take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
UV = str(ROOT / "tools" / "uv")
NOT_ON_WINDOWS = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make release PARTS=wheels` builds it."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [UV, "build", "--quiet", "--wheel", "--no-create-gitignore", f"--out-dir={folder}"]
    subprocess.run([*build, ROOT / "cli" / "distribution"], check=True, cwd=ROOT)
    (built,) = folder.iterdir()
    return built


def test_one_wheel_is_for_every_platform_and_architecture(wheel: Path) -> None:
    assert wheel.name == f"kubectl_sj-{version.current().replace('-', '')}-py3-none-any.whl"


def test_uv_tool_install_makes_a_command_that_runs(wheel: Path, tmp_path: Path) -> None:
    variables = os.environ | {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    variables.pop("VIRTUAL_ENV", None)
    words = [UV, "tool", "install", "--quiet", f"--python={sys.executable}", str(wheel)]
    subprocess.run(words, check=True, env=variables, cwd=tmp_path)
    command = tmp_path / "bin" / "kubectl-sj"
    done = subprocess.run([command, "--help"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert "why" in done.stdout
    said = subprocess.run([command, "version", "--client"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout == f"Client: {version.current()}\n"


def test_no_module_is_needed_that_windows_has_not() -> None:
    script = "\n".join(
        (
            "import signal, sys",
            f"sys.modules.update(dict.fromkeys({NOT_ON_WINDOWS!r}))",
            "[delattr(signal, name) for name in ('SIGHUP', 'SIGPIPE', 'SIGWINCH', 'SIGQUIT', 'SIGKILL')]",
            "from scavenger_cli.main import main",
            "sys.argv = ['kubectl-sj', '--help']",
            "main()",
        )
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "why" in done.stdout
