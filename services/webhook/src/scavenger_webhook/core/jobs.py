"""ScavengerJobs: what the CEL rules of their definition cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_api.reasons import WaitReason
from scavenger_api.rules.bounds import bound_problems
from scavenger_api.rules.job import problems_of_its_own, warnings_of_its_own
from scavenger_api.rules.problem import FORBIDDEN, NOT_FOUND, Problem, shown, warning
from scavenger_domain.pod_security import Level, breaches, level_of
from scavenger_domain.queues import why_closed
from scavenger_domain.selectors import selects

from scavenger_webhook.core.resources import node_warnings, quota_problems, reclaimed_warnings
from scavenger_webhook.core.snapshot import Facts
from scavenger_webhook.core.verdict import ACCEPTED, Verdict

# No names: any client of the webhook could ask for them. What a caller may list, the API server decides.
CHOOSE: Final = "choose another queue (`kubectl get scavengerqueues` lists them)"


def review_created(job: ScavengerJob, facts: Facts) -> Verdict:
    """A job that is being created: everything wrong with it at once."""
    spec = job.spec
    level = Level.BASELINE if facts.namespace_labels is None else level_of(facts.namespace_labels)
    problems = (
        *_queue_problems(spec, facts),
        *_grace_problems(spec, facts),
        *bound_problems(spec, facts.rules.bounds),
        *problems_of_its_own(spec),
        *(Problem(*found, FORBIDDEN) for found in breaches(spec, level)),
    )
    of_cluster = (*_claim_warnings(facts), *node_warnings(spec, facts), *reclaimed_warnings(spec, facts))
    warnings = (*of_cluster, *_label_warnings(spec, facts), *warnings_of_its_own(spec))
    return Verdict(problems, warnings)


def _claim_warnings(facts: Facts) -> Iterator[str]:
    """Claims may come later than the job: it waits, and is Failed when its turn comes without them."""
    for name in facts.absent_claims:
        yield warning(f"persistentvolumeclaim {shown(name)} not found: the job fails when its turn comes without it")


def _label_warnings(spec: ScavengerJobSpec, facts: Facts) -> Iterator[str]:
    """What the namespace may not allow, where its labels are not looked up: the admitter knows them."""
    if facts.namespace_labels is None:
        never = set(breaches(spec, Level.BASELINE))
        for found in breaches(spec, Level.RESTRICTED):
            if found not in never:
                yield warning(f"the job waits unless its namespace allows this: {found}")


def review_updated(old: ScavengerJob, new: ScavengerJob, facts: Facts) -> Verdict:
    """A job that is being changed. Only a move to another queue is judged: the rest of the spec cannot change, and a
    job must stay changeable (suspended, finished, freed of a finalizer) when its queue has been closed or is gone.
    """
    if new.metadata.deletion_timestamp is not None or old.spec.queue == new.spec.queue:
        return ACCEPTED
    return Verdict(tuple(_queue_problems(new.spec, facts)))


def _queue_problems(spec: ScavengerJobSpec, facts: Facts) -> Iterator[Problem]:
    field, queue = "spec.queue", facts.queue(spec.queue)
    if queue is None:
        yield Problem(field, f"there is no queue {shown(spec.queue)}; {CHOOSE}", NOT_FOUND)
        return
    selected = queue.selector is None or selects(queue.selector, facts.namespace_labels or {})
    reason = why_closed(queue.state, selected=selected)
    if reason is None:
        yield from quota_problems(spec, queue)
    else:
        yield Problem(field, _CLOSED[reason].format(queue=queue.name), FORBIDDEN)


_CLOSED: Final = {
    WaitReason.QUEUE_CLOSED: (f"queue {{queue}} is closed and takes no new jobs; wait until it is open, or {CHOOSE}"),
    WaitReason.QUEUE_RELEASING: f"queue {{queue}} is being deleted; {CHOOSE}",
    WaitReason.NAMESPACE_NOT_SELECTED: (
        f"queue {{queue}} is not for jobs of this namespace; {CHOOSE}, or ask the administrator to change its "
        "spec.namespaceSelector or the labels of the namespace"
    ),
}


def _grace_problems(spec: ScavengerJobSpec, facts: Facts) -> Iterator[Problem]:
    most, wanted = facts.rules.max_grace, spec.grace_seconds
    if wanted > most:
        text = (
            f"{wanted} is more than the {most} seconds that the administrator allows, as a regular pod may have to "
            f"wait this long; write {most} or less, and checkpoints that are quicker"
        )
        yield Problem("spec.terminationGracePeriodSeconds", text)
