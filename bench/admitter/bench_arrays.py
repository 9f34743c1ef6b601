"""What an array of 100,000 tasks costs in a cycle of admission, snapshot included.

2,000 nodes of 50 cores, three queues, one of which has the array; the others have a thousand jobs each.

- arrays.100000_cycle_seconds: a cycle that starts as many as one may (5,000 pods); processor time, the least of five.
- arrays.100000_full_cycle_seconds: a cycle that finds no room.
- arrays.cycle_ratio_to_jobs: the first cycle ÷ the same with 100,000 jobs of one pod in the place of the array.
- arrays.100000_mb: what the admitter allocates for an array whose status is as large as one can be, from its bytes to
  its next status; without pods, which cost what the pods of jobs do.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from typing import Any, Final

from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant, QueueView
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.lifecycle.array.plan import plan_array
from scavenger_admitter.core.lifecycle.array.tasks import Tasks
from scavenger_admitter.core.lifecycle.observation import Observation
from scavenger_api.indexes import all_of
from scavenger_api.job import ScavengerJob
from scavenger_testing import builders
from scavenger_testing.builders import scavengerjob_dict
from scavenger_testing.clock import START

NODES: Final = 2_000
CORES: Final = 50
TASKS: Final = 100_000
OTHERS: Final = 1_000
QUEUES: Final = ("a", "b", "c")
NOW: Final = 1_800_000_000_000_000
REPEAT: Final = 5
ONE: Final = Shape.of({"cpu": 1000, "memory": 1 << 30})


def run() -> list[dict[str, Any]]:
    """The figures."""
    seconds = min(_cycle(array=True)[0] for _ in range(REPEAT))
    jobs = min(_cycle(array=False)[0] for _ in range(REPEAT))
    full = min(_cycle(array=True, full=True)[0] for _ in range(REPEAT))
    return [
        {"name": "arrays.100000_cycle_seconds", "value": seconds, "unit": "s", "goal": "<= 0.5"},
        {"name": "arrays.100000_full_cycle_seconds", "value": full, "unit": "s", "goal": "<= 0.5"},
        {"name": "arrays.100000_mb", "value": _megabytes(), "unit": "MB", "goal": "<= 100"},
        {"name": "arrays.cycle_ratio_to_jobs", "value": seconds / jobs, "unit": "ratio", "goal": None},
    ]


def _cycle(*, array: bool, full: bool = False) -> tuple[float, AdmissionPlan]:
    """Processor time of a cycle, and its plan."""
    state = ClusterState()
    for number in range(NODES):
        state.apply_node(builders.node(f"n{number:04}", cpu=str(CORES), memory="1000Gi"))
    for queue in QUEUES:
        state.apply_queue(QueueView(queue, weight=1))
    for number in range(1 if array else TASKS):
        state.apply_candidate(_job("a", number, TASKS if array else 0))
    for queue in QUEUES[1:]:
        for number in range(OTHERS):
            state.apply_candidate(_job(queue, number))
    if full:
        for number in range(NODES):
            name = f"n{number:04}"
            whole = Shape.of({"cpu": CORES * 1000})
            state.assumed_starts.assume(f"other/{number}", Grant("r", whole, 1, (name,)), queue="a")
    began = time.process_time()
    made = plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(100)))
    return time.process_time() - began, made


def _job(queue: str, number: int, tasks: int = 0) -> Candidate:
    uid = f"{queue}{number:06}"
    return Candidate(f"ns/{queue}-{number}", uid, queue, ONE, queued_at=number + 1, tasks=tasks)


def _megabytes() -> float:
    """The most that is allocated at a time."""
    rng = random.Random(1)
    completed = rng.getrandbits(TASKS)
    failed = all_of(TASKS) & ~completed & rng.getrandbits(TASKS)
    retries = {index: rng.randrange(1, 16) for index in range(TASKS)}
    array = Tasks(TASKS, completed, failed, retries=retries).status(0)
    fields = scavengerjob_dict("a", array={"tasks": TASKS}, phase="Running", status={"array": array.to_dict()})
    body = json.dumps(fields)
    tracemalloc.start()
    seen = Observation(
        job=ScavengerJob.model_validate_json(body), batch=None, pods=(), nodes={}, now=START, name_used=False
    )
    made = plan_array(seen)
    assert made.startable
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20
