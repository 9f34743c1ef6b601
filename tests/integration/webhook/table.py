"""One row of the table of good and bad objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scavenger_testing.place import MERGE_PATCH, Object, Place


@dataclass(frozen=True)
class Case:
    """What is sent, by whom, and what comes of it. expected: parts of the message; none for an object that is let in.
    fields: exactly what the refusal is about. warned: part of a warning.
    """

    name: str
    kind: str
    body: Object
    expected: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    warned: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    update: str = ""
    sub: str = ""
    namespace: str = ""
    patch_type: str = MERGE_PATCH
    check: dict[str, Any] = field(default_factory=dict)


def judge(place: Place, case: Case, name: str = "") -> None:
    """Try one row and compare what comes of it. name: of the object that is changed, where the row is a change."""
    who: dict[str, Any] = {"user": case.user, "groups": case.groups}
    if case.update:
        answer = place.try_patch(case.kind, name, case.body, sub=case.sub, content_type=case.patch_type, **who)
    else:
        answer = place.try_create(case.kind, case.body, namespace=case.namespace or None, **who)
    assert answer.allowed == (not case.expected), answer
    for part in case.expected:
        assert part in answer.message, answer
    if case.fields:
        assert sorted(answer.causes) == sorted(case.fields)
    if case.warned:
        assert any(case.warned in warning for warning in answer.warnings), answer.warnings
    elif answer.allowed:
        assert not [warning for warning in answer.warnings if "unknown field" not in warning]
    assert {key: answer.body["spec"].get(key) for key in case.check} == case.check
