"""Every alert fires when it should, is quiet when it should not, as promtool computes it, and leads to its runbook."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_testing import debian

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.dashboards.__main__ import RULES
from tools.dashboards.catalogue import ROOT

RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
LAG = "scavenger_event_loop_lag_seconds_bucket"
API = "scavenger_api_requests_total"
LOST, USEFUL = "scavenger_lost_cpu_seconds_total", "scavenger_useful_cpu_seconds_total"
EXPIRY = "scavenger_webhook_certificate_expiry_timestamp_seconds"


@dataclass(frozen=True)
class Case:
    """What Prometheus sees, a sample a minute, in promtool's notation, and what follows.

    quiet, firing: minutes at which the alert does not fire, and does. labels: of the alert, without the severity.
    """

    alert: str
    series: dict[str, str]
    quiet: tuple[int, ...] = ()
    firing: tuple[int, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    well: str = ""
    """What all series have where nothing is wrong; each holds its first value, if empty."""


def web(service: str) -> dict[str, str]:
    return {"job": f"scavenger-{service}"}


CASES = [
    Case(
        "ScavengerOrdinaryPodsWait",
        {"scavenger_ordinary_pods_waiting": "0x10 3x30", 'scavenger_jobs{phase="Running",queue="a"}': "5x40"},
        quiet=(5, 15),
        firing=(30,),
    ),
    Case(  # a cluster that is full of ordinary pods
        "ScavengerOrdinaryPodsWait",
        {"scavenger_ordinary_pods_waiting": "3x40", 'scavenger_jobs{phase="Waiting",queue="a"}': "5x40"},
        quiet=(30,),
    ),
    Case("ScavengerOrdinaryPodsWait", {"scavenger_ordinary_pods_waiting": "3 0 3 0 3 0 3 0 3 0 3 0 3 0"}, quiet=(12,)),
    Case(
        "ScavengerBlind",
        {
            'scavenger_regulator_state{state="Blind",pool="default",instance="a"}': "0x40",
            'scavenger_regulator_state{state="Blind",pool="gpu",instance="a"}': "0x10 1x30",
            'scavenger_regulator_state{state="Blind",pool="gpu",instance="b"}': "0x40",
        },
        quiet=(9, 18),
        firing=(25,),
        labels={"pool": "gpu"},
    ),
    Case(
        "ScavengerLevelsStale",
        {'scavenger_regulator_observation_timestamp_seconds{pool="gpu"}': "0+60x60"},
        quiet=(5, 60),
        labels={"pool": "gpu"},
    ),
    Case(
        "ScavengerLevelsStale",
        {
            'scavenger_regulator_observation_timestamp_seconds{pool="default",instance="a"}': "0+60x50",
            'scavenger_regulator_observation_timestamp_seconds{pool="gpu",instance="a"}': "0+60x10 600x40",
            'scavenger_regulator_observation_timestamp_seconds{pool="gpu",instance="standby"}': "0x50",
        },
        quiet=(14, 18),
        firing=(30,),
        labels={"pool": "gpu"},
    ),
    Case(
        "ScavengerLevelsStale",
        {'scavenger_regulator_observation_timestamp_seconds{pool="gpu"}': " ".join(["NaN"] * 40)},
        quiet=(30,),
        labels={"pool": "gpu"},
    ),
    Case(
        "ScavengerNobodyLeftToEvict",
        {
            'scavenger_regulator_short_ratio{resource="cpu",pool="default"}': "0x40",
            'scavenger_regulator_short_ratio{resource="cpu",pool="gpu"}': "0x10 0.03x30",
            'scavenger_regulator_short_ratio{resource="memory",pool="gpu"}': "0x40",
        },
        quiet=(9, 18),
        firing=(25,),
        labels={"resource": "cpu", "pool": "gpu"},
    ),
    Case(
        "ScavengerWorkLost",
        {f'{LOST}{{queue="a"}}': "0+300x500", f'{USEFUL}{{queue="a"}}': "0+300x500"},
        quiet=(60,),  # not much in all yet
        firing=(480,),
    ),
    Case(
        "ScavengerWorkLost", {f'{LOST}{{queue="a"}}': "0+300x500", f'{USEFUL}{{queue="b"}}': "0+3000x500"}, quiet=(480,)
    ),
    Case(
        "ScavengerNodesRefusePods",
        {"scavenger_shunned_nodes": "0x20 2x40"},
        quiet=(20, 35),
        firing=(37,),
    ),
    Case(
        "ScavengerStartsFail",
        {
            'scavenger_failed_starts_total{queue="a",reason="QuotaExceeded"}': "0+1x120",
            'scavenger_failed_starts_total{queue="b",reason="QuotaExceeded"}': "0x100 5x20",
        },
        quiet=(15,),
        firing=(60,),
        labels={"queue": "a", "reason": "QuotaExceeded"},
    ),
    Case(
        "ScavengerAdmitterAbsent",
        {
            'scavenger_leader{lease="scavenger-admitter"}': "1x20 _x40",
            'scavenger_leader{lease="scavenger-regulator"}': "1x60",
        },
        quiet=(10, 30),
        firing=(45,),
        labels={"lease": "scavenger-admitter"},
    ),
    Case(
        "ScavengerComponentAbsent",
        {
            'scavenger_build_info{component="scavenger-regulator",version="1",instance="a"}': "1x20 _x60",
            'scavenger_build_info{component="scavenger-regulator",version="2",instance="b"}': "_x15 1x15 _x60",
            'scavenger_build_info{component="scavenger-webhook",version="1",instance="c"}': "1x90",
        },
        quiet=(10, 25, 40),  # an upgrade; what is scraped no more counts for five minutes
        firing=(50, 80),
        labels={"component": "scavenger-regulator"},
    ),
    Case(  # it has been away since long before
        "ScavengerComponentAbsent",
        {'scavenger_build_info{component="scavenger-regulator",version="1"}': "1x10 _x500"},
        quiet=(450,),
        labels={"component": "scavenger-regulator"},
    ),
    Case(
        "ScavengerNoLeader",
        {
            'scavenger_leader{lease="scavenger-admitter",instance="a"}': "1x10 0x20",
            'scavenger_leader{lease="scavenger-admitter",instance="b"}': "0x30",
            'scavenger_leader{lease="scavenger-regulator",instance="c"}': "0 1x30",
        },
        quiet=(9, 13),
        firing=(20,),
        labels={"lease": "scavenger-admitter"},
        well="1x30",
    ),
    Case(
        "ScavengerEventLoopHeldUp",
        {
            f'{LAG}{{le="0.5",instance="a:1",job="scavenger-admitter"}}': "0+600x20 12000+500x40",
            f'{LAG}{{le="1",instance="a:1",job="scavenger-admitter"}}': "0+600x20 12000+600x40",
            f'{LAG}{{le="+Inf",instance="a:1",job="scavenger-admitter"}}': "0+600x20 12000+600x40",
        },
        quiet=(15, 25),
        firing=(45,),
        labels={"instance": "a:1", **web("admitter")},
    ),
    Case(
        "ScavengerApiErrors",
        {
            f'{API}{{method="PATCH",code="200",job="scavenger-admitter"}}': "0+60x60",
            f'{API}{{method="PATCH",code="503",job="scavenger-admitter"}}': "0x20 0+20x40",
            f'{API}{{method="any",code="ClientOSError",job="scavenger-admitter"}}': "0x20 0+10x40",
            f'{API}{{method="PATCH",code="409",job="scavenger-regulator"}}': "0+60x60",
        },
        quiet=(15, 25),
        firing=(45,),
        labels=web("admitter"),
    ),
    Case(
        "ScavengerReconcilesFail",
        {
            'scavenger_reconciles_total{loop="scavengerjobs",outcome="error",job="scavenger-admitter"}': "0x20 0+30x40",
            'scavenger_reconciles_total{loop="scavengerjobs",outcome="Forbidden",job="scavenger-admitter"}': "0x60",
            'scavenger_reconciles_total{loop="scavengerjobs",outcome="Conflict",job="scavenger-webhook"}': "0+300x60",
        },
        quiet=(15, 28),
        firing=(45,),
        labels={"loop": "scavengerjobs", **web("admitter")},
    ),
    Case(
        "ScavengerCacheBehind",
        {
            'scavenger_informer_last_event_age_seconds{informer="pods",instance="a:1",job="scavenger-admitter"}': (
                "60x20 0+60x40"
            ),
        },
        quiet=(15, 26),
        firing=(35,),
        labels={"informer": "pods", "instance": "a:1", **web("admitter")},
    ),
    Case(
        "ScavengerObjectsUnreadable",
        {'scavenger_informer_unreadable_objects{informer="scavengerjobs",job="scavenger-admitter"}': "0x10 2x40"},
        quiet=(9, 20),
        firing=(35,),
        labels={"informer": "scavengerjobs", **web("admitter")},
    ),
    Case(
        "ScavengerCertificateExpires",
        {f'{EXPIRY}{{instance="a"}}': "90000x200", f'{EXPIRY}{{instance="starting"}}': "0x200"},
        quiet=(30, 100),
        firing=(150,),
        well="900000x200",
    ),
    Case("ScavengerCertificateExpires", {EXPIRY: "900000x200"}, quiet=(150,)),
]


@pytest.fixture(scope="session")
def promtool() -> Path:
    found = debian.program("prometheus", "promtool")
    if found is None:
        pytest.skip("no promtool here, and no Debian package `prometheus` to take it from (apt-get download)")
    return found


def described(text: str, labels: dict[str, str]) -> str:
    """An annotation with its labels filled in."""
    return re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], text)


def expectation(case: Case, minute: int) -> dict[str, Any]:
    rule = ALERTS[case.alert]
    fired = {
        "exp_labels": {**rule["labels"], **case.labels},
        "exp_annotations": {name: described(text, case.labels) for name, text in rule["annotations"].items()},
    }
    return {"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": [fired] if minute in case.firing else []}


def play(promtool: Path, tmp_path: Path, *cases: Case) -> None:
    """Fail with promtool's words where an alert of one of these Prometheuses fires and should not, or the reverse."""
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
            "alert_rule_test": [expectation(case, minute) for minute in (*case.quiet, *case.firing)],
        }
        for case in cases
    ]
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.alert}" for number, case in enumerate(CASES)])
def test_fires_when_it_should_and_only_then(case: Case, promtool: Path, tmp_path: Path) -> None:
    play(promtool, tmp_path, case)


