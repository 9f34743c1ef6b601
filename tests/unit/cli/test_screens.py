"""What is drawn, as text of 80 columns: lists, details, timelines, top, levels, watch."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from scavenger_api.levels import LevelsView
from scavenger_cli.accounts import accounts_data, node_accounts
from scavenger_cli.details import job_details, queue_details, timeline
from scavenger_cli.lists import QUEUE_HEADER, job_header, job_row, queue_row
from scavenger_cli.output import columns
from scavenger_cli.render import pairs
from scavenger_cli.render import timeline as render_timeline
from scavenger_cli.top import View, jobs_screen, levels_screen, render
from scavenger_domain.accounts import Account
from scavenger_kube.kinds import Pod
from scavenger_testing import builders

from .cases import NO_REGULATOR, NOW, USAGE, ago, job, levels, nodes, queue, queued


def drawn(renderable: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width, record=True, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(renderable)
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


RUNNING = {
    "runningTimestamps": [ago(5000), ago(1200)],
    "interruptedTimestamps": [ago(2000)],
    "interruptedCount": 1,
    "priorityStartOverTimestamp": ago(1200),
    "usefulCPUSeconds": 9000,
    "lostCPUSeconds": 1000,
    "preemption": {"class": "non-preemptible", "runningPriority": 4800},
    "message": "running",
}
WAITS = {
    "message": "no node has 500m cpu free",
    "conditions": [{"type": "Admitted", "status": "False", "reason": "NoPlace"}],
}
JOBS = [
    job("protein-folding", phase="Running", cpu="4", memory="8Gi", parallelism=2, created=ago(9000), status=RUNNING),
    job("render", queue="night", cpu="500m", memory="512Mi", status=WAITS),
    job("done", phase="Completed", status={"finishedTimestamp": ago(60)}),
]
QUEUES = [
    queue("default", status={"state": "Open", "allocated": {"cpu": "8"}, "deserved": {"cpu": "10"}}),
    queue(
        "night",
        weight=3,
        quota={"cpu": "20", "memory": "1Ti"},
        closed=True,
        status={"state": "Closed", "allocated": {"cpu": "45"}, "jobs": {"waiting": 2, "interrupted": 1, "running": 4}},
    ),
]


def test_the_list() -> None:
    rows = [job_row(one, NOW, wide=False, namespaces=False) for one in JOBS]
    assert columns(job_header(wide=False, namespaces=False), rows) == [
        "NAME              KIND           QUEUE     STATUS      INTERRUPTED   RUNTIME   AGE    REASON",
        "protein-folding   ScavengerJob   default   Running     1             20m       150m",
        "render            ScavengerJob   night     Waiting     0                       10m    NoPlace",
        "done              ScavengerJob   default   Completed   0                       10m",
    ]


def test_the_wide_list() -> None:
    rows = [job_row(one, NOW, wide=True, namespaces=True) for one in JOBS[:1]]
    header, row = columns(job_header(wide=True, namespaces=True), rows)
    assert header.split() == [
        *("NAMESPACE", "NAME", "KIND", "QUEUE", "STATUS", "INTERRUPTED", "RUNTIME", "AGE", "REASON", "PODS"),
        *("TASKS", "CPU", "MEMORY", "CPU-USED", "MEMORY-USED", "CAPACITY", "CLASS", "UNSAVED", "LAST-CHECKPOINT"),
        "MESSAGE",
    ]
    assert row.split()[8:] == ["2", "8", "16Gi", "Guaranteed", "non-preemptible", "2.7", "h", "running"]


def test_colours_change_no_width() -> None:
    plain = columns(["NAME", "STATUS"], [["a", "Running"], ["b", "Failed"]])
    coloured = columns(["NAME", "STATUS"], [["a", "Running"], ["b", "Failed"]], colour=True)
    assert "\x1b[32mRunning\x1b[0m" in coloured[1]
    assert [line.replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[0m", "") for line in coloured] == plain


def test_queues() -> None:
    assert columns(QUEUE_HEADER, [queue_row(one, NOW) for one in QUEUES]) == [
        "NAME      STATE    WEIGHT   TOTAL   PENDING   RUNNING   CPU   SHARE    QUOTA               AGE",
        "default   Open     1        0       0         0         8     10       <none>              60m",
        "night     Closed   3        7       3         4         45    <none>   cpu=20,memory=1Ti   60m",
    ]
    assert pairs(queue_details(QUEUES[1], NOW), 80) == [
        "Queue     night",
        "State     Closed",
        "Weight    3",
        "Quota     cpu=20,memory=1Ti",
        "Jobs      2 waiting, 4 running, 1 interrupted",
        "Uses cpu  45",
        f"Created   {ago(3600)}, 60m ago",
    ]
    assert ("Uses cpu", "8 of 10 it deserves now") in queue_details(QUEUES[0], NOW)


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        ({"matchLabels": {"team": "blue"}}, [("For", "namespaces with team=blue")]),
        (
            {"matchExpressions": [{"key": "team", "operator": "In", "values": ["blue", "red"]}]},
            [("For", "namespaces with team in (blue,red)")],
        ),
        ({}, []),
    ],
)
def test_for_which_namespaces_a_queue_is(selector: dict[str, Any], shown: list[tuple[str, str]]) -> None:
    lines = queue_details(queue("lab", namespaceSelector=selector), NOW)
    assert [line for line in lines if line[0] == "For"] == shown


@pytest.mark.parametrize(
    ("turns", "shown"),
    [
        ({}, [("Namespaces", "take turns")]),
        ({"weights": {"lab": 3, "a": 2}}, [("Namespaces", "take turns, with the weights a 2, lab 3")]),
        (None, []),
    ],
)
def test_whether_namespaces_of_a_queue_take_turns(turns: dict[str, Any] | None, shown: list[tuple[str, str]]) -> None:
    lines = queue_details(queue("lab", perNamespace=turns), NOW)
    assert [line for line in lines if line[0] == "Namespaces"] == shown


def test_the_details_of_a_running_job() -> None:
    assert pairs(job_details(JOBS[0], NOW, None), 80) == [
        "Job          default/protein-folding",
        "Queue        default",
        "Status       Running for 20m",
        "Message      running",
        "Asks for     2 x 4 cpu, 8Gi memory",
        "Capacity     Guaranteed: capacity that no pod has requested",
        "Image        example.org/app:1",
        "Checkpoints  at least every 30m; next due in 10m",
        "Interrupted  1 time",
        "CPU time     2.5 h useful, 16.7 min lost (10 %), 2.7 h unsaved",
        "Class        non-preemptible",
    ]


UNEQUAL = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"phase": "Waiting"}, ("Status", "Waiting for 5m")),
        ({"phase": "Completed", "status": {"finishedTimestamp": ago(60)}}, ("Status", "Completed 60s ago")),
        ({"phase": None}, ("Status", "Waiting")),
        ({"capacity": "Reclaimed"}, ("Capacity", "Reclaimed: what others requested and do not use")),
        ({"capacity": "Reclaimed"}, ("CPU time used", "0 s useful, 0 s lost")),
        (
            {
                "capacity": "Reclaimed",
                "phase": "Running",
                "status": {"runningTimestamps": [ago(60)], "usefulCPUSeconds": 90},
            },
            ("CPU time used", "90 s useful, 0 s lost, at most 60 s unsaved"),
        ),
        (
            {
                "capacity": "Reclaimed",
                "phase": "Running",
                "status": {"runningTimestamps": [ago(60)], "preemption": {"runningPriority": 7}},
            },
            ("CPU time used", "0 s useful, 0 s lost, 7 s unsaved"),
        ),
        ({"deleted": ago(3), "finalizers": ["x"]}, ("Status", "Deleting for 5m")),
        (
            {"phase": "Running", "status": {"runningTimestamps": [ago(2400)]}},
            ("Checkpoints", "at least every 30m; next due in 20m"),
        ),
        ({"status": {"retries": 2}}, ("Failed", "2 times, and started again")),
        (
            {"template": {"spec": {"containers": [{"name": "sim", "resources": UNEQUAL}]}}},
            (
                "Warning",
                "container sim: memory requests differ from limits: it may be killed first when its node is "
                "short of memory, and above its request it is evicted before jobs that lose as much",
            ),
        ),
        (
            {"status": {"retries": 2, "ignoredFailures": 1}},
            ("Failed", "3 times, and started again; 1 of them not counted, by podFailurePolicy"),
        ),
        (
            {"status": {"lastCheckpointTimestamp": ago(90)}},
            ("Checkpoints", "at least every 30m; last reported 90s ago"),
        ),
    ],
)
def test_other_details(fields: dict[str, Any], line: tuple[str, str]) -> None:
    assert line in job_details(job(**fields), NOW, None)


def test_the_details_say_what_became_of_the_jobs_that_it_follows() -> None:
    after = [{"job": "raw", "when": "Ended"}, {"job": "prep"}, {"job": "later"}]
    status = {"after": [{"job": "raw", "uid": "u1", "ended": "Failed"}, {"job": "prep", "uid": "u2"}]}
    found = dict(job_details(job(after=after, status=status), NOW, None))
    assert found["After"] == "raw (failed; may fail), prep (not ended), later (not seen yet)"


def test_the_place_in_line() -> None:
    assert ("Position", "2nd of 5 in queue default") in job_details(job(), NOW, (2, 5))


def test_the_timeline() -> None:
    assert [entry.what for entry in timeline(JOBS[0])] == [
        "submitted",
        "running",
        "interrupted after 50m",
        "running, after 1st interruption",
    ]
    lines = render_timeline(timeline(JOBS[0]), NOW)
    assert lines[2].endswith("33m ago  interrupted after 50m")


def test_a_job_that_saved_its_state_and_waits_to_go_on() -> None:
    status = {
        "runningTimestamps": [ago(5000)],
        "endedTimestamp": ago(300),
        "queuedTimestamp": ago(6000),
        "lastCheckpointTimestamp": ago(300),
        "usefulCPUSeconds": 4700,
    }
    waiting = job(phase="Waiting", checkpointExitCode=85, status=status)
    assert [entry.what for entry in timeline(waiting)] == ["submitted", "running", "stopped after 78m"]
    lines = dict(job_details(waiting, NOW, None))
    assert lines["Status"] == "Waiting for 5m"
    assert lines["Checkpoints"] == "at least every 30m, and one whenever it ends with code 85; last reported 5m ago"


def test_each_device_has_a_line_with_its_time() -> None:
    status = {"usefulSeconds": {"nvidia.com/gpu": 90.0}, "lostSeconds": {"amd.com/gpu": 7200.0, "nvidia.com/gpu": 30}}
    lines = dict(job_details(job(phase="Completed", status=status), NOW, None))
    assert lines["nvidia.com/gpu"] == "90 s useful, 30 s lost"
    assert lines["amd.com/gpu"] == "0 s useful, 2.0 h lost"


def test_the_timeline_of_a_job_with_more_interruptions_than_the_status_keeps() -> None:
    status = {
        "interruptedCount": 30,
        "interruptedTimestamps": [ago(100)],
        "runningTimestamps": [ago(200), ago(50)],
        "finishedTimestamp": ago(10),
    }
    entries = timeline(job(phase="Failed", status=status))
    assert [entry.what for entry in entries] == [
        "submitted",
        "… 29 earlier interruptions",
        "running, after 29th interruption",
        "interrupted after 100s",
        "running, after 30th interruption",
        "failed after 40s",
    ]
    assert render_timeline(entries, NOW)[1].strip() == "… 29 earlier interruptions"


PODS = [
    builders.pod("web", node="node-1", cpu="7500m", memory="16Gi", phase="Running"),
    builders.pod("sim-0", node="node-2", cpu="4", memory="8Gi", phase="Running", labels={"scavenger.dev/job": "sim"}),
]


def view(**changes: Any) -> View:
    known: dict[str, Any] = {
        "levels": levels(),
        "nodes": nodes(12),
        "pods": PODS,
        "queues": QUEUES,
        "jobs": JOBS,
        "limit": 3,
    }
    return View(now=NOW, **{**known, **changes})


def test_top() -> None:
    assert drawn(render(view(), ("nodes", "queues", "jobs"), 80, namespace="demo")) == [
        "Cluster  Filling, new jobs may start, measured 10s ago",
        "  cpu    ███████████████░░░░░░░░┃░┃░░░░    50 %  start < 80 %, evict > 88 %",
        "  memory ██░░░░░░░░░░░░░░░░░░░░░░░░░░░░   6.2 %",
        "",
        "NODE     CPU (requests)       MEMORY               PODS  SCAVENGER",
        "node-1   ███████████░ 93.8 %  ██████░░░░░░   50 %     1          0",
        "node-2   ██████░░░░░░   50 %  ███░░░░░░░░░   25 %     1          1",
        "node-10  ░░░░░░░░░░░░    0 %  ░░░░░░░░░░░░    0 %     0          0",
        "… and 9 nodes more (--limit)",
        "",
        "QUEUE    STATE   WEIGHT  CPU OF ITS SHARE  USED  RUNNING  WAITING",
        "default  Open         1  █████░   80 %     8/10        0        0",
        "night    Closed       3  -                   45        4        3",
        "",
        "Jobs in namespace demo  1 on nodes, 1 queued",
        "JOB              QUEUE    STATUS   CPU  MEMORY  RUNTIME  UNSAVED  CLASS",
        "protein-folding  default  Running    8    16Gi      20m    2.7 h  non-preempt.",
    ]


def test_top_shows_what_is_used_of_the_requests() -> None:
    subject = job(phase="Running", status={"usage": USAGE, "runningTimestamps": [ago(60)]})
    lines = drawn(render(view(jobs=[subject]), ("jobs",), 80))
    header, row = lines[-2:]
    assert header.split()[:6] == ["JOB", "QUEUE", "STATUS", "CPU", "USED", "MEMORY"]
    assert row.split()[4:6] == ["22", "%"]


def test_top_where_nothing_may_be_read() -> None:
    shown = drawn(render(view(levels=None, nodes=None, queues=None, jobs=None), ("nodes", "queues", "jobs"), 80))
    assert len([line for line in shown if "you may not" in line]) == 4


def test_top_by_real_use() -> None:
    use = {"node-2": {"cpu": "6123456789n", "memory": "8388608Ki"}}
    rows = node_accounts(nodes(12), PODS, use)
    loads = [(row.name, round(row.accounts["cpu"].load, 2)) for row in rows[:2]]
    assert loads == [("node-1", 0.94), ("node-2", 0.77)]
    assert "CPU (real use)" in drawn(render(view(node_use=use), ("nodes", "jobs"), 80))[4]


OFFERING = builders.node(
    "a-node-with-a-long-name",
    allocatable={
        **{"cpu": "8", "memory": "32Gi", "pods": "110"},
        **{"scavenger.dev/reclaimed-cpu": "4000", "scavenger.dev/reclaimed-memory": "512"},
    },
)
TAKER = msgspec.convert(
    {
        "metadata": {"name": "taker", "labels": {"scavenger.dev/job": "taker"}},
        "spec": {
            "nodeName": "a-node-with-a-long-name",
            "containers": [
                {
                    "resources": {
                        "requests": {
                            **{"cpu": "0", "memory": "0"},
                            **{"scavenger.dev/reclaimed-cpu": "1500", "scavenger.dev/reclaimed-memory": "1024"},
                        }
                    }
                }
            ],
        },
    },
    Pod,
)
RESERVING = builders.pod("web", node="a-node-with-a-long-name", cpu="7500m", memory="16Gi", phase="Running")
USE = {"a-node-with-a-long-name": {"cpu": "3200m", "memory": "9Gi"}}


def test_top_nodes() -> None:
    found = view(nodes=[OFFERING, *nodes(1)], pods=[RESERVING, TAKER], node_use=USE)
    assert drawn(render(found, ("nodes",), 80))[4:] == [
        "NODE                            LOAD             RESERVED  USED  RECLAIMED  FREE",
        "a-node-with-a-long-na…  cpu     ███░░░░░   40 %       7.5   3.2      1.5/4   0.5",
        "                        memory  ██░░░░░░ 28.1 %      16Gi   9Gi  1Gi/512Mi  16Gi",
        "node-1                  cpu     ░░░░░░░░    0 %         0     -          -     8",
        "                        memory  ░░░░░░░░    0 %         0     -          -  32Gi",
    ]


def test_top_nodes_where_they_may_not_be_read() -> None:
    assert drawn(render(view(pods=None), ("nodes",), 80))[4:] == [
        "Nodes: you may not list nodes and pods of all namespaces."
    ]


def test_top_nodes_wide() -> None:
    lines = drawn(render(view(nodes=[OFFERING], pods=[RESERVING, TAKER]), ("nodes",), 112, wide=True), 112)[4:]
    assert lines[0].split("  ")[0] == "NODE"
    assert lines[0].split()[1:] == [
        *("LOAD", "(requests)", "RESERVED", "USED", "RECLAIMED", "FREE", "ALLOCATABLE", "PODS", "SCAVENGER"),
    ]
    assert lines[1].split()[-8:] == ["%", "7.5", "-", "1.5/4", "0.5", "8", "2", "1"]
    assert lines[2].split()[-6:] == ["%", "16Gi", "-", "1Gi/512Mi", "16Gi", "32Gi"]


def test_top_nodes_for_programs() -> None:
    cpu = {
        **{"allocatable": "8", "reserved": "7500m", "used": None, "free": "500m"},
        "reclaimed": {"offered": "4", "taken": "1500m"},
    }
    memory = {
        **{"allocatable": "32Gi", "reserved": "16Gi", "used": "9Gi", "free": "16Gi"},
        "reclaimed": {"offered": "512Mi", "taken": "1Gi"},
    }
    use = {"a-node-with-a-long-name": {"memory": "9Gi"}}
    assert accounts_data(node_accounts([OFFERING], [RESERVING, TAKER], use)) == [
        {"name": "a-node-with-a-long-name", "pods": 2, "scavengerPods": 1, "cpu": cpu, "memory": memory}
    ]


@given(
    *(st.integers(0, 10**6) for _ in range(4)),
    st.one_of(st.none(), st.integers(0, 10**6)),
)
def test_nothing_is_free_that_is_reserved(
    allocatable: int, reserved: int, offered: int, taken: int, used: int | None
) -> None:
    found = Account(allocatable, reserved, used, offered, taken)
    assert found.free >= 0
    assert found.free + reserved >= allocatable
    assert Account(allocatable, reserved, used, 0, 0).free == found.free, "what is reclaimed sets nothing aside"


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (NO_REGULATOR, "no regulator: jobs start on requests"),
        (levels(observedAt=ago(100)), "Stale: the levels were observed 100 s ago"),
        (levels(state="Blind", message="no metrics"), "Blind: no metrics"),
        (levels(admit="false"), "Filling, no new jobs"),
        (LevelsView.of({"state": "x"}, NOW), "Blind: scavenger-levels is unreadable"),
    ],
)
def test_headlines(seen: LevelsView, words: str) -> None:
    assert words in drawn(render(view(levels=seen), (), 80))[0]
    assert words in drawn(levels_screen(seen, NOW, 80))[0]


def test_levels() -> None:
    assert drawn(levels_screen(levels(load_cpu="81", closedNodes="a"), NOW, 80)) == [
        "Cluster  Filling, new jobs may start, measured 10s ago",
        "Idle capacity is being filled.",
        "33 % of the running jobs are preemptible; reserve 20 %; measured every 15 s.",
        "",
        "cpu     ███████████████████████████████████████████┃█┃█░░░┃░░░░░░░     81 %",
        "        lower 75 %, admission 80 %, upper 88 %",
        "        regular load 40 % on average, standard deviation 5 %",
    ]


def test_levels_in_a_cooldown() -> None:
    shown = drawn(levels_screen(levels(load_cpu="0", admit="false", until=ago(-90)), NOW, 80))
    assert shown[0] == "Cluster  Filling, no new jobs, measured 10s ago"
    assert shown[1].startswith("Cool-down after interruptions until 20")
    assert shown[1].endswith("Z, 90s from now.")


def test_watch_shows_what_there_is_room_for() -> None:
    many = [*JOBS, *(job(f"w-{i}", status={"queuedTimestamp": queued(i), "message": "x" * 200}) for i in range(20))]
    shown = drawn(jobs_screen(many, NOW, 10, 80, namespaces=False))
    assert len(shown) <= 10
    assert shown[0] == "21 waiting, 1 running, 1 completed"
    assert shown[1].split() == ["NAME", "QUEUE", "STATUS", "INTERR.", "RUNTIME", "AGE", "MESSAGE"]
    assert shown[2].split() == ["protein-folding", "default", "Running", "1", "20m", "150m", "running"]
    assert shown[3].endswith("…")
    assert shown[-1] == "… and 16 jobs more"
    assert drawn(jobs_screen([], NOW, 10, 80, namespaces=True))[0] == "no jobs"


def test_a_wide_terminal_shows_progress() -> None:
    reported = {**RUNNING, "lastCheckpointTimestamp": ago(300)}
    shown = drawn(jobs_screen([job("sim", "Running", status=reported)], NOW, 10, 120, namespaces=False), 120)
    columns = ["NAME", "QUEUE", "STATUS", "INTERR.", "RUNTIME", "CHECKPOINT", "UNSAVED", "USEFUL", "AGE", "MESSAGE"]
    assert shown[1].split() == columns
    assert shown[2].split()[4:9] == ["20m", "5m", "5.0", "min", "2.5"]


def test_a_name_with_brackets_is_no_markup() -> None:
    odd = msgspec.structs.replace(JOBS[1], status=msgspec.structs.replace(JOBS[1].status, message="[red]x[/red]"))
    assert "[red]x[/red]" in "\n".join(drawn(jobs_screen([odd], NOW, 10, 80, namespaces=False)))


def test_an_array_shows_how_far_it_is() -> None:
    progress = {"progress": "412/1000", "completed": 412, "failed": 3, "running": 100}
    sweep = job("sweep", phase="Running", status={"array": progress}, array={"tasks": 1000})
    assert "412/1000" in job_row(sweep, NOW, wide=True, namespaces=False)
    assert ("Tasks", "1000: 412 completed, 3 failed, 100 running") in job_details(sweep, NOW, line=None)
