"""Which rule of spec.podFailurePolicy a pod matches that failed by itself, as the Job controller finds it.

Source: kubernetes/pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy.
"""

from __future__ import annotations

from scavenger_api.failure_policy import OnExitCodes, PodFailurePolicy, PodFailurePolicyRule
from scavenger_kube import kinds


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
