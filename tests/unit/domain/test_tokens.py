"""Whose token a scavenger job gets: of the accounts that its namespace names."""

from __future__ import annotations

import pytest
from scavenger_domain.pod_security import gets_token

NOTE = "scavenger.dev/service-accounts"


@pytest.mark.parametrize(
    ("annotations", "account", "gets"),
    [
        ({}, "trainer", False),
        ({NOTE: ""}, "trainer", False),
        ({NOTE: "trainer"}, "trainer", True),
        ({NOTE: "logger, trainer"}, "trainer", True),
        ({NOTE: "trainers"}, "trainer", False),
        ({NOTE: "*"}, "trainer", False),
        ({NOTE: "trainer,"}, None, False),
    ],
)
def test_only_what_the_namespace_names(annotations: dict[str, str], account: str | None, gets: bool) -> None:
    assert gets_token(annotations, account) is gets
