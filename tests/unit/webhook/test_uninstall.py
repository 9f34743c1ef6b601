"""What the webhook has added to ResourceQuotas goes with it."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_testing.clock import VirtualClock
from scavenger_testing.fake_api import FakeApi
from scavenger_webhook.core.quotas import REQUIREMENT
from scavenger_webhook.uninstall import RESOURCEQUOTAS, take_back

BEST_EFFORT = {"scopeName": "BestEffort", "operator": "Exists"}
MARK = {"scavenger.dev/quota-scope": "added"}


def quota(name: str, annotations: dict[str, str], *scopes: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "lab", "annotations": {"team": "blue", **annotations}},
        "spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": list(scopes)}},
    }


@pytest.mark.slow
async def test_the_scope_goes_from_quotas_that_have_it_from_the_webhook() -> None:
    async with FakeApi(VirtualClock(), listens=False) as api:
        api.put(RESOURCEQUOTAS, quota("added", MARK, REQUIREMENT))
        api.put(RESOURCEQUOTAS, quota("beside", MARK, BEST_EFFORT, REQUIREMENT))
        api.put(RESOURCEQUOTAS, quota("written", {}, REQUIREMENT))
        api.fail(409, methods={"PATCH"})
        assert await take_back(api.client()) == 2
        found = {name: api.get(RESOURCEQUOTAS, "lab", name) for name in ("added", "beside", "written")}
        scopes = {name: (one or {})["spec"].get("scopeSelector") for name, one in found.items()}
        assert scopes == {
            "added": None,
            "beside": {"matchExpressions": [BEST_EFFORT]},
            "written": {"matchExpressions": [REQUIREMENT]},
        }
        assert all((one or {})["metadata"]["annotations"] == {"team": "blue"} for one in found.values())
