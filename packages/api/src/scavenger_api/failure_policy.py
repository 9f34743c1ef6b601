"""spec.podFailurePolicy: what a failure of the program's own means, in the words of batch/v1."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from scavenger_api.model import DnsLabel, Model, cel, validations

ExitCode = Annotated[int, Field(ge=0, le=255, json_schema_extra={"format": "int32"})]


class OnExitCodes(Model):
    """Exit codes of containers."""

    container_name: DnsLabel | None = None
    """The container, or init container, that is looked at; by default all of them."""
    operator: Literal["In", "NotIn"]
    """Whether the code of a container that failed has to be among the values."""
    values: Annotated[tuple[ExitCode, ...], Field(min_length=1, max_length=255)]
    """Exit codes. 0 is no failure and matches nothing."""


class OnPodCondition(Model):
    """A condition of the pod."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Its type. DisruptionTarget is that of an interruption, which is no failure."""
    status: Literal["True", "False", "Unknown"] = "True"
    """Its status."""


class PodFailurePolicyRule(Model):
    """What follows when a pod fails by itself in this way."""

    action: Literal["FailJob", "FailIndex", "Ignore", "Count"]
    """FailJob makes the job Failed. FailIndex makes the task of an array fail, however many retries it has left. Ignore
    starts it again and counts nothing. Count does what backoffLimit says."""
    on_exit_codes: OnExitCodes | None = None
    """A container ended with one of these exit codes."""
    on_pod_conditions: Annotated[tuple[OnPodCondition, ...] | None, Field(min_length=1, max_length=20)] = None
    """The pod has one of these conditions."""


class PodFailurePolicy(Model):
    """The first rule that matches a failed pod decides; without one the failure counts."""

    rules: Annotated[tuple[PodFailurePolicyRule, ...], Field(max_length=20)]
    """Rules, in order."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "self.rules.all(r, has(r.onExitCodes) != has(r.onPodConditions))",
                "rules: each has either onExitCodes or onPodConditions; write one rule for each",
            ),
            cel(
                "self.rules.all(r, !has(r.onExitCodes) || r.onExitCodes.operator != 'In' || "
                "!r.onExitCodes.values.exists(v, v == 0))",
                "rules: exit code 0 is no failure; leave it out of the values of operator In",
            ),
        )
    )
