"""What a tuner is told reaches what decides."""

from __future__ import annotations

import pytest
from scavenger_tuner.core.endings import Patience
from scavenger_tuner.settings import TunerSettings


def test_flags_reach_the_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCAVENGER_DATABASE_URL", "postgresql://tuner:secret@db/tuner")
    settings = TunerSettings.load(
        [
            "--namespace=science",
            "--max-cores=8",
            "--max-attempts=3",
            "--wall-time=1h",
            "--too-large-after=1m",
            "--give-up-after=6h",
        ]
    )

    assert (settings.limits().max_cores, settings.limits().max_attempts) == (8, 3)
    assert settings.patience() == Patience(wall_time=5400.0, too_large=60.0, no_room=21600.0)
    assert settings.site().namespace == "science"
    assert "secret" not in str(settings.shown())
    assert settings.database_url.get_secret_value() == "postgresql://tuner:secret@db/tuner"


def test_a_job_that_finds_no_capacity_is_withdrawn_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCAVENGER_DATABASE_URL", "postgresql://tuner:secret@db/tuner")
    patience = TunerSettings.load([]).patience()
    assert 0 < patience.no_room <= patience.wall_time


@pytest.mark.parametrize("flag", ["--instance=Tuner", "--instance=" + "a" * 21, "--instance=a-", "--concurrency=0"])
def test_what_no_name_can_be_made_of_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        TunerSettings.load([flag])

    assert flag.split("=")[0] in capsys.readouterr().err
