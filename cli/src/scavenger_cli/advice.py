"""What helps a job that waits, by the reason that the admitter published. Pure; it decides nothing about admission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scavenger_api import names
from scavenger_api.reasons import InterruptionReason, WaitReason

from scavenger_cli.facts import Facts
from scavenger_cli.figures import loads
from scavenger_cli.objects import Job
from scavenger_cli.words import age, short_amount, spell

_PASSES: Final = "wait: it starts when regular workloads or other jobs have freed enough"
_PAUSED: Final = "wait: it starts again by itself, after a delay that grows with every start or run that ends too soon"
_RETRIED: Final = "wait: the admitter retries it, after a delay that grows with every failed start"
_TURN: Final = "wait: {wait}"
_MOVE: Final = "move the job: {move}"
_REGULATOR: Final = "ask an administrator to look: kubectl -n scavenger-system logs deploy/scavenger-regulator"

REMEDIES: Final[Mapping[WaitReason, tuple[str, ...]]] = {
    WaitReason.QUEUED: (_TURN,),
    WaitReason.NEXT_CYCLE: (_TURN,),
    WaitReason.STARTING: (_TURN,),
    WaitReason.SUSPENDED: ("{resume}",),
    WaitReason.DEPENDENCY: ("{others}",),
    WaitReason.CHECKPOINTED: (
        "wait: it goes on in its turn, a minute after its last start at the earliest, later after several short runs",
    ),
    WaitReason.RETRYING: ("{logs}", "wait: it starts again in its turn, later after several short runs"),
    WaitReason.PODS_REMAIN: ("wait: it starts when its last pod has ended, within its grace period",),
    WaitReason.HELD_BACK: ("free it as the message says, or ask an administrator to",),
    WaitReason.BACKING_OFF: (_PAUSED,),
    WaitReason.UNSCHEDULABLE: (_RETRIED,),
    WaitReason.REFUSED: (_RETRIED,),
    WaitReason.START_ERROR: (_RETRIED,),
    WaitReason.START_TIMEOUT: (
        "see that its image can be pulled and its volumes be mounted; a pull goes on where it began",
        _RETRIED,
    ),
    WaitReason.REFERENCE_MISSING: ("create what the message names", _RETRIED),
    WaitReason.QUOTA_EXCEEDED: (
        "kubectl describe resourcequota shows what is left in its namespace",
        "ask an administrator to leave scavenger jobs out of ResourceQuotas: set admission.quotas of scavenger-webhook",
        _RETRIED,
    ),
    WaitReason.CREATION_REFUSED: ("change what the message names, or ask an administrator to", _RETRIED),
    WaitReason.CREATION_FAILED: (_RETRIED,),
    WaitReason.CREATION_UNANSWERED: (
        "wait: it starts in its turn when Jobs of its namespace can be created again",
        "ask an administrator which admission webhook does not answer: kubectl get validatingwebhookconfigurations",
    ),
    WaitReason.NAME_TAKEN: ("do what the message says of the Service or the Secret", _RETRIED),
    WaitReason.INSTALLATION_INCOMPLETE: ("ask an administrator to complete the installation", _RETRIED),
    WaitReason.DEPENDENCY_NEVER_SATISFIED: (
        "delete it, and submit it again without the job that the message names, or after another one",
    ),
    WaitReason.SPEC_TOO_LARGE: ("put large values into a ConfigMap or Secret, mount it, and submit the job again",),
    WaitReason.BEYOND_MAXIMA: (
        "submit it again with what the message allows",
        "ask an administrator to raise settings.maxInterruptionAfter or settings.allowedTolerations",
    ),
    WaitReason.POD_SECURITY: (
        "submit it again without what the message names",
        "ask an administrator for the label that the message names",
    ),
    WaitReason.NO_NODE: ("add a node",),
    WaitReason.NO_SELECTOR_MATCH: (
        "submit it again with another nodeSelector",
        "label a node: kubectl label node NODE {selector}",
    ),
    WaitReason.TAINT_NOT_TOLERATED: ("submit it again with spec.tolerations for it",),
    WaitReason.LARGER_THAN_ANY_NODE: ("submit it again with lower resources", "add a larger node"),
    WaitReason.LARGER_THAN_CLUSTER: ("submit it again with lower parallelism or resources", "add nodes"),
    WaitReason.QUEUE_MISSING: (_MOVE, "create the queue: kubectl sj queue create {queue} --weight 1"),
    WaitReason.QUEUE_CLOSED: ("open it: kubectl sj queue open {queue}", _MOVE),
    WaitReason.QUEUE_RELEASING: (_MOVE,),
    WaitReason.NAMESPACE_NOT_SELECTED: (_MOVE, "kubectl sj queue get {queue} shows for which namespaces it is"),
    WaitReason.LARGER_THAN_QUOTA: (
        "submit it again with lower parallelism or resources",
        _MOVE,
        "ask an administrator for a larger quota",
    ),
    WaitReason.QUEUE_QUOTA: ("wait until a job of the queue ends", "ask an administrator for a larger quota"),
    WaitReason.QUEUE_SHARE: ("wait: it starts when the others need no more", "kubectl sj queue list shows all shares"),
    WaitReason.MAKING_ROOM: ("wait: it starts when the pods have ended, within their grace period",),
    WaitReason.BLIND: (_REGULATOR, "kubectl top nodes shows whether the metrics API answers"),
    WaitReason.ADMIT_FALSE: ("wait: {admission}", "kubectl sj levels shows the load"),
    WaitReason.ADMISSION_LEVEL: (_PASSES,),
    WaitReason.NO_PLACE: (_PASSES,),
    WaitReason.TURN_KEPT: ("wait: it starts when enough of the jobs that run there have ended",),
    WaitReason.NO_HEADROOM: ("wait: it starts when less is used on a node",),
    WaitReason.NOTHING_RECLAIMED: (
        "ask an administrator: the regulator publishes it when started with --reclaimed",
        "submit it again with capacity: Guaranteed",
    ),
}
"""What helps, by reason; docs/reasons.md says the same."""


def command(job: Job, verb: str, *options: str) -> str:
    """A command about this job that can be pasted as it is."""
    words = ["kubectl sj", verb, job.name, *options]
    return " ".join([*words, f"-n {job.namespace}"] if job.namespace else words)


def remedies(reason: str, facts: Facts) -> tuple[str, ...]:
    """What helps against this reason of the condition Admitted; nothing for one that this version does not know."""
    word, job = WaitReason.of(reason), facts.job
    if word is None:  # a start that was undone from outside before the job ran
        return (_RETRIED,) if InterruptionReason.of(reason) else ()
    known = {
        "queue": job.spec.queue,
        "selector": ", ".join(f"{name}={value}" for name, value in sorted(job.spec.selected_nodes.items())),
        "move": command(job, "move", f"--queue {names.DEFAULT_QUEUE}"),
        "wait": command(job, "wait", "--for=running"),
        "resume": command(job, "resume"),
        "others": _others(job),
        "logs": f"see why it failed: {command(job, 'logs')}",
        "admission": _reopens(facts),
    }
    hint = _HINTS.get(word, _no_hint)(facts)
    return (*(text.format_map(known) for text in REMEDIES[word]), *hint)


# --- with figures that are known here -------------------------------------------------------------------------


def _reopens(facts: Facts) -> str:
    """When the regulator admits jobs again."""
    end = facts.levels.cooldown_until if facts.levels is not None else None
    if end is not None and end > facts.now:
        return f"jobs start again after the cool-down, which ends in {age(facts.now, end)}"
    return "jobs start again when the load has fallen"


def _others(job: Job) -> str:
    """What shows how far the first job is that this one waits for."""
    known = {one.job: one for one in job.status.after}
    left = [one.job for one in job.spec.after if one.job not in known or not known[one.job].ended]
    where = f" -n {job.namespace}" if job.namespace else ""
    return f"see how far it is: kubectl sj why {left[0]}{where}" if left else "wait until it is seen that they ended"


def _no_hint(_: Facts) -> tuple[str, ...]:
    return ()


def _stuck(facts: Facts) -> tuple[str, ...]:
    nodes = [pod.spec.node_name for pod in facts.pods if not pod.ended and pod.metadata.deletion_timestamp]
    return tuple(f"when node {node} is switched off for good: kubectl delete node {node}" for node in nodes[:1] if node)


def _smaller(facts: Facts) -> tuple[str, ...]:
    """How much the job could ask for and be under the level."""
    for name, load in loads(facts).items():
        if load.with_job >= load.admission and load.allocatable is not None:
            left = int((load.admission - load.now) / 100 * load.allocatable)
            text = f"a job of less than {short_amount(name, left)} {name} in all would be under the level"
            return (text,) if left > 0 else ()
    return ()


def _fits_now(facts: Facts) -> tuple[str, ...]:
    """How many pods of the job would fit now, or how large its pods may be."""
    room, spec = facts.room, facts.job.spec
    if room is None or room.places >= spec.parallelism:
        return ()
    if room.open == 0:
        return ("kubectl get nodes shows which are cordoned; kubectl uncordon NODE opens one",)
    if room.places:
        return (f"submitted with parallelism {room.places} it would fit now",)
    if room.largest_free is None or not all(room.largest_free.amounts.values()):
        return ()
    largest = spell({name: room.largest_free.amounts.get(name, 0) for name in spec.requests})
    return (f"pods of {largest} or less would fit now",)


_HINTS: Final[Mapping[WaitReason, Callable[[Facts], tuple[str, ...]]]] = {
    WaitReason.HELD_BACK: _stuck,
    WaitReason.ADMISSION_LEVEL: _smaller,
    WaitReason.NO_PLACE: _fits_now,
    WaitReason.NO_HEADROOM: _fits_now,
}
