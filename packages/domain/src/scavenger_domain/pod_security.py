"""Which level of the Pod Security Standards the pods of a namespace's scavenger jobs keep, and what it forbids.

The one place that says so: the webhook refuses by it at creation, and the admitter starts nothing against it. What no
level allows is no value of the definition of ScavengerJob (docs/designs/0012-restricted-by-default.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from scavenger_api import names

from scavenger_domain.template_security import beyond_restricted, never_allowed

MOST_DIGITS: Final = 10
MOST_USERS: Final = 2**31
"""Ids of users that Kubernetes takes (validation of core/v1 runAsUser)."""


class Level(StrEnum):
    """A level of the Pod Security Standards, as it stands in labels."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"


class Breach(NamedTuple):
    """A field that asks for what is not allowed. `text`: what is wrong with it, and the remedy."""

    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


class _Capabilities(Protocol):
    @property
    def add(self) -> Sequence[str] | None: ...


class _SecurityContext(Protocol):
    @property
    def run_as_non_root(self) -> bool | None: ...

    @property
    def allow_privilege_escalation(self) -> bool | None: ...

    @property
    def capabilities(self) -> _Capabilities | None: ...


class Spec(Protocol):
    """What is read of the spec of a ScavengerJob."""

    @property
    def run_as_user(self) -> int | None:
        """`runAsUser`."""

    @property
    def security_context(self) -> _SecurityContext | None:
        """`securityContext`."""

    @property
    def written_template(self) -> Mapping[str, Any] | None:
        """`template`, as it is written; None where there is none."""


def level_of(labels: Mapping[str, str]) -> Level:
    """The level for the scavenger jobs of a namespace with these labels: restricted, unless its label says baseline.

    Only who may change the namespace itself can set that label. Where PodSecurity enforces restricted anyway, baseline
    would only have every pod refused.
    """
    wanted = labels.get(names.LABEL_POD_SECURITY) == Level.BASELINE
    enforced = labels.get(names.LABEL_POD_SECURITY_ENFORCE) == Level.RESTRICTED
    return Level.BASELINE if wanted and not enforced else Level.RESTRICTED


def gets_token(annotations: Mapping[str, str], account: str | None) -> bool:
    """Whether scavenger jobs of a namespace with these annotations get the token of a service account.

    Only who may change the namespace itself can set them. A list of rights that are too many is never complete.
    """
    allowed = annotations.get(names.ANNOTATION_SERVICE_ACCOUNTS, "").split(",")
    return account is not None and account in (name.strip() for name in allowed)


def default_user(annotations: Mapping[str, str]) -> int | None:
    """The user id that pods of scavenger jobs get which name none, by the annotation of their namespace: an id, or a
    range as START/SIZE, of which the first. None where there is none, or no id but root's."""
    start = annotations.get(names.ANNOTATION_RUN_AS_USER, "").partition("/")[0].strip()
    if not (start.isascii() and start.isdecimal()) or len(start) > MOST_DIGITS:
        return None
    return int(start) if 0 < int(start) < MOST_USERS else None


def breaches(spec: Spec, level: Level) -> Iterator[Breach]:
    """What a job asks for and may not have in a namespace of this level; nothing for what it leaves out."""
    template = spec.written_template
    if template is not None:
        for field, wrong, remedy in never_allowed(template):
            yield Breach(f"spec.template.{field}", f"{wrong}, and no scavenger job has that; {remedy}")
    if level is Level.BASELINE:
        return
    if template is not None:
        yield from (_breach(f"template.{field}", wrong, remedy) for field, wrong, remedy in beyond_restricted(template))
    if spec.run_as_user == 0:
        yield _breach("runAsUser", "0 is root", "write another id, such as 65532")
    context = spec.security_context
    if context is None:
        return
    if context.run_as_non_root is False:
        yield _breach("securityContext.runAsNonRoot", "false lets processes run as root", "leave it out")
    if context.allow_privilege_escalation:
        yield _breach("securityContext.allowPrivilegeEscalation", "true lets a program gain rights", "leave it out")
    added = set(context.capabilities.add or ()) if context.capabilities else set()
    if more := sorted(added - names.RESTRICTED_CAPABILITIES):
        remedy = "leave out all but NET_BIND_SERVICE"
        yield _breach("securityContext.capabilities.add", f"{', '.join(more)} are rights of root", remedy)


def _breach(field: str, wrong: str, remedy: str) -> Breach:
    label = f"{names.LABEL_POD_SECURITY}={Level.BASELINE}"
    text = f"{wrong}, which PodSecurity {Level.RESTRICTED} forbids; {remedy}, or ask an administrator to label the "
    return Breach(f"spec.{field}", f"{text}namespace {label}")
