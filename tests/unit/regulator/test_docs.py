from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_picture_is_what_the_code_says() -> None:
    subprocess.run([sys.executable, "-m", "docs.draw_levels", "--check"], cwd=ROOT, check=True, timeout=30)


def test_every_setting_that_is_documented_exists() -> None:
    import re

    from scavenger_regulator.settings import RegulatorSettings

    text = (ROOT / "docs" / "levels.md").read_text()
    flags = set(re.findall(r"`--([a-z-]+?)[=`]", text)) - {"prometheus-..."}
    assert flags
    assert {flag.replace("-", "_") for flag in flags} <= set(RegulatorSettings.model_fields)
