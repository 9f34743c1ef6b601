"""Jobs of users that the admitter has adopted, in the words that histories have for arrays.

It reads statuses as clients do, and not as the admitter does: what is held here is what they see.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final

from scavenger_api import names
from scavenger_api.quantity import amounts
from scavenger_testing.builders import adopted_job_dict

from tests.simulation.system.specs import FAILS_WITH, SAVED

Object = dict[str, Any]

WIDEST: Final = 3
"""The most parallelism that users want."""

REASONS: Final = {
    "BackoffLimitExceeded": "Failed",
    "FailedIndexes": "TasksFailed",
    "MaxFailedIndexesExceeded": "TasksFailed",
}
"""Why a Job failed, and what a ScavengerJob would say."""


def is_adopted(job: Object) -> bool:
    """Whether a Job is one of a user that the admitter runs."""
    return bool(job["spec"].get("managedBy") == names.MANAGED_BY_ADOPTER)


def held_true(job: Object) -> dict[str, Object]:
    """The conditions of a Job that hold, by their types."""
    listed = (job.get("status") or {}).get("conditions", ())
    return {one["type"]: one for one in listed if one["status"] == "True"}


def ledger_of(job: Object) -> Object | None:
    """What the ledger of a Job says, with its phase; None where it has none."""
    listed = (job.get("status") or {}).get("conditions", ())
    found = next((one for one in listed if one["type"] == names.CONDITION_LEDGER), None)
    return None if found is None else {**json.loads(found["message"]), "phase": found["reason"]}


def is_gang(job: Object) -> bool:
    """Whether all pods of a Job start together."""
    return bool(job["metadata"].get("annotations", {}).get(names.ANNOTATION_GANG) == "true")


def as_array(job: Object) -> Object:
    """A Job as an array that says the same, or as a gang."""
    spec, status, ledger = job["spec"], job.get("status") or {}, ledger_of(job)
    kept = ("backoffLimit", "podFailurePolicy", "suspend", "activeDeadlineSeconds")
    tasks = spec.get("completions", WIDEST)  # as many as its user may have wanted workers
    width = (ledger or {}).get("width") or spec["parallelism"]  # of a queue, no other counts after its first success
    array = {"tasks": tasks, "maxRunning": min(tasks, width)}
    own = {"parallelism": 1, "array": array, **{name: spec[name] for name in kept if name in spec}}
    if is_gang(job):
        own = {**own, "parallelism": spec["completions"]}
        del own["array"]
    own["backoffLimit"] = min(spec["backoffLimit"], spec.get("backoffLimitPerIndex", spec["backoffLimit"]))
    seen: Object = {"kind": "Job", "metadata": job["metadata"], "spec": own, "status": {}}
    if ledger is None:
        return seen
    why = next((said["reason"] for kind, said in held_true(job).items() if kind in ("FailureTarget", "Failed")), None)
    seen["status"] = {
        "phase": _phase(job, str(ledger["phase"])),
        "queuedTimestamp": ledger.get("place", ""),
        "interruptedCount": ledger.get("interrupted", 0),
        "usefulCPUSeconds": ledger.get("useful", 0.0),
        "lostCPUSeconds": ledger.get("lost", 0.0),
        "usefulSeconds": ledger.get("usefulOf", {}),
        "lostSeconds": ledger.get("lostOf", {}),
        "ignoredFailures": ledger.get("ignored", 0),
        "failed": status.get("failed", 0),
        "succeeded": status.get("succeeded", 0),
        "conditions": [{"type": "Succeeded", "reason": REASONS.get(why, why)}] if why is not None else [],
    }
    return seen


def _phase(job: Object, said: str) -> str:
    if said != "Ended":
        return said
    return "Failed" if {"Failed", "FailureTarget"} & held_true(job).keys() else "Completed"


def asked_of(job: Object) -> Mapping[str, int]:
    """What each pod of a Job asks for, in thousandths."""
    containers = job["spec"]["template"]["spec"]["containers"]
    return amounts(containers[0]["resources"]["requests"])


def is_enough(job: Object) -> bool:
    """Whether a rule of its successPolicy has ended a Job before all of its indexes completed."""
    return held_true(job).get("SuccessCriteriaMet", {}).get("reason") == "SuccessPolicy"


def saved_code_of(job: Object) -> int | None:
    """The exit code by which a program says that its state is saved."""
    said = job["metadata"].get("annotations", {}).get(names.ANNOTATION_CHECKPOINT_EXIT_CODE)
    return None if said is None else int(said)


# --- drawing ---


def drawn(chance: random.Random, name: str, **meta: Any) -> Object:
    """A Job that a user submits, as the API server has it.

    Args:
        chance: decides everything else.
        name: of the Job.
        meta: namespace, uid, created.
    """
    notes = {
        key: chance.choice(values)
        for key, values in (
            (names.ANNOTATION_INTERRUPTION_AFTER, ("1m", "30m")),
            (names.ANNOTATION_CHECKPOINT_EXIT_CODE, (str(SAVED),)),
        )
        if chance.random() < 0.5
    }
    spec: Object = {
        "completions": chance.choice((1, 1, 2, 3)),
        "parallelism": chance.choice((1, 1, 2, 3)),
        "completionMode": chance.choice(("NonIndexed", "Indexed")),
        "backoffLimit": chance.choice((0, 1, 3, 6)),
        "suspend": chance.random() < 0.1,
    }
    alike = spec["completionMode"] == "NonIndexed"
    if chance.random() < 0.1:
        spec["activeDeadlineSeconds"] = chance.choice((60, 600))
    if chance.random() < 0.2:
        spec["podFailurePolicy"] = {"rules": [_rule(chance)]}
    if spec["completionMode"] == "Indexed":
        spec |= _of_indexes(random.Random(f"{name} {notes} {spec}"), spec)
    pod: Object = {"terminationGracePeriodSeconds": chance.choice((0, 5, 30))}
    cpu = chance.choice(("500m", "1", "1", "2"))
    if "podFailurePolicy" not in spec and chance.random() < 0.2:  # the API server has the two together only with Never
        pod["restartPolicy"] = "OnFailure"
    if _wants_gang(random.Random(f"gang {name} {notes} {spec}"), spec):
        notes[names.ANNOTATION_GANG] = "true"
        pod.pop("restartPolicy", None)
    job = adopted_job_dict(name, annotations=notes, cpu=cpu, pod=pod, **meta, **spec)
    if alike and chance.random() < 0.25 and names.ANNOTATION_GANG not in notes:
        del job["spec"]["completions"]  # a work queue
    return job


def _of_indexes(chance: random.Random, spec: Object) -> Object:
    """What only Indexed Jobs have. It has draws of its own, so that all else of a seed stays as it was."""
    found: Object = {}
    if chance.random() < 0.5:
        found |= {"backoffLimitPerIndex": chance.choice((0, 1)), "backoffLimit": chance.choice((1, 2**31 - 1))}
        if chance.random() < 0.5:
            found["maxFailedIndexes"] = chance.choice((0, 1))
        if "podFailurePolicy" in spec and chance.random() < 0.5:
            (rule,) = spec["podFailurePolicy"]["rules"]
            found["podFailurePolicy"] = {"rules": [{**rule, "action": "FailIndex"}]}
    if chance.random() < 0.4:
        count = chance.randint(1, spec["completions"])
        found["successPolicy"] = {"rules": [chance.choice(({"succeededCount": count}, {"succeededIndexes": "0"}))]}
    return found


def _wants_gang(chance: random.Random, spec: Object) -> bool:
    """Whether the Job is to be a gang, which it then can be. It has draws of its own as well."""
    if chance.random() < 0.6:
        return False
    spec["completionMode"] = "Indexed"
    spec["completions"] = spec["parallelism"] = chance.choice((2, 3))
    for name in ("successPolicy", "maxFailedIndexes"):
        spec.pop(name, None)
    if spec.pop("backoffLimitPerIndex", None) is not None:
        spec["backoffLimit"] = 1
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        if rule["action"] == "FailIndex":
            rule["action"] = "FailJob"
    return True


def _rule(chance: random.Random) -> Object:
    """Of a podFailurePolicy. One that fails the Job when it is disrupted is refused."""
    if chance.random() < 0.3:
        said = [{"type": "DisruptionTarget", "status": "True"}]
        return {"action": chance.choice(("Ignore", "Count")), "onPodConditions": said}
    codes = {"operator": chance.choice(("In", "NotIn")), "values": [FAILS_WITH]}
    return {"action": chance.choice(("FailJob", "Ignore", "Count")), "onExitCodes": codes}
