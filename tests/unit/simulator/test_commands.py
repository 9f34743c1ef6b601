from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scavenger_prioritizer.core.snapshot import ShareOf
from scavenger_simulator.commands.changes import parse_changes, settings_of
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.main import main
from scavenger_simulator.settings import Settings

pytestmark = pytest.mark.slow

SMALL = ("diurnal", "--pods", "30", "--length", "3h", "--demand-share", "0.3", "--quiet")


def test_settings_have_the_names_of_the_chart() -> None:
    changes = parse_changes(
        ["reserve=15", "history-window=6h", "admission_margin=2.5", "metricsAge=20s", "perNode=true"]
    )
    assert changes == {
        "reserve": 15.0,
        "historyWindow": 21_600.0,
        "admissionMargin": 2.5,
        "metricsAge": 20.0,
        "perNode": True,
    }
    settings = settings_of(changes)
    assert (settings.regulator.reserve, settings.regulator.per_node, settings.metrics_age) == (15, True, 20)
    assert settings.history_window == 21_600
    assert settings_of({}) == Settings.of()


def test_what_decides_on_the_risk_is_one_setting_of_all_services() -> None:
    settings = settings_of(parse_changes(["startupCost=90s", "trustedInterval=1h", "minimumRun=true"]))
    assert settings.regulator.risk.minimum_run
    assert settings.preemption.minimum_run
    assert not settings_of({}).preemption.minimum_run
    risk, ranked, reclaimed = settings.regulator.risk, settings.prioritizer, settings.preemption
    assert risk.startup_cost == ranked.startup_cost / 1e6 == reclaimed.startup_cost / 1e6 == 90
    assert risk.trusted_interval == ranked.trusted / 1e6 == reclaimed.trusted / 1e6 == 3600


def test_what_all_components_read_alike_has_the_names_of_its_chart() -> None:
    words = ["startupCostSeconds=90", "trustedIntervalSeconds=1h", "minimumRun=true", "startOverWindowSeconds=0"]
    older = ["startupCost=90s", "trustedInterval=1h", "minimumRun=true", "startOverWindow=0"]
    assert settings_of(parse_changes(words)) == settings_of(parse_changes(older))


def test_a_value_that_is_left_open_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("settings: {startupCost: null, minimumRun: null, resourceWeights: null}\n")
    assert settings_of(parse_changes([], path)) == settings_of({})


def test_the_values_of_an_installation_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("replicas: 1\nsettings: {reserve: 30, period: 1m, logLevel: debug, order: [at-risk]}\n")
    changes = parse_changes(["reserve=25"], path)
    assert (changes["reserve"], changes["period"]) == (25.0, 60.0)
    assert settings_of(changes).regulator.eviction.order == ("at-risk",)
    assert "logLevel" not in changes


def test_level_policies_are_read_from_the_values_of_the_chart(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    policy = "{name: small, nodeSelector: {size: s}, levels: {cpu: {lower: 30, admission: 40, upper: 50}}}"
    path.write_text(f"settings: {{perNode: true}}\nlevelPolicies: [{policy}]\n")
    (found,) = settings_of(parse_changes([], path)).level_policies
    assert (found.name, found.selector, found.levels["cpu"].upper) == ("small", {"size": "s"}, 50)
    path.write_text(f"levelPolicies: [{policy}]\n")
    with pytest.raises(InputError, match="per"):
        settings_of(parse_changes([], path))


def test_what_all_components_read_alike_is_read_from_the_values_of_its_chart(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(
        "startupCostSeconds: 90\ntrustedIntervalSeconds: 3600\nstartOverWindowSeconds: 0\nminimumRun: true\n"
        "resourceWeights: {cpu: 1, memory: 0.25, example.com/fpga: 4}\ndashboards: {enabled: true}\n"
    )
    words = ["startupCostSeconds=90", "trustedIntervalSeconds=1h", "minimumRun=true", "startOverWindowSeconds=0"]
    words.append("resourceWeights=cpu=1,memory=0.25,example.com/fpga=4")
    assert settings_of(parse_changes([], base)) == settings_of(parse_changes(words))


def test_the_values_of_both_charts_go_together(tmp_path: Path) -> None:
    """One after the other, or as those of the chart scavenger."""
    base, regulator, whole = (tmp_path / f"{name}.yaml" for name in ("base", "regulator", "whole"))
    base.write_text("startupCostSeconds: 90\nresourceWeights: null\n")
    regulator.write_text("settings: {reserve: 30}\n")
    whole.write_text(
        "scavenger-base: {startupCostSeconds: 90, resourceWeights: null}\n"
        "scavenger-regulator: {settings: {reserve: 30}}\n"
    )
    for files in ((base, regulator), (regulator, base), (whole,)):
        settings = settings_of(parse_changes([], *files))
        assert settings.prioritizer.startup_cost == settings.preemption.startup_cost == 90_000_000
        assert settings.regulator.reserve == 30
    assert settings_of(parse_changes(["startupCost=5"], base)).preemption.startup_cost == 5_000_000
    assert settings_of(parse_changes([], base, base)) == settings_of(parse_changes([], base))


def test_the_start_over_window_is_the_prioritizers() -> None:
    settings, before = settings_of(parse_changes(["startOverWindow=5m"])), settings_of({})
    assert settings.prioritizer == replace(before.prioritizer, window=300_000_000)
    assert (settings.preemption, settings.regulator) == (before.preemption, before.regulator)


def test_what_gangs_owe_and_what_the_percentage_is_of_can_be_set() -> None:
    settings, before = settings_of(parse_changes(["reclaimGangs=true", "shareOf=capped-requests"])), settings_of({})
    assert (before.preemption.gangs, before.prioritizer.share_of) == (False, ShareOf.JOBS)
    assert (settings.preemption.gangs, settings.prioritizer.share_of) == (True, ShareOf.CAPPED_REQUESTS)
    again = settings_of(parse_changes(["reclaimGangs=false", "shareOf=jobs"]))
    assert (again.preemption, again.prioritizer) == (before.preemption, before.prioritizer)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("startOverWindow=-1", "docs/levels.md"),
        ("shareOf=cores", "docs/levels.md"),
        ("reclaimGangs=perhaps", "docs/levels.md"),
        ("reserve", "NAME=VALUE"),
        ("reserv=5", "reserve"),
        ("reserve=lots", "docs/levels.md"),
        ("reserve=101", "docs/levels.md"),
        ("order=alphabet", "docs/levels.md"),
        ("metricsAge=soon", "docs/levels.md"),
        ("initialLower=90", "docs/settings.md"),
        ("throttle=true", "docs/settings.md"),
        ("metricsAge=61", "docs/settings.md"),
    ],
)
def test_a_setting_that_is_none_is_refused(word: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        settings_of(parse_changes([word]))
    assert said in caught.value.remedy


@pytest.mark.parametrize("text", ["[]", "settings: 5", "{", "replicas: 2"])
def test_a_file_without_settings_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        parse_changes([], path)
    assert caught.value.source == str(path)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_is_told_elsewhere_only_when_it_takes_long() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock)
    progress.told("reading")
    clock.now = 4.9
    progress.share(0.2)
    assert stream.getvalue() == ""
    clock.now = 5.0
    progress.share(0.25)
    clock.now = 14.9
    progress.share(0.9)
    assert stream.getvalue() == "reading: 25%\n"
    clock.now = 15.0
    progress.told("running")
    progress.clear()
    assert stream.getvalue() == "reading: 25%\nrunning\n"


