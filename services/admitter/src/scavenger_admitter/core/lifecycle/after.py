"""Jobs that start after others: what has become of the jobs of spec.after, and what is still to come.

The first job of a name that is seen is the one that counts, and its UID is in the status. So a job that is deleted and
created again under its name lets no job start. Once it has ended as it had to, that stays in the status.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scavenger_api.after import AfterJob, FollowedJob
from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.other_jobs import OtherJob, has_ended, waits_for
from scavenger_admitter.core.waits import Wait

_MAX_SHOWN: Final = 8
"""Names of a circle that a message has."""
_AGAIN: Final = "delete this job, and create it again"


def follow(draft: Draft) -> None:
    """Write down what is seen of the jobs of spec.after. When the last of them has ended, the job gets its place in
    the queue: those that wait for the end of another one keep none."""
    job = draft.seen.job
    if not (wanted := waits_for(job)):
        return
    known = {one.job: one for one in draft.status.after or ()}
    for one in wanted:
        seen = (other for other in draft.seen.others if other.name == one.job)
        if (found := _newer(known.get(one.job), seen)) is not None:
            known[one.job] = found
    after = tuple(known[one.job] for one in job.spec.after or () if one.job in known)
    if after == (draft.status.after or ()):
        return
    draft.set(after=after)
    if job.status.phase is not None and all(has_ended(one, known.get(one.job)) for one in wanted):
        draft.set(queued_timestamp=accounting.requeued(draft.status, draft.observed.end_of_line))


def wait_for_others(draft: Draft) -> Wait | None:
    """Why the job may not start yet, by spec.after; None where it may."""
    known = {one.job: one for one in draft.status.after or ()}
    left = [one for one in waits_for(draft.seen.job) if not has_ended(one, known.get(one.job))]
    if not left:
        return None
    there = {other.uid for other in draft.seen.others}
    problem = next((found for one in left if (found := _never(one, known.get(one.job), there))), "")
    if problem:
        return Wait(WaitReason.DEPENDENCY_NEVER_SATISFIED, f"{problem}: {_AGAIN}", problem)
    if circle := draft.seen.circle:
        shown = " → ".join(circle if len(circle) <= _MAX_SHOWN else (*circle[: _MAX_SHOWN - 1], "…", circle[-1]))
        problem = f"it waits for itself by spec.after: {shown}"
        return Wait(WaitReason.DEPENDENCY_NEVER_SATISFIED, f"{problem}: delete one of these jobs", problem)
    first, more = left[0], f"; {len(left) - 1} more are to end" if len(left) > 1 else ""
    until = "to complete" if first.when == "Completed" else "to complete or fail"
    missing = "" if first.job in known else ", which does not exist yet,"
    message = f"by spec.after it waits for job {first.job}{missing} {until}{more}"
    return Wait(WaitReason.DEPENDENCY, message, message)


def _newer(known: FollowedJob | None, seen: Iterable[OtherJob]) -> FollowedJob | None:
    """What is known of a job from now on. An array that failed may go on, by spec.array.retry."""
    found = next((one for one in seen if known is None or one.uid == known.uid), None)
    return known if found is None else FollowedJob(job=found.name, uid=found.uid, ended=found.ended)


def _never(wanted: AfterJob, known: FollowedJob | None, there: set[str]) -> str:
    """Why no waiting helps; empty where it may. there: UIDs of the jobs that exist."""
    if known is None:
        return ""
    if known.ended is not None:
        return f"job {wanted.job} failed, and spec.after wants it to complete"
    if known.uid in there:
        return ""
    return f"job {wanted.job} of spec.after was deleted before its end was seen, and another one of its name is not it"
