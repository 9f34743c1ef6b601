"""What the demo decides: how large its parts are, what it refuses, what it takes for right, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import demo
import demo_current
import demo_install
import demo_loop
import demo_own
import demo_stage
import demo_story
import pytest
from demo_stage import DemoError, Size, Stage
from scavenger_api.reasons import WaitReason
from scavenger_cli.words import bar
from scavenger_testing.builders import node_dict, pod_dict

ROOT = Path(__file__).resolve().parents[3]
IMAGE = "localhost/scavenger/counter:demo"


@dataclass(frozen=True)
class Pretended(Stage):
    """A cluster that has what the test says, by path, and says what the test says to commands."""

    objects: dict[str, Any] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)

    def get(self, path: str, **params: str) -> Any:
        return self.objects.get(path)

    def run(self, *words: str, input: str | None = None, shown: str = "") -> str:
        self.commands.append(words)
        return next((said for command, said in self.said.items() if " ".join(words).startswith(command)), "")


def stage(objects: dict[str, Any] | None = None, said: dict[str, str] | None = None, **more: Any) -> Pretended:
    given = {"environment": {}, "real": True, "measured": True, "unit": 50.0, "image": IMAGE, **more}
    return Pretended(objects=objects or {}, said=said or {}, **given)


def items(*found: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(found)}


# --- sizes ---


@pytest.mark.parametrize(
    ("millicores", "at_least", "size"),
    [
        (100, 1, Size(1, 100)),
        (200, 2, Size(2, 100)),
        (1600, 1, Size(2, 800)),
        (1000, 1, Size(1, 1000)),
        (0, 1, Size(1, 1)),
    ],
)
def test_a_program_of_one_thread_uses_a_core_at_most(millicores: float, at_least: int, size: Size) -> None:
    assert Size.of(millicores, at_least) == size


def test_free_is_what_is_not_requested_of_the_nodes_that_take_pods() -> None:
    full = [pod_dict("a", node="n1", cpu="3", memory="1Gi"), pod_dict("b", node="n2", cpu="500m", memory="1Gi")]
    over = pod_dict("c", node="n2", cpu="1", memory="1Gi", phase="Succeeded")
    nodes = [node_dict("n1", cpu="4", memory="8Gi"), node_dict("n2", cpu="2", memory="8Gi")]
    closed = node_dict("n3", cpu="64", memory="8Gi", unschedulable=True)
    found = stage({"/api/v1/pods": items(*full, over), "/api/v1/nodes": items(*nodes, closed)})
    assert set(found.nodes()) == {"n1", "n2"}
    assert found.free() == {"n1": 1000, "n2": 1500}


# --- what is installed ---


def test_the_settings_are_those_of_the_regulator() -> None:
    schema = json.loads((ROOT / "charts/scavenger-regulator/values.schema.json").read_text())
    known = set(schema["properties"]["settings"]["properties"])
    for measured in (True, False):
        assert set(demo_install.settings_of("regulator", stage(measured=measured))) <= known
    environment = demo_install.environment_of("regulator", stage(measured=False))
    assert environment["SCAVENGER_HISTORY_MIN_SAMPLES"] == "3"
    assert environment["SCAVENGER_SOURCE"] == "requests"
    of_admitter = set(demo_install.settings_of("admitter", stage(snap="snapshot:demo")))
    schema = json.loads((ROOT / "charts/scavenger-admitter/values.schema.json").read_text())
    assert "snapshotImage" in of_admitter <= set(schema["properties"]["settings"]["properties"])
    assert "snapshotImage" not in demo_install.settings_of("admitter", stage())


def test_every_chart_is_installed_and_all_of_them_are_uninstalled() -> None:
    charts = {path.parent.name for path in ROOT.glob("charts/scavenger-*/Chart.yaml")} - {"scavenger-library"}
    with_scheduler = stage(scheduler=demo_install.OWN_SCHEDULER)
    charts_of = demo_install.Charts("registry.example.com")
    charts_of.install(with_scheduler)
    charts_of.measure(with_scheduler)
    installed = [words[3] for words in with_scheduler.commands if words[:2] == ("helm", "upgrade")]
    assert set(installed) == charts
    assert installed[:2] == ["scavenger-crds", "scavenger-base"]

    leaving = stage()
    demo_install.Charts("registry.example.com").uninstall(leaving)
    gone = [words[2] for words in leaving.commands if words[:2] == ("helm", "uninstall")]
    assert set(gone) == charts
    assert gone[-2:] == ["scavenger-base", "scavenger-crds"]
    assert leaving.commands[-1][:3] == ("kubectl", "delete", "namespace")


def test_a_chart_that_does_not_come_up_is_told_with_what_its_pods_say() -> None:
    class Broken(Pretended):
        def run(self, *words: str, input: str | None = None, shown: str = "") -> str:
            raise DemoError("helm … ended with 1: timed out")

    pod = pod_dict("scavenger-admitter-1")
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod["status"] = {"containerStatuses": [{"state": {"waiting": waiting}}]}
    where = {"/api/v1/namespaces/scavenger-system/pods": items(pod)}
    broken = Broken(objects=where, environment={}, real=True, measured=True, unit=1, image=IMAGE)
    with pytest.raises(DemoError, match=r"(?s)timed out.*scavenger-admitter-1: ImagePullBackOff: no such image"):
        demo_install.Charts("registry.example.com")._install(broken, "admitter")


# --- the current cluster ---


def current(**more: Any) -> Pretended:
    node = node_dict("n1", cpu="8", memory="8Gi")
    node["status"]["images"] = [{"names": ["localhost/scavenger/admitter:0.1.0"]}]
    objects = {"/api/v1/nodes": items(node), **more.pop("objects", {})}
    return stage(objects, {"kubectl config current-context": "kind-kind\n"}, unit=400.0, **more)


@pytest.mark.parametrize(
    "there", ["namespace scavenger-system", "namespace demo-chemistry", "scavengerjobs.scavenger.dev"]
)
def test_a_cluster_that_has_any_of_it_is_left_alone(there: str) -> None:
    name = there.rpartition(" ")[2]
    folder = "/api/v1/namespaces" if there.startswith("namespace") else demo_current.PATH_OF_DEFINITIONS
    with pytest.raises(DemoError, match=f"has {there} already"):
        demo_current.check(current(objects={f"{folder}/{name}": {}}))
    demo_current.check(current())


def test_a_cluster_without_nodes_or_metrics_and_one_that_is_too_large_are_refused() -> None:
    with pytest.raises(DemoError, match="no node that takes pods"):
        demo_current.check(current(objects={"/api/v1/nodes": items()}))
    large = items(node_dict("n1", cpu="65", memory="8Gi"))
    with pytest.raises(DemoError, match="65 CPUs, and the demo fills it"):
        demo_current.check(stage({"/api/v1/nodes": large}, unit=3250.0))
    with pytest.raises(DemoError, match="no metrics API"):
        demo_current.check(current(measured=False))


@pytest.mark.parametrize("registry", ["", "registry.example.com/lab"])
def test_what_will_happen_and_what_it_takes_is_said(
    registry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = type("Endpoint", (), {"server": "https://127.0.0.1:6443"})
    cluster = current()
    monkeypatch.setitem(cluster.__dict__, "client", type("Client", (), {"endpoint": endpoint}))
    demo_current.explain(cluster, registry)
    said = capsys.readouterr().out
    for words in ("context kind-kind", "1 node with 8 CPUs", "demo-shop, demo-chemistry, demo-biology"):
        assert words in said
    for name in ("admitter:0.1.0", "board:0.1.0", "counter:demo", "snapshot:demo"):
        assert f"{registry or 'localhost'}/scavenger/{name}\n" in said
    assert ("make load-images" in said) == (not registry)
    assert (f"build --tag {registry}/scavenger/counter:demo" in said) == bool(registry)
    assert ("localhost/scavenger/admitter:0.1.0," in said) is False, "the node has this one"
    assert ("not reported by any node" in said) == (not registry)
    assert "the scheduler's chart is left out" in said


def test_nobody_who_cannot_be_asked_has_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    demo_current.agree(yes=True)
    with pytest.raises(DemoError, match="YES=1"):
        demo_current.agree(yes=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, agreed in (("y", True), ("Yes", True), ("", False), ("n", False)):
        monkeypatch.setattr(demo_stage.console, "input", lambda _, said=answer: said)
        if agreed:
            demo_current.agree(yes=False)
        else:
            with pytest.raises(demo_current.DeclinedError):
                demo_current.agree(yes=False)


# --- the story ---


def test_the_cluster_is_full_when_who_does_not_run_waits_for_capacity_and_is_not_only_queued() -> None:
    def job(phase: str, reason: str) -> dict[str, Any]:
        return {"phase": phase, "conditions": [{"type": "Admitted", "reason": reason}]}

    def jobs(running: int, *reasons: str) -> dict[str, dict[str, Any]]:
        found = [*[job("Running", "Started")] * running, *(job("Waiting", reason) for reason in reasons)]
        return {f"bio-{number}": status for number, status in enumerate(found)}

    queued = [WaitReason.QUEUED.value] * demo_story.BIO_JOBS
    full = [WaitReason.ADMISSION_LEVEL.value, *queued]
    assert demo_story.filled({}) == []
    assert demo_story.filled(jobs(3, *queued[3:])) == [], "three start in a moment"
    assert demo_story.filled(jobs(5, *full[6:])) == [], "one is starting"
    assert len(demo_story.filled(jobs(6, *full[: demo_story.BIO_JOBS - 6]))) == 6
    assert len(demo_story.filled(jobs(demo_story.BIO_JOBS))) == demo_story.BIO_JOBS


def test_the_sentence_of_why_is_told_whole() -> None:
    said = "bio-7 has been waiting for 2s: cpu load would be\n95 %.\n\n  place  4 of 5\n\nWhat helps:\n  - wait\n"
    assert demo_story.headline(said) == "bio-7 has been waiting for 2s: cpu load would be 95 %."
    assert demo_story.headline("") == ""


def test_names_are_told_as_in_a_sentence() -> None:
    assert [demo_story.names(found) for found in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


DONE = (
    "2026-01-02T03:04:05.000006Z event=complete index=0 restarts=1 step=10 of=10 result=0a expected={} recomputed=3\n"
)


@pytest.mark.parametrize(
    ("log", "right"),
    [
        (DONE.format("0a"), True),
        (DONE.format("0b"), False),
        ("2026-01-02T03:04:05Z event=sigterm step=4 of=10\n", False),
    ],
)
def test_a_result_is_held_against_the_expected_one(log: str, right: bool) -> None:
    job = {"metadata": {"name": "bio-1"}, "spec": {}, "status": {"interruptedCount": 2, "lostCPUSeconds": 1.25}}
    row, found = demo_story.line_of(ended(log, 1), "demo-biology", job)
    assert found is right
    assert row[:5] == ["bio-1", "1", "2", "0.0", "1.2"]
    gang = {**job, "spec": {"parallelism": 2}}
    assert demo_story.line_of(ended(log, 2), "demo-biology", gang)[1] is False, "one is missing"


def ended(log: str, pods: int) -> Pretended:
    """A cluster with so many pods of a job, and what they have said."""
    found = items(*(pod_dict(f"bio-1-{i}") for i in range(pods)))
    return stage({"/api/v1/namespaces/demo-biology/pods": found}, {"kubectl sj logs bio-1": log})


def test_a_job_whose_pod_was_evicted_as_it_ended_has_no_log() -> None:
    job = {"metadata": {"name": "bio-1"}, "spec": {}, "status": {"phase": "Completed"}}
    row, right = demo_story.line_of(ended("", 0), "demo-biology", job)
    assert (row[-1], right) == ("log is gone", None)


@dataclass(frozen=True)
class Plain(Pretended):
    """A cluster with the job whose program writes no checkpoints."""

    phase: str = "Completed"

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {demo_story.PLAIN_JOB: {"phase": self.phase}}


def plain(log: str, phase: str = "Completed", pods: int = 1) -> Plain:
    found = {"/api/v1/namespaces/demo-chemistry/pods": items(*[pod_dict("plain-0-x")] * pods)}
    given: dict[str, Any] = {"environment": {}, "real": True, "measured": True, "unit": 50.0, "image": IMAGE}
    return Plain(phase=phase, objects=found, said={"kubectl sj logs plain": log}, snap="snapshot:demo", **given)


def test_a_program_without_checkpoints_is_interrupted_when_it_computes() -> None:
    found = plain("".join(f"step={step}\n" for step in range(11)), "Running")
    demo_story.interrupt(found)
    submitted, *_, deleted = found.commands[1:]
    assert {"--snapshot=plain", "--pvc=plain:/data", "--command"} <= set(submitted)
    assert deleted[3:6] == ("delete", "pod", "--selector=scavenger.dev/job=plain")
    nowhere = stage()
    demo_story.interrupt(nowhere)
    assert not nowhere.commands, "there are no snapshots"


@pytest.mark.parametrize(
    ("log", "pods", "said"), [("step=23\nstep=24\n", 1, "at step 23"), ("", 1, ""), ("step=0\n", 0, "")]
)
def test_that_it_was_continued_is_told_from_its_log(
    log: str, pods: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_story.tell_continued(plain(log, pods=pods))
    told = capsys.readouterr().out
    assert ("writes no checkpoints" in told, said in told) == (bool(said), True)


def test_a_program_that_has_begun_anew_fails_the_demo() -> None:
    with pytest.raises(DemoError, match="has begun anew"):
        demo_story.tell_continued(plain("step=0\nstep=1\n"))


@dataclass
class Looks:
    """Sees at once what the regulator says."""

    stage: Pretended
    seen: set[str] = field(default_factory=set)

    def within(self, seconds: float, condition: Any) -> bool:
        levels = self.stage.levels()
        self.seen.add(levels["state"])
        return bool(condition(levels))

    def states(self) -> set[str]:
        return self.seen


@dataclass(frozen=True)
class Rushed(Pretended):
    """Regular workloads use 15 %, six jobs 30 %, and each pod of the rush so many points."""

    points: float = 5

    def levels(self) -> dict[str, str]:
        scaled = [int(words[-1].partition("=")[2]) for words in self.commands if "deployment/rush" in words]
        load = 45 + self.points * (scaled[-1] if scaled else 0)
        state = "Evicting" if load >= 85 else "Speculative" if load >= 70 else "Filling"
        levels = {"lower.cpu": "70", "admission.cpu": "80", "upper.cpu": "85"}
        return {"load.cpu": str(load), "mean.cpu": "15", "state": state, **levels}

    def scavenger_pods(self) -> list[dict[str, Any]]:
        container = {"name": "main", "resources": {"limits": {"cpu": "50m"}}}
        return [{"spec": {"containers": [container]}, "status": {"phase": "Running"}}] * 6

    def jobs(self) -> dict[str, dict[str, Any]]:
        """One has left for as long as the load is above its upper level."""
        above = self.levels()["state"] == "Evicting"
        left = {"type": "Interrupted", "status": str(above), "reason": "AboveUpperLevel" if above else "Running"}
        return {"bio-1": {"phase": "Interrupted" if above else "Running", "conditions": [left]}}


def test_the_rush_grows_by_what_is_lacking_and_no_further_than_it_may() -> None:
    given: dict[str, Any] = {"environment": {}, "real": True, "measured": True, "unit": 50.0, "image": IMAGE}
    found = Rushed(**given)
    watch: Any = Looks(found)
    rush = demo_loop.Rush(found, watch)
    assert rush.load() == 45
    rush.rise("Speculative", lambda seen: demo_loop.levels_of(seen)[0])
    assert rush.units == 5
    rush.peak()
    assert [words[-1] for words in found.commands if "scale" in words] == ["--replicas=5", "--replicas=11"]
    found.scale("rush", 0)
    assert found.in_phase("Running") == ["bio-1"]
    assert rush.left() == {"bio-1"}, "it is back, and had left"
    for points, problem in ((1, "never made the regulator Evicting"), (0, "never made the regulator Evicting")):
        slow = Rushed(**given, points=points)
        watch = Looks(slow)
        with pytest.raises(DemoError, match=problem):
            demo_loop.Rush(slow, watch).peak()


@pytest.mark.parametrize(("points", "rushes"), [(5, 1), (50, demo_loop.SMALLER)])
def test_a_load_that_passed_both_levels_at_once_has_a_smaller_rush_follow(points: float, rushes: int) -> None:
    found = Rushed(environment={}, real=True, measured=True, unit=50.0, image=IMAGE, points=points)
    watch: Any = Looks(found)
    rush = demo_loop.Rush(found, watch)
    if points > 15:  # more than lies between the levels
        with pytest.raises(DemoError, match="always passed"):
            rush.see_speculative()
    else:
        rush.see_speculative()
        rush.see_speculative()
    assert [words[-1] for words in found.commands].count("--replicas=0") == rushes


def test_the_load_is_steady_when_two_measurements_are_the_same_and_no_job_came_or_went() -> None:
    found = Rushed(environment={}, real=True, measured=True, unit=50.0, image=IMAGE)
    steady = demo_loop.Steady(found)
    seen = ((1, 45.0), (1, 45.0), (2, 60.0), (3, 58.0))
    assert [steady({"observedAt": f"at {at}", "load.cpu": str(load)}) for at, load in seen] == [False] * 3 + [True]
    found.scale("rush", 8)  # bio-1 leaves
    assert not steady({"observedAt": "at 4", "load.cpu": "58"})
    assert steady({"observedAt": "at 5", "load.cpu": "58"})
    assert not steady({"observedAt": "at 6"}), "nothing was measured"


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (5, "██░░░░░░░░░░░░░░░░░░|░░|░|░░░░   5 %  jobs start. 2 jobs run, 1 protected"),
        (
            90,
            "████████████████████|██|█|█░░░  90 %  jobs leave until the load is at the first mark. 1 job runs, "
            "1 protected. Interrupted: bio-1",
        ),
    ],
)
def test_what_happens_is_said_in_words_beside_a_bar(load: float, said: str) -> None:
    found = Seen(environment={}, real=True, measured=True, unit=50.0, image=IMAGE, points=(load - 45) / 2)
    found.scale("rush", 2)
    row = demo_loop.row_of(found.levels(), found)
    assert row is not None
    assert demo_loop.sentence(row) == said
    assert demo_loop.row_of({"state": "Blind"}, found) is None


@dataclass(frozen=True)
class Seen(Rushed):
    """bio-1, which has one pod, and the gang fold, which is protected and has two."""

    def scavenger_pods(self) -> list[dict[str, Any]]:
        classes = (("bio-1", "preemptible"), ("fold", "non-preemptible"), ("fold", "non-preemptible"))
        return [
            {"metadata": {"labels": {"scavenger.dev/job": job, "scavenger.dev/preemption-class": class_}}}
            for job, class_ in classes
        ]

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {**super().jobs(), "fold": {"phase": "Running"}}


def test_there_is_one_line_a_moment_and_none_for_a_load_that_hardly_moves() -> None:
    now, load, jobs, state = 0.0, 50.0, "3 jobs run", "jobs start"
    watch = demo_loop.Watch(stage(), clock=lambda: now)

    def look() -> bool:
        gauge = bar(load / 100, demo_loop.CELLS)
        row = (f"{gauge} {load:3.0f} %", state, jobs, "")
        news = watch.is_news(row)
        if news:
            watch.told = now
            watch.rows.append((f"{now:.0f} s", *row))
        return news

    assert look(), "the first"
    load = 51.0
    now = 60.0
    assert not look(), "the bar is the same"
    jobs = "4 jobs run"
    assert look()
    now, jobs = 62.0, "5 jobs run"
    assert not look(), "in the same moment"
    state = "jobs leave"
    assert look(), "another state is told at once"
    now, load = 68.0, 80.0
    assert look()


# --- the end ---


@pytest.mark.parametrize(
    ("problem", "code"),
    [(DemoError("no"), 1), (demo_current.DeclinedError("nothing was done"), 0), (KeyboardInterrupt(), 130)],
)
def test_how_it_ends_is_the_exit_code_and_what_there_was_is_taken_down(
    problem: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    down: list[str] = []

    @contextmanager
    def place() -> Iterator[tuple[Stage, demo_install.Services]]:
        try:
            raise problem
            yield
        finally:
            down.append("down")

    assert demo.perform(place(), install=False) == code
    assert down == ["down"]
    assert ("FAILED: no" in capsys.readouterr().out) == (code == 1)


@pytest.mark.parametrize("own", [True, False])
def test_the_last_lines_say_what_stays_and_what_to_do_next(
    own: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubelet").write_bytes(b"x" * 5000)
    monkeypatch.setattr(demo, "story", lambda *_, **__: None)

    @contextmanager
    def place() -> Iterator[tuple[Any, Any]]:
        yield None, None

    assert demo.perform(place(), install=own) == 0
    *_, last = said = capsys.readouterr().out.splitlines()
    assert "next: " in last
    assert any("make clean-cache" in line and str(tmp_path) in line for line in said) == own
    for page in {word.strip(",;") for line in said for word in line.split() if word.startswith("docs/")}:
        assert (ROOT / page).is_file()


def test_all_programs_of_the_demo_are_built_at_once() -> None:
    assert {"kubectl", "helm", "metrics-server", "kube-scheduler", "scavenger-scheduler"} <= set(demo_own.TOOLS)
    assert "kwok" not in demo_own.TOOLS