def test_progress_on_a_terminal_is_one_line_that_goes_away() -> None:
    stream, clock = Terminal(), Clock()
    progress = Progress(stream, clock)
    progress.told("a")
    progress.share(0.5)
    clock.now = 1.0
    progress.share(0.6)
    progress.told("x" * 200)
    progress.clear()
    progress.clear()
    assert "\n" not in stream.getvalue()
    drawn = [line.rstrip() for line in stream.getvalue().split("\r")]
    assert drawn == ["", "a", "a: 60%", "x" * 78, "", ""]
    silent = Terminal()
    Progress(silent, clock, silent=True).told("a")
    assert silent.getvalue() == ""


def test_policies_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["compare", *SMALL, "--policies", "ours,youngest,none", "--html", str(page), "--set", "reserve=10"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.split("\n\n")[1].splitlines()] == [
        "policy",
        "ours",
        "youngest",
        "none",
    ]
    assert str(page) in shown.err
    assert "<svg" in page.read_text()
    assert main([*words, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    ours, youngest, none = document["scenarios"][0]["policies"]
    assert ours["harvested"] > 0
    assert youngest["utilisation"] > none["utilisation"] == ours["utilisationWithout"]
    assert none["harvested"] == 0
    assert document["scenarios"][0]["settings"] == {"reserve": 10.0}


@pytest.mark.timeout(300)  # two processes, on a machine that may be busy
def test_the_same_seed_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    found = []
    for number in ("1", "2"):
        page = tmp_path / f"{number}.html"
        words = ["compare", *SMALL, "--policies", "ours,random", "-o", "json", "--seed", "5", "--html", str(page)]
        environment = {**os.environ, "PYTHONHASHSEED": number}
        program = [sys.executable, "-m", "scavenger_simulator", *words]
        answer = subprocess.run(program, env=environment, capture_output=True, check=True)
        found.append((answer.stdout, page.read_bytes()))
    assert found[0] == found[1]
    assert found[0][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "weekly"], "diurnal"),
        (["run", "prometheus"], "--prometheus-url"),
        (["run", "diurnal", "--set", "reserve=x"], "docs/levels.md"),
        (["run", "diurnal", "--length", "0"], "--length"),
        (["run", "diurnal", "--demand", "csv:/nonexistent.csv"], "check the path"),
        (["run", *SMALL, "--html", "/nonexistent/page.html"], "can be written"),
        (["tune", *SMALL], "one day"),
    ],
)
def test_what_cannot_be_done_is_said_with_a_remedy(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert said in shown


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["run"],
        ["run", "diurnal", "--policy", "best"],
        ["compare", "diurnal", "--policies", "ours,best"],
        ["run", "diurnal", "--job", "grace"],
        ["run", "diurnal", "--job", "grace=normal:1:2"],
        ["run", "diurnal", "--queue", "lab=0"],
        ["run", "diurnal", "--requested", "1.5"],
        ["run", "diurnal", "--length", "soon"],
        ["run", "prometheus", "--to", "yesterday"],
    ],
)
def test_a_wrong_command_line_ends_with_two(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_how_jobs_behave_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", *SMALL, "-o", "json"]
    found = []
    for more in ([], ["--job", "restart=20m", "--job", "cpu-use=0.5"], ["--queue", "default=3"]):
        assert main([*words, *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["scenarios"][0]["policies"][0])
    plain, lazy, weighted = found
    assert lazy["utilisation"] < plain["utilisation"]
    assert weighted == plain, "one queue alone has all there is"


def test_a_replaced_setting_is_that_of_the_services() -> None:
    settings = settings_of({"floor": 50.0})
    assert settings.regulator == replace(Settings.of().regulator, floor=50.0)
