"""Every metric is of use to somebody: a dashboard, an alert or a page says what for."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "docs" / "metrics.md"
OF_KUBE_STATE_METRICS = "scavenger_job_"


def test_every_metric_is_shown_or_explained() -> None:
    listed = set(re.findall(r"^\| `(scavenger_\w+)", REFERENCE.read_text(), re.MULTILINE))
    assert len(listed) > 60, "or the list is read in the wrong way"
    used = [*(ROOT / "charts/scavenger-base/files").rglob("*.*"), *(ROOT / "docs").glob("*.md")]
    text = "\n".join(file.read_text() for file in used if file != REFERENCE)
    unused = {name for name in listed if not re.search(rf"{name}(_bucket|_sum|_count)?\b", text)}
    assert {name for name in unused if not name.startswith(OF_KUBE_STATE_METRICS)} == set()
