"""The ConfigMap that all components read alike, followed on the API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.shared_settings import FIELDS, SharedSettings
from scavenger_kube.resources import CONFIGMAPS
from scavenger_runtime.metrics import REGISTRY
from scavenger_runtime.settings import MINIMUM_RUN, STARTUP_COST, OptionalSeconds, ServiceSettings
from scavenger_runtime.shared_settings import FollowedSettings
from scavenger_testing import FakeApi, VirtualClock
from scavenger_testing.builders import configmap_dict, settings_dict
from scavenger_testing.clock import eventually

pytestmark = pytest.mark.slow

Logs = list[MutableMapping[str, Any]]


class OwnSettings(ServiceSettings):
    """A service that may have two of them for itself, in this version."""

    startup_cost: OptionalSeconds = STARTUP_COST
    minimum_run: bool | None = MINIMUM_RUN


class Followed:
    def __init__(self, api: FakeApi, clock: VirtualClock, **own: Any) -> None:
        self.api = api
        self.settings = FollowedSettings(api.client(), OwnSettings(**own), clock)
        self.changes = 0
        self.settings.on_change(self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def write(self, **data: str) -> None:
        self.api.put(CONFIGMAPS, settings_dict(**data))

    async def until(self, **want: Any) -> None:
        await eventually(lambda: {name: getattr(self.settings.current, name) for name in want} == want)


@asynccontextmanager
async def followed(**own: Any) -> AsyncIterator[Followed]:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        api.put(CONFIGMAPS, configmap_dict("another", {"startupCostSeconds": "7"}, namespace=names.SYSTEM_NAMESPACE))
        made = Followed(api, clock, **own)
        task = asyncio.ensure_future(made.settings.informer.run())
        try:
            await made.settings.informer.wait_synced()
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def invalid() -> set[str]:
    return {key for key in FIELDS if REGISTRY.get_sample_value("scavenger_settings_invalid", {"key": key})}


async def test_without_the_configmap_the_defaults_hold() -> None:
    async with followed() as c:
        assert c.settings.current == SharedSettings()
        assert c.changes == 0
        assert c.settings.informer.name == "settings"


async def test_a_change_is_followed_and_what_goes_has_its_default_again() -> None:
    async with followed() as c:
        c.write(startupCostSeconds="90", minimumRun="true")
        await c.until(startup_cost_seconds=90, minimum_run=True)
        c.write(startupCostSeconds="120")
        await c.until(startup_cost_seconds=120, minimum_run=False)
        c.api.remove(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.SETTINGS_CONFIGMAP)
        await c.until(startup_cost_seconds=60)
        assert c.changes == 3


async def test_what_an_older_chart_wrote_is_read() -> None:
    async with followed() as c:
        c.write(resourceWeights="amd.com/gpu=16,cpu=1,memory=0,nvidia.com/gpu=24")
        await eventually(lambda: c.changes == 1)
        assert c.settings.current.resource_weights.cost({"nvidia.com/gpu": 1}) == 24_000
        assert c.settings.current.startup_cost_seconds == 60


async def test_a_bad_value_is_told_and_the_last_good_one_stays(logs: Logs) -> None:
    async with followed() as c:
        c.write(startupCostSeconds="90", trustedIntervalSeconds="3600")
        await c.until(startup_cost_seconds=90)
        assert invalid() == set()
        c.write(startupCostSeconds="soon", trustedIntervalSeconds="1800")
        await c.until(trusted_interval_seconds=1800)
        assert c.settings.current.startup_cost_seconds == 90
        assert invalid() == {"startupCostSeconds"}
        (told,) = [entry for entry in logs if entry["event"] == "ignored a setting"]
        assert (told["log_level"], told["key"]) == ("error", "startupCostSeconds")
        assert "'soon' is no number of seconds" in told["problem"]
        c.write(startupCostSeconds="30")
        await c.until(startup_cost_seconds=30)
        assert invalid() == set()


async def test_a_setting_of_the_service_itself_goes_first_and_that_is_told(logs: Logs) -> None:
    async with followed(startup_cost="2m") as c:
        assert c.settings.current.startup_cost_seconds == 120
        c.write(startupCostSeconds="90", minimumRun="true")
        await c.until(minimum_run=True)
        assert c.settings.current.startup_cost_seconds == 120
        (told,) = [entry for entry in logs if entry["log_level"] == "warning"]
        assert (told["flags"], told["keys"]) == (["startup-cost"], ["startupCostSeconds"])


async def test_what_does_not_change_the_settings_wakes_nobody() -> None:
    async with followed() as c:
        c.write(startupCostSeconds="60", note="of no meaning here")
        c.write(startupCostSeconds="60.0")
        c.write(startupCostSeconds="61")
        await c.until(startup_cost_seconds=61)
        assert c.changes == 1