ILL = [case for case in CASES if case.firing]
NAMELESS = [case for case in ILL if ALERTS[case.alert]["expr"].startswith("absent(")]
"""Alerts about what is not there. No label says of which cluster it is missing."""


def placed(series: str, cluster: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{cluster="{cluster}"' + (f",{labels}" if labels else "}")


def where_nothing_is_wrong(case: Case) -> dict[str, str]:
    """The same series in another cluster."""
    held = {name: re.findall(r"[0-9.]+", values)[0] + "x600" for name, values in case.series.items()}
    return {placed(name, "b"): case.well or values for name, values in held.items()}


def test_fires_for_the_cluster_that_is_ill(promtool: Path, tmp_path: Path) -> None:
    """One Prometheus that sees two clusters, of which one is well, or both."""
    played = []
    for case in (case for case in ILL if case not in NAMELESS):
        ill = {placed(name, "a"): values for name, values in case.series.items()}
        well = where_nothing_is_wrong(case)
        played.append(replace(case, series=ill | well, labels={**case.labels, "cluster": "a"}))
        played.append(replace(case, series=well, quiet=(*case.quiet, *case.firing), firing=()))
    play(promtool, tmp_path, *played)


def test_a_cluster_without_its_admitter_is_told_apart_by_the_alert_about_components(
    promtool: Path, tmp_path: Path
) -> None:
    """The alert that has no cluster is quiet while another cluster has an admitter."""
    assert {case.alert for case in NAMELESS} == {"ScavengerAdmitterAbsent"}
    info = 'scavenger_build_info{{cluster="{}",component="scavenger-admitter"}}'
    leader = 'scavenger_leader{{cluster="{}",lease="scavenger-admitter"}}'
    series = {
        name.format(cluster): values
        for name in (info, leader)
        for cluster, values in (("a", "1x10 _x60"), ("b", "1x70"))
    }
    labels = {"cluster": "a", "component": "scavenger-admitter"}
    play(
        promtool,
        tmp_path,
        Case("ScavengerComponentAbsent", series, quiet=(10,), firing=(40,), labels=labels),
        Case("ScavengerAdmitterAbsent", series, quiet=(10, 40, 69)),
    )


def test_ends_when_its_series_vanish(promtool: Path, tmp_path: Path) -> None:
    """After an uninstall nothing is left that fires; the longest look back is six hours."""
    play(promtool, tmp_path, *(replace(case, quiet=(900,), firing=()) for case in ILL if case not in NAMELESS))


def test_each_alert_is_seen_to_fire_and_to_be_quiet() -> None:
    assert {case.alert for case in CASES if case.firing} == set(ALERTS)
    assert {case.alert for case in CASES if case.quiet} == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_leads_to_its_runbook(name: str) -> None:
    rule = ALERTS[name]
    assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"
    assert "runbook_url" not in rule["annotations"], "pages open it in a browser, and this is no URL"
    assert f"\n## {name}\n" in RUNBOOKS
    assert rule["annotations"]["description"].endswith(".")
    assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_the_command_of_the_docs_makes_urls_of_all_runbooks() -> None:
    command = re.search(r"sed 's.*?rules.yaml(?= > )", (ROOT / "docs" / "monitoring.md").read_text(), re.DOTALL)
    assert command is not None
    done = subprocess.run(["bash", "-c", command[0]], cwd=ROOT, capture_output=True, text=True, check=True)
    for group in yaml.safe_load(done.stdout)["groups"]:
        for rule in group["rules"]:
            url = f"https://docs.example.com/runbooks/#{rule['alert'].lower()}"
            assert rule["annotations"]["runbook_url"] == url
            assert "runbook" not in rule["annotations"]


def test_there_is_no_runbook_without_an_alert() -> None:
    assert re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE) == list(ALERTS)


def test_links_of_the_runbooks_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([\w-]+\.md)", RUNBOOKS):
        assert (ROOT / "docs" / link).is_file()


def test_promtool_finds_nothing_wrong(promtool: Path) -> None:
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
