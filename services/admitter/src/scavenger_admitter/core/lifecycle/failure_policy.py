"""What follows from a pod that failed by itself, for a job and for a task of an array.

Which rule of spec.podFailurePolicy matches is as the Job controller finds it:
kubernetes/pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from scavenger_api.failure_policy import OnExitCodes, PodFailurePolicy, PodFailurePolicyRule
from scavenger_api.job import ScavengerJobSpec
from scavenger_domain.pod_ends import Exit
from scavenger_kube import kinds


class Follows(enum.Enum):
    """What follows from a failure."""

    FAIL_JOB = "FailJob"
    """The job has failed, an array with all its tasks."""
    FAIL = "FailIndex"
    """The job, or the task, has failed."""
    OTHER_ARCHITECTURE = "OtherArchitecture"
    """It starts again, on a node with other processors, and nothing is counted."""
    ELSEWHERE = "Elsewhere"
    """It starts again, on another node if it can, and nothing is counted."""
    FREE = "Ignore"
    """It starts again, and no retry is used up."""
    RETRY = "Retry"
    """It starts again, and has one retry less."""


FINAL: Final = (Follows.FAIL_JOB, Follows.FAIL)
"""After which it does not start again."""


class Judged(NamedTuple):
    """What follows from a failure, and why.

    Attributes:
        follows: that.
        node: that the pod was on; empty where it is gone.
        rule: of podFailurePolicy that says so; None where none does.
    """

    follows: Follows
    node: str
    rule: int | None = None

    @property
    def said(self) -> str:
        """The rule in words."""
        return f"rules[{self.rule}] of podFailurePolicy"


def controller_words(pod: kinds.Pod, ended: Exit, judged: Judged) -> str:
    """Why a Job has failed, as the Job controller says it (matchPodFailurePolicy).

    Args:
        pod: that failed.
        ended: how.
        judged: that it is the end of the Job.
    """
    meta, rule = pod.metadata, f"matching FailJob rule at index {judged.rule}"
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    codes = {one.name: one.state.terminated.exit_code for one in statuses if one.state.terminated is not None}
    if codes.get(ended.container):
        code = codes[ended.container]
        return f"Container {ended.container} for pod {meta.namespace}/{meta.name} failed with exit code {code} {rule}"
    found = next((one.type for one in pod.status.conditions if one.status == "True"), "")
    return f"Pod {meta.namespace}/{meta.name} has condition {found} {rule}"


def judge(spec: ScavengerJobSpec, pod: kinds.Pod | None, used: int, *, unfit: str, untouched: bool) -> Judged:
    """What follows from the failure of a pod.

    Args:
        spec: of its job.
        pod: that failed; None where it is gone.
        used: retries of the job, or of the task, that are used up.
        unfit: the architecture of the node, where the program is not made for it and another one is there; else empty.
        untouched: whether `snap` says that this node or volume is at fault.
    """
    node = pod.spec.node_name if pod is not None else ""
    if unfit:
        return Judged(Follows.OTHER_ARCHITECTURE, node)
    matched = matching_rule(spec.pod_failure_policy, pod)
    if matched is not None and matched[1].action != "Count":
        return Judged(Follows(matched[1].action), node, matched[0])
    if untouched:
        return Judged(Follows.ELSEWHERE, node)
    return Judged(Follows.RETRY if used < (spec.backoff_limit or 0) else Follows.FAIL, node)


def matching_rule(policy: PodFailurePolicy | None, pod: kinds.Pod | None) -> tuple[int, PodFailurePolicyRule] | None:
    """The first rule that matches the pod, with its place in the list; None where the failure counts."""
    if policy is None or pod is None:
        return None
    return next((found for found in enumerate(policy.rules) if _matches(found[1], pod)), None)


def _matches(rule: PodFailurePolicyRule, pod: kinds.Pod) -> bool:
    if rule.on_exit_codes is not None:
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        return any(_exited_with(rule.on_exit_codes, status) for status in statuses)
    wanted = {(condition.type, condition.status) for condition in rule.on_pod_conditions or ()}
    return any((condition.type, condition.status) in wanted for condition in pod.status.conditions)


def _exited_with(wanted: OnExitCodes, status: kinds.ContainerStatus) -> bool:
    ended = status.state.terminated
    if ended is None or ended.exit_code == 0 or wanted.container_name not in (None, status.name):
        return False
    return (ended.exit_code in wanted.values) == (wanted.operator == "In")
