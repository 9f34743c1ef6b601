from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_setting_that_is_documented_exists() -> None:
    import re

    from scavenger_regulator.settings import RegulatorSettings

    text = (ROOT / "docs" / "levels.md").read_text()
    flags = set(re.findall(r"`--([a-z-]+?)[=`]", text)) - {"prometheus-..."}
    assert flags
    assert {flag.replace("-", "_") for flag in flags} <= set(RegulatorSettings.model_fields)
