"""`review(request, facts)`: the answer to one admission request, a pure function.

| request | judged by |
|---|---|
| pods, CREATE | `pods.review_pod` |
| scavengerjobs, CREATE and UPDATE | `jobs` |
| resourcequotas, CREATE and UPDATE | `quotas.review_quota` |
| jobs of batch, CREATE | `adoption.review_batch_job` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_api.model import Model
from scavenger_api.rules.problem import INVALID, Problem

from scavenger_webhook.core.adoption import BatchJob, review_batch_job
from scavenger_webhook.core.jobs import review_created, review_updated
from scavenger_webhook.core.models import (
    AdmissionRequest,
    AdmissionResponse,
    Cause,
    Status,
    StatusDetails,
    encoded_patch,
)
from scavenger_webhook.core.pods import Pod, review_pod
from scavenger_webhook.core.quotas import ResourceQuota, review_quota
from scavenger_webhook.core.snapshot import Facts
from scavenger_webhook.core.verdict import ACCEPTED, Verdict

MAX_PROBLEMS: Final = 50
"""So many are listed: the rest is worth another try, and a Status is to stay readable."""

MAX_ITEMS: Final = 1024
"""Entries of any list or object of what is reviewed in full. No definition allows more, and each may be wrong."""

M = TypeVar("M", bound=Model)


class NotOurs(ValueError):  # noqa: N818 - what it is
    """The request is about something that the webhook configurations do not send here."""


class _MalformedError(ValueError):
    """The object is not of its kind; `problems` say where."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("malformed")
        self.problems = problems


def review(request: AdmissionRequest, facts: Facts) -> AdmissionResponse:
    """Let the object in, changed or with warnings, or refuse it with everything that is wrong with it.

    Raises:
        NotOurs: for a kind that is not reviewed here.
    """
    reviewer = _REVIEWERS.get((request.resource.group, request.resource.resource, request.sub_resource))
    if reviewer is None:
        raise NotOurs(f"{subject(request)} are not reviewed here; correct the rules of the webhook configuration")
    kind, judge = reviewer
    try:
        verdict = judge(request, facts)
    except _MalformedError as error:
        verdict = Verdict(error.problems)
    return _response(request, kind, verdict)


def subject(request: AdmissionRequest) -> str:
    """The kind of thing a request is about: `pods`, `scavengerjobs.scavenger.dev/status`."""
    resource = request.resource
    name = f"{resource.resource}.{resource.group}" if resource.group else resource.resource
    return f"{name}/{request.sub_resource}" if request.sub_resource else name


def _pod(request: AdmissionRequest, facts: Facts) -> Verdict:
    return review_pod(_read(Pod, request.object), facts) if request.operation == "CREATE" else ACCEPTED


def _job(request: AdmissionRequest, facts: Facts) -> Verdict:
    if request.operation == "CREATE":
        return review_created(_read(ScavengerJob, request.object), facts)
    if request.operation == "UPDATE":
        old, new = _read(ScavengerJob, request.old_object), _read(ScavengerJob, request.object)
        return review_updated(old, new, facts)
    return ACCEPTED


def _quota(request: AdmissionRequest, facts: Facts) -> Verdict:
    if request.operation not in ("CREATE", "UPDATE"):
        return ACCEPTED
    return review_quota(_read(ResourceQuota, request.object))


def _batch_job(request: AdmissionRequest, facts: Facts) -> Verdict:
    return review_batch_job(_read(BatchJob, request.object), facts) if request.operation == "CREATE" else ACCEPTED


_REVIEWERS: Final[Mapping[tuple[str, str, str], tuple[str, Callable[[AdmissionRequest, Facts], Verdict]]]] = {
    ("", "pods", ""): ("Pod", _pod),
    (names.GROUP, "scavengerjobs", ""): ("ScavengerJob", _job),
    ("", "resourcequotas", ""): ("ResourceQuota", _quota),
    ("batch", "jobs", ""): ("Job", _batch_job),
}


def _read(model: type[M], value: Mapping[str, Any] | None) -> M:
    """Raises _MalformedError. The values are not repeated in it: they may be secret."""
    if value is None:
        raise _MalformedError((Problem("object", "the request holds no object"),))
    if model not in (Pod, BatchJob) and (path := _overlong(value)) is not None:
        text = f"more than {MAX_ITEMS} entries; put so many into a ConfigMap, or into several objects"
        raise _MalformedError((Problem(path, text),))
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise _MalformedError(tuple(Problem(_path(one["loc"]), one["msg"]) for one in found)) from None


def _overlong(value: Any, path: tuple[int | str, ...] = ()) -> str | None:
    """Where a list or object with too many entries stands, if anywhere."""
    if not isinstance(value, (dict, list)):
        return None
    if len(value) > MAX_ITEMS:
        return _path(path) or "object"
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    return next((found for key, one in entries if (found := _overlong(one, (*path, key))) is not None), None)


def _path(location: tuple[int | str, ...]) -> str:
    """`spec.env[2].name`, as the API server writes paths."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _response(request: AdmissionRequest, kind: str, verdict: Verdict) -> AdmissionResponse:
    warnings = verdict.warnings or None
    if verdict.problems:
        return AdmissionResponse(
            uid=request.uid, allowed=False, status=_refusal(request, kind, verdict.problems), warnings=warnings
        )
    if verdict.patch:
        patch = encoded_patch(verdict.patch)
        return AdmissionResponse(uid=request.uid, allowed=True, patch_type="JSONPatch", patch=patch, warnings=warnings)
    return AdmissionResponse(uid=request.uid, allowed=True, warnings=warnings)


def _refusal(request: AdmissionRequest, kind: str, problems: tuple[Problem, ...]) -> Status:
    """As the API server refuses what its own validation finds: 422, Invalid, one cause per field."""
    listed, more = problems[:MAX_PROBLEMS], len(problems) - MAX_PROBLEMS
    texts = [f"{problem.field}: {problem.message}" for problem in listed]
    if more > 0:
        texts.append(f"and {more} more")
    name = request.name or "(generated)"
    what = f"{kind}.{request.resource.group}" if request.resource.group else kind
    message = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    causes = tuple(Cause(reason=p.reason or INVALID, message=p.message, field=p.field) for p in listed)
    details = StatusDetails(name=request.name, group=request.resource.group, kind=kind, causes=causes)
    return Status(code=422, reason="Invalid", message=f'{what} "{name}" is invalid: {message}', details=details)
