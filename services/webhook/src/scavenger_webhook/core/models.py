"""admission.k8s.io/v1, as far as it is read and written here.

What is not read is dropped while the JSON is parsed. Objects stay plain values until the review of their kind
looks at them, so that one malformed field never makes a request unreadable.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import ConfigDict, Field, ValidationError
from scavenger_api.model import Model
from scavenger_kube.nesting import readable

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class MalformedReview(ValueError):  # noqa: N818 - what it is
    """The body is not an AdmissionReview of admission.k8s.io/v1; the message says in which field."""


class GroupVersionResource(Model):
    """Which collection the request is about."""

    group: str = ""
    version: str = ""
    resource: str = ""

    model_config = ConfigDict(strict=True)


class UserInfo(Model):
    """Who sent the request."""

    username: str = ""

    model_config = ConfigDict(strict=True)


class AdmissionRequest(Model):
    """One write that the API server asks about."""

    uid: Annotated[str, Field(min_length=1, max_length=128)]
    resource: GroupVersionResource
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: Operation
    user_info: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None

    model_config = ConfigDict(strict=True)


class AdmissionReview(Model):
    """The envelope of a request."""

    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: AdmissionRequest

    model_config = ConfigDict(strict=True)


class Cause(Model):
    """One thing that is wrong: metav1.StatusCause."""

    reason: str
    message: str
    field: str


class StatusDetails(Model):
    """What the refusal is about; kubectl shows the causes one by one."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()


class Status(Model):
    """A refusal: metav1.Status."""

    status: Literal["Failure"] = "Failure"
    code: int
    reason: str
    message: str
    details: StatusDetails | None = None


class AdmissionResponse(Model):
    """The answer. `patch` is the base64 of an RFC 6902 list."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch_type: Literal["JSONPatch"] | None = None
    patch: str | None = None
    warnings: tuple[str, ...] | None = None

    def operations(self) -> list[dict[str, Any]]:
        """The JSON patch as it was before it was encoded."""
        found: list[dict[str, Any]] = [] if self.patch is None else orjson.loads(base64.b64decode(self.patch))
        return found


def encoded_patch(operations: Sequence[Mapping[str, Any]]) -> str:
    """A JSON patch as `AdmissionResponse.patch` holds it."""
    return base64.b64encode(orjson.dumps(list(operations))).decode()


def parse_review(body: bytes | bytearray) -> AdmissionRequest:
    """The request in a body.

    Raises:
        MalformedReview: when it is none of this version.
    """
    try:
        return AdmissionReview.model_validate_json(readable(bytes(body))).request
    except ValidationError as error:
        raise MalformedReview(_explain(error)) from error


def answer(response: AdmissionResponse) -> bytes:
    """The body of the HTTP answer."""
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response.to_dict()})


def _explain(error: ValidationError) -> str:
    """The first thing wrong. The value is not repeated: it may be secret."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    expected = f"expected an {KIND} of {API_VERSION}"
    return f"{where}: {first['msg']}; {expected}" if where else f"{first['msg']}; {expected}"
