"""What Kueue's configuration says of Jobs without a queue. Pure.

The defaults are those of Kueue 0.19 (apis/config/v1beta1/defaults.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

BATCH_JOB: Final = "batch/job"
POD: Final = "pod"


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One of matchExpressions."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class Selector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class Integrations(msgspec.Struct, frozen=True, gc=False):
    """Which kinds Kueue looks at."""

    frameworks: tuple[str, ...] | None = None


class KueueConfiguration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """config.kueue.x-k8s.io Configuration, as far as it concerns Jobs of others.

    Attributes:
        namespace: in which Kueue runs.
        manages_all: whether Kueue manages Jobs without a queue as well.
    """

    namespace: str | None = "kueue-system"
    manages_all: bool = msgspec.field(default=False, name="manageJobsWithoutQueueName")
    managed_jobs_namespace_selector: Selector | None = None
    integrations: Integrations | None = None

    @property
    def frameworks(self) -> tuple[str, ...]:
        """The kinds that Kueue looks at, by the names of its integrations."""
        return (self.integrations.frameworks if self.integrations is not None else None) or (BATCH_JOB,)

    @property
    def suspends(self) -> bool:
        """Whether Kueue looks at Jobs."""
        return BATCH_JOB in self.frameworks

    @property
    def integrates(self) -> bool:
        """Whether Kueue looks at Jobs, or at pods of Jobs."""
        return self.suspends or POD in self.frameworks

    @property
    def selector(self) -> Selector:
        """Of the namespaces in which it manages Jobs without a queue."""
        if self.managed_jobs_namespace_selector is not None:
            return self.managed_jobs_namespace_selector
        own = ("kube-system", self.namespace or "kueue-system")
        return Selector(None, (Requirement("kubernetes.io/metadata.name", "NotIn", own),))


def parse(data: Mapping[str, str]) -> KueueConfiguration | None:
    """The configuration from the data of a ConfigMap; None where there is none that can be read."""
    import yaml

    for text in data.values():
        try:
            body: Any = yaml.safe_load(text)
            if isinstance(body, dict) and body.get("kind") == "Configuration":
                return msgspec.convert(body, KueueConfiguration)
        except (yaml.YAMLError, msgspec.ValidationError):
            continue
    return None
