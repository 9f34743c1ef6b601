"""What is remembered, and kept across restarts in two ConfigMaps of the regulator's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_api.levels import PublishedLevels
from scavenger_api.levels_text import MOST_POOLS
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_runtime.configmaps import apply_configmap, read_configmap
from scavenger_runtime.logging import get_logger
from scavenger_runtime.threads import in_thread

from scavenger_regulator.core.history import (
    DEFAULT_BUCKETS,
    NODE_BUCKETS,
    Figures,
    History,
    dump_histories,
    load_histories,
)
from scavenger_regulator.core.learning import learn, learned
from scavenger_regulator.core.plan import Decision, renamed
from scavenger_regulator.core.reclaimed.profile import Profiles
from scavenger_regulator.core.reclaimed.state import ReclaimedState, observe
from scavenger_regulator.core.rises import (
    RisesByScope,
    dump_rises,
    keep_only,
    learn_requests,
    likely,
    load_rises,
    set_back,
)
from scavenger_regulator.core.snapshot import CLUSTER, Snapshot, of_pool
from scavenger_regulator.core.state import (
    ScopeState,
    dump_states,
    essence,
    load_states,
    states_from_published,
)
from scavenger_regulator.settings import RegulatorSettings

STATE_CONFIGMAP: Final = "scavenger-regulator-state"
PROFILES_CONFIGMAP: Final = "scavenger-regulator-profiles"
KEY_STATES: Final = "memory"
KEY_HISTORY: Final = "history"
KEY_RISES: Final = "rises"
KEY_SOURCE: Final = "source"
KEY_PROFILES: Final = "profiles"
MAX_BYTES: Final = 900_000
"""A ConfigMap holds 1 MiB."""
MAX_RISES_BYTES: Final = 200_000
"""Of these. A week of a pool is 10,000 at most."""

SAVE_EVERY: Final = timedelta(minutes=10)
"""So much of what was learned is lost at most when the process is killed."""

SAVE_NODES_EVERY: Final = timedelta(minutes=2)
"""So much of what goes on on nodes is lost at most. On one of thousands something changes in every period, and all of
them are one object. A node whose Evicting state is lost begins again from its eviction threshold."""

log = get_logger(__name__)


class _Pools:
    """Contains the scopes of pools."""

    def __contains__(self, scope: object) -> bool:
        return isinstance(scope, str) and of_pool(scope)


class Store:
    """Holds the states of all scopes, their histories, and what is known of reclaimed capacity.

    source: name of the way of measuring; what was measured in another way has another mean and another deviation, and
    is not taken up. reclaimed: None where reclaimed capacity is off.
    """

    def __init__(self, client: ApiClient, settings: RegulatorSettings, source: str) -> None:
        self.states: dict[str, ScopeState] = {}
        self.reclaimed: ReclaimedState | None = None
        self._client = client
        self._settings = settings
        self._offers, self._trust = settings.offer_rules(), settings.trust_rules()
        self._source = source
        self._histories: dict[str, dict[str, History]] = {}
        self._rises: RisesByScope = {}
        self._state_saved: tuple[Mapping[str, ScopeState], datetime] | None = None
        self._profiles_saved: datetime | None = None
        if self._offers.enabled:
            self.reclaimed = ReclaimedState(Profiles(self._offers.half_life))

    # --- learning -----------------------------------------------------------------------------------------

    def observe(self, snapshot: Snapshot) -> None:
        """Take the measurement in as far as reclaimed capacity needs it."""
        if self.reclaimed is not None:
            self.reclaimed = observe(self.reclaimed, snapshot, self._trust)

    def learn(self, decision: Decision, nodes: Collection[str], now: datetime) -> None:
        """Take the regular load into the histories. nodes: those that exist; of others nothing is kept. What is known
        of a pool is kept as long as it is within the window: an autoscaler takes all its nodes away at night."""
        self._histories = renamed(self._histories, decision.moved)
        learn(self._histories, decision.scopes, self._settings.history_window)
        self._rises = renamed(self._rises, decision.moved)
        learn_requests(self._rises, decision.regular, now)
        keep_only(self._rises, decision.pools, MOST_POOLS, now)
        gone = self._histories.keys() - decision.scopes.keys() - set(nodes)
        for scope in gone:
            for history in self._histories[scope].values() if of_pool(scope) else ():
                history.forget(now)
            if not of_pool(scope) or not any(history.samples for history in self._histories[scope].values()):
                del self._histories[scope]
        absent = sorted(scope for scope in gone & self._histories.keys())
        for scope in absent[MOST_POOLS:]:
            del self._histories[scope]

    def history(self) -> dict[str, Mapping[str, Figures]]:
        """Scope → resource → mean and deviation of the regular load."""
        return learned(self._histories)

    def rises(self, now: datetime) -> dict[str, dict[str, float]]:
        """Scope → resource → how much more regular pods may request within half an hour, in cores and bytes."""
        return likely(self._rises, now)

    # --- restoring ----------------------------------------------------------------------------------------

    async def restore(self, published: PublishedLevels | None, nodes: Iterable[str], now: datetime) -> None:
        """Take up what a predecessor left; where that is lost, what the published levels say of it.

        Raises ApiError where the API server cannot be read; beginning without would be worse.
        """
        nodes, cooldown = list(nodes), self._settings.cooldown
        state = await read_configmap(self._client, self._settings.namespace, STATE_CONFIGMAP)
        data = state.data if state else {}
        self.states = load_states(data.get(KEY_STATES), now, cooldown) or states_from_published(
            published, now, cooldown
        )
        text = data.get(KEY_HISTORY) if data.get(KEY_SOURCE) == self._source else None
        self._histories = self._load_histories(text, nodes, now)
        # Requests are the same, whatever measures the load.
        self._rises = load_rises(data.get(KEY_RISES), now) if self._settings.kept_room != "off" else {}
        samples = {r: h.samples for r, h in self._histories.get(CLUSTER, {}).items()}
        log.info("begins", source=self._source, samples=samples, scopes=sorted(self.states))
        if self.reclaimed is not None:
            await self._restore_profiles(nodes, now)

    def _load_histories(self, text: str | None, nodes: list[str], now: datetime) -> dict[str, dict[str, History]]:
        window = self._settings.history_window
        pools = load_histories(text, _Pools(), window, DEFAULT_BUCKETS, now)
        if not self._settings.per_node:
            return pools
        return {**load_histories(text, nodes, window, NODE_BUCKETS, now), **pools}

    async def _restore_profiles(self, nodes: list[str], now: datetime) -> None:
        found = await read_configmap(self._client, self._settings.namespace, PROFILES_CONFIGMAP)
        data = found.data if found is not None and found.data.get(KEY_SOURCE) == self._source else {}
        profiles = Profiles.load(data.get(KEY_PROFILES), self._offers.half_life, nodes, now)
        self.reclaimed, self._profiles_saved = ReclaimedState(profiles), now
        log.info("profiles", nodes=len(profiles.nodes))

    def set_back(self, by: timedelta, now: datetime) -> None:
        """The clock was set back to `now`: what is due in a minute stays due in a minute."""
        self.states = {scope: state.set_back(by, now) for scope, state in self.states.items()}
        set_back(self._rises, now)
        if self._state_saved is not None:
            before, at = self._state_saved
            self._state_saved = before, at - by
        if self._profiles_saved is not None:
            self._profiles_saved -= by

    # --- saving -------------------------------------------------------------------------------------------

    async def save_if_due(self, now: datetime) -> None:
        """The states at once when the hysteresis changed, else now and then. What fails is tried again next time."""
        with suppress(ApiError):
            if await in_thread(self._state_is_due, now):
                await self._save_state(now)
            if self._profiles_saved is None or now - self._profiles_saved >= SAVE_EVERY:
                await self._save_profiles(now)

    async def save(self, now: datetime) -> None:
        """Everything. Raises ApiError."""
        await self._save_state(now)
        await self._save_profiles(now)

    def _state_is_due(self, now: datetime) -> bool:
        if self._state_saved is None:
            return True
        before, at = self._state_saved
        goes_on, passed = essence(self.states), now - at
        pools = {scope for scope in goes_on.keys() | before.keys() if of_pool(scope)}
        if any(goes_on.get(scope) != before.get(scope) for scope in pools) or passed >= SAVE_EVERY:
            return True
        return goes_on != before and passed >= SAVE_NODES_EVERY

    async def _save_state(self, now: datetime) -> None:
        data = await in_thread(self._dump_state)
        await self._apply(STATE_CONFIGMAP, data, "state")
        self._state_saved = (essence(self.states), now)

    def _dump_state(self) -> dict[str, str]:
        states = dump_states(self.states)
        rises = dump_rises(self._rises, MAX_RISES_BYTES) if self._rises else ""
        histories = dump_histories(self._histories, MAX_BYTES - len(states) - len(rises))
        return {KEY_STATES: states, KEY_HISTORY: histories, **({KEY_RISES: rises} if rises else {})}

    async def _save_profiles(self, now: datetime) -> None:
        if self.reclaimed is None:
            return
        profiles = await in_thread(self.reclaimed.profiles.dump, MAX_BYTES)
        await self._apply(PROFILES_CONFIGMAP, {KEY_PROFILES: profiles}, "profiles")
        self._profiles_saved = now

    async def _apply(self, name: str, data: Mapping[str, str], what: str) -> None:
        try:
            kept = {**data, KEY_SOURCE: self._source}
            await apply_configmap(self._client, self._settings.namespace, name, kept, names.REGULATOR)
        except ApiError as error:
            log.warning(f"{what} not saved", error=str(error))
            raise
