"""Settings: three sources, one class, and words that help."""

from __future__ import annotations

import pytest
from pydantic import SecretStr
from scavenger_runtime.settings import Names, Seconds, ServiceSettings, option


class Settings(ServiceSettings):
    """A service for the tests."""

    period: Seconds = option(60.0, "between looks", unit="seconds", gt=0)
    reserve: float = option(20.0, "of each node is left free", unit="percent", ge=0, le=100)
    tolerated: Names = option(("a", "b"), "taints that do not count")
    token: SecretStr = option(SecretStr(""), "for the metrics API")


def test_flags_win_over_environment_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCAVENGER_PERIOD", "5m")
    monkeypatch.setenv("SCAVENGER_HEALTH_PORT", "9000")
    monkeypatch.setenv("SCAVENGER_TOLERATED", "x, y")
    settings = Settings.load(["--health-port", "9001", "--leader-elect=false", "--lease-duration", "1m30s"])
    assert settings.period == 300.0
    assert settings.health_port == 9001
    assert settings.tolerated == ("x", "y")
    assert settings.lease_duration == 90.0
    assert settings.leader_elect is False
    assert settings.namespace == "scavenger-system"


def test_a_bare_boolean_flag_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCAVENGER_LEADER_ELECT", "false")
    assert Settings.load([]).leader_elect is False
    assert Settings.load(["--leader-elect"]).leader_elect is True


def test_identities_are_unique() -> None:
    assert Settings.load([]).identity != Settings.load([]).identity


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        (["--health-port", "x"], {}, "--health-port (SCAVENGER_HEALTH_PORT): "),
        (["--reserve=101"], {}, "--reserve (SCAVENGER_RESERVE): "),
        ([], {"SCAVENGER_PERIOD": "soon"}, "--period (SCAVENGER_PERIOD): expected seconds or a duration"),
        (["--log-level", "loud"], {}, "--log-level (SCAVENGER_LOG_LEVEL): "),
        (["--renew-deadline=20"], {}, "lease-duration > renew-deadline"),
        (["--metrics-auth=token"], {}, "metrics-auth needs metrics-tls-folder: tokens would be sent unencrypted"),
        (["--metrics-port=9000"], {}, "metrics-port needs metrics-tls-folder"),
        ([], {"SCAVENGER_METRICS_PORT": "8443"}, "in clear, /metrics is on health-port"),
        (["--metrics-tls-folder=/tls", "--metrics-port=8080"], {}, "metrics-port and health-port must differ"),
        (["--metrics-tls-folder=/tls", "--metrics-auth=basic"], {}, "--metrics-auth (SCAVENGER_METRICS_AUTH): "),
    ],
)
def test_a_bad_value_is_one_clear_line(
    argv: list[str],
    env: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        Settings.load(argv)
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert said in text
    assert text.count("\n") == 1


def test_an_unknown_flag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Settings.load(["--helath-port", "1"])
    assert ended.value.code == 2
    assert "--helath-port" in capsys.readouterr().err


def test_help_names_every_setting_with_unit_default_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Settings.load(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in text
        assert f"env: SCAVENGER_{name.upper()}" in text
    assert "of each node is left free (default: 20 percent;" in text
    assert "between looks (default: 60 seconds;" in text


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCAVENGER_TOKEN", "hunter2")
    settings = Settings.load([])
    assert settings.token.get_secret_value() == "hunter2"
    assert "hunter2" not in str(settings.shown())
