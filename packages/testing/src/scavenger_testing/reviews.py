"""TokenReviews and SubjectAccessReviews, as the API server in memory answers them: nothing of them is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Reviews:
    """users: the `user` of each token that is known. allowed: user, path and verb of each nonResourceURL that may be
    asked for. All others are unknown and may nothing."""

    def __init__(self) -> None:
        self.users: dict[str, Mapping[str, Any]] = {}
        self.allowed: set[tuple[str, str, str]] = set()

    def answer(self, plural: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The review with its status; None where it is none."""
        spec = body.get("spec") or {}
        if plural == "tokenreviews":
            user = self.users.get(spec.get("token", ""))
            bad = {"user": {}, "error": "[invalid bearer token, token lookup failed]"}
            return {**body, "status": bad if user is None else {"authenticated": True, "user": user}}
        if plural == "subjectaccessreviews":
            asked = spec["nonResourceAttributes"]
            allowed = (spec["user"], asked["path"], asked["verb"]) in self.allowed
            return {**body, "status": {"allowed": allowed, "reason": ""}}
        return None
