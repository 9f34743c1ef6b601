"""Jobs that are drawn at random, what happens to them, and what a client may see differ between the built-in Job
controller and the admitter: docs/designs/0032-adopted-jobs.md#the-oracle.

Pure: no cluster is asked here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scavenger_api import names
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_api.indexes import parse_indexes
from scavenger_api.times import parse_time

Object = dict[str, Any]

TOLD: Final[Mapping[str, str]] = {
    names.CONDITION_LEDGER: "the admitter keeps its ledger in a condition that is always False, and last",
    "startTime": "it is the creation of the first pod, and not of the Job: a job that waits has not started",
    "pods of failures": "the pod of a failed attempt goes before its retry, so that two lives never meet",
    "pods too many": (
        "the pod with the least unsaved work goes first, and the Job controller takes others: Indexed Jobs get no less "
        "parallelism"
    ),
    "restartPolicy": "with OnFailure a kubelet starts the program again, which nobody does here: it is not drawn",
    "suspend": (
        "the exit of a pod that stops as its user suspends the Job, or narrows it, means nothing. The Job controller "
        "fails the Job by a FailJob rule if it sees that exit in time: such pods end with a code that no rule names"
    ),
    "podReplacementPolicy": "a replacement always waits for the end of the pod: it is not drawn",
}
"""What differs, and is told to users (docs/designs/0032-adopted-jobs.md). All else is a fault."""

DEADLINE: Final = 5
"""Seconds."""
FAILS_WITH: Final = 3
UNLIMITED: Final = 2**31 - 1
ENDED: Final = ("Complete", "Failed")
ENDING: Final = ("SuccessCriteriaMet", "FailureTarget")


@dataclass(frozen=True)
class Step:
    """What happens to a Job when it is at rest.

    Attributes:
        act: `end`, the first of its pods; `suspend`, `resume`; `width`, of its parallelism.
        value: exit code, or parallelism.
    """

    act: str
    value: int = 0


@dataclass(frozen=True)
class Drawn:
    """A Job, and what happens to it before all its pods may end.

    Attributes:
        spec: of the Job, without its template.
        steps: one after the other, each when the Job is at rest.
        ends: whether its pods end at last. Those of a Job with a deadline do not.
    """

    spec: Object
    steps: tuple[Step, ...]
    ends: bool = True

    @property
    def one_by_one(self) -> bool:
        """Whether its pods end at last one after the other: who is first decides what becomes of the others."""
        return "successPolicy" in self.spec


# --- drawing ---


def draw(seed: int, *, failures: int = 1, most: int = 2) -> Drawn:
    """A Job and its steps.

    Args:
        seed: decides everything.
        failures: pods that fail, at most. The Job controller waits 10 s after the first, and twice as long each time.
        most: steps, at most.
    """
    chance = random.Random(seed)
    indexed = chance.random() < 0.4
    completions = chance.choice((0, 1, 1, 2, 3, 4, 6)) if indexed or chance.random() < 0.8 else None
    width = chance.choice((0, 1, 1, 2, 2, 3, 4))
    spec: Object = {"parallelism": width, "backoffLimit": chance.choice((0, 0, 1, 2, 3))}
    if completions is not None:
        spec["completions"] = completions
    if indexed:
        spec["completionMode"] = "Indexed"
    if chance.random() < 0.12 and completions != 0 and width:
        return Drawn({**spec, "activeDeadlineSeconds": DEADLINE}, (), ends=False)
    if chance.random() < 0.25:
        spec["podFailurePolicy"] = {"rules": _rules(chance)}
    suspended = chance.random() < 0.2
    if suspended:
        spec["suspend"] = True
    if indexed and completions:
        spec |= _of_indexes(random.Random(f"indexes {seed}"), completions, spec)
    return Drawn(spec, tuple(_steps(chance, width, failures, most, suspended=suspended, narrows=not indexed)))


def _of_indexes(chance: random.Random, completions: int, spec: Object) -> Object:
    """What only Indexed Jobs have. It has draws of its own, so that all else of a seed stays as it was."""
    found: Object = {}
    if chance.random() < 0.5:
        found["backoffLimitPerIndex"] = chance.choice((0, 0, 1))
        if chance.random() < 0.6:
            found["maxFailedIndexes"] = chance.choice((0, 1))
        if chance.random() < 0.8:
            found["backoffLimit"] = UNLIMITED
        if "podFailurePolicy" in spec and chance.random() < 0.5:
            *first, last = spec["podFailurePolicy"]["rules"]
            found["podFailurePolicy"] = {"rules": [*first, {**last, "action": "FailIndex"}]}
    if chance.random() < 0.4:
        last = chance.randrange(completions)
        some: Object = {"succeededIndexes": f"0-{last}" if last else "0"}
        one: Object = {"succeededIndexes": str(completions - 1), "succeededCount": 1}
        count: Object = {"succeededCount": chance.randint(1, last + 1)}
        found["successPolicy"] = {"rules": chance.choice(([some], [count], [one, count], [{**some, **count}]))}
    return found


def _rules(chance: random.Random) -> list[Object]:
    """Of a podFailurePolicy."""
    codes = chance.choice(({"operator": "In", "values": [FAILS_WITH]}, {"operator": "NotIn", "values": [FAILS_WITH]}))
    named = {"containerName": "work"} if chance.random() < 0.5 else {}
    rule = {"action": chance.choice(("FailJob", "Ignore", "Count")), "onExitCodes": {**codes, **named}}
    ready = {"type": "Ready", "status": "True"}
    first = {"action": "Count", "onPodConditions": [ready]} if chance.random() < 0.2 else None
    return [one for one in (first, rule) if one is not None]


def _steps(
    chance: random.Random, width: int, failures: int, most: int, *, suspended: bool, narrows: bool
) -> list[Step]:
    found: list[Step] = [Step("resume")] if suspended else []
    if not width:
        width = chance.randint(1, 3)
        found.append(Step("width", width))
    while len(found) < most:
        act = chance.choice(("end", "end", "fail", "suspend", "width"))
        if act == "fail" and failures:
            failures -= 1
            found.append(Step("end", chance.choice((FAILS_WITH, 1))))
        elif act == "suspend":
            found += [Step("suspend"), Step("resume")]
        elif act == "width":
            value = chance.randint(1, 4)
            width = value if narrows else max(width, value)
            found.append(Step("width", width))
        elif act == "end":
            found.append(Step("end"))
    return found


def stops_with(spec: Object) -> int:
    """The exit code of programs of a Job that are told to stop."""
    rules = spec.get("podFailurePolicy", {}).get("rules", ())
    others = any(one["action"] == "FailJob" and one["onExitCodes"]["operator"] == "NotIn" for one in rules)
    return FAILS_WITH if others else 137


# --- looking ---


def stated(job: Object, kind: str) -> bool:
    """Whether a condition of a Job holds."""
    listed = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in listed)


def over(job: Object) -> bool:
    """Whether a Job has ended."""
    return any(stated(job, kind) for kind in ENDED)


def alive(pods: Sequence[Object]) -> list[Object]:
    """Pods that have not ended, by index, or else by creation."""
    found = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return sorted(found, key=lambda pod: (_index(pod) or 0, pod["metadata"]["creationTimestamp"]))


def runs(pod: Object) -> bool:
    """Whether it runs, and nobody deletes it."""
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def at_rest(job: Object, pods: Sequence[Object]) -> bool:
    """Whether nothing happens any more until somebody acts: the status says so, and no pod is on its way."""
    status, spec, living = job.get("status") or {}, job["spec"], alive(pods)
    if over(job):
        return not living
    if spec.get("suspend"):
        return stated(job, "Suspended") and not living and not status.get("terminating")
    if any(stated(job, kind) for kind in ("Suspended", *ENDING)) or not all(map(runs, living)):
        return False
    if spec.get("completions") == status.get("succeeded", 0):  # its end is due
        return False
    wanted, said = _wanted(job, living), {status.get(one, 0) for one in ("active", "ready")}
    return len(living) == wanted and said == {wanted} and not status.get("terminating")


def _wanted(job: Object, living: Sequence[Object]) -> int:
    """How many pods it is to have."""
    spec, succeeded = job["spec"], (job.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is None:
        return len(living) if succeeded else int(spec["parallelism"])
    failed = parse_indexes((job.get("status") or {}).get("failedIndexes") or "").bit_count()
    return int(min(spec["parallelism"], spec["completions"] - succeeded - failed))


def seen(job: Object, pods: Sequence[Object]) -> Object:
    """What a client can see of a Job at rest, in words that do not depend on names, times and luck."""
    status, meta = job.get("status") or {}, job["metadata"]
    started, completed = (parse_time(status.get(one)) for one in ("startTime", "completionTime"))
    found: Object = {one: status.get(one, 0) for one in ("active", "ready", "terminating", "succeeded", "failed")}
    found |= {one: status.get(one) for one in ("completedIndexes", "failedIndexes")}
    if not status and "backoffLimitPerIndex" in job["spec"]:
        found["failedIndexes"] = ""  # of a Job that wants no pods yet nobody here writes a status
    found["conditions"] = [
        [one["type"], one["status"], one.get("reason", ""), _without_names(one.get("message", ""), meta)]
        for one in status.get("conditions") or ()
        if one["type"] != names.CONDITION_LEDGER
    ]
    found["uncounted"] = status.get("uncountedTerminatedPods") or {}
    if alive(pods) or over(job):
        found["started"] = started is not None
    found["completed"] = completed is not None and (started is None or started <= completed)
    succeeded = [pod for pod in pods if pod["status"].get("phase") != "Failed"]
    found["pods"] = sorted([_index(pod), pod["status"].get("phase")] for pod in succeeded)
    return found


def _index(pod: Object) -> int:
    """Its completion index; -1 where it has none."""
    return int(pod["metadata"].get("annotations", {}).get(COMPLETION_INDEX, -1))


def _without_names(text: str, meta: Object) -> str:
    return re.sub(rf"{re.escape(meta['namespace'])}/{re.escape(meta['name'])}[-a-z0-9]*", "POD", text)


def differences(plain: Object, served: Object) -> list[str]:
    """What of two `seen` is not the same."""
    return [
        f"{one}: built-in {plain.get(one)!r}, adopted {served.get(one)!r}"
        for one in sorted(plain.keys() | served.keys())
        if plain.get(one) != served.get(one)
    ]
