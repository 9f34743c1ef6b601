"""The small ConfigMaps of the system, each followed by its name; and the settings that one of them has for all.

Each is small and changes seldom, so a list and a watch of one object cost the API server next to nothing, and the right
to read it names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from scavenger_api import names
from scavenger_api.shared_settings import FIELDS, SharedSettings, flag_field, key_of
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import ConfigMap
from scavenger_kube.resources import CONFIGMAPS

from scavenger_runtime import metrics
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.settings import ServiceSettings

INVALID: Final = metrics.gauge(
    "settings_invalid", "1 where a key of the ConfigMap scavenger-settings has a value that cannot be used.", ["key"]
)

log = get_logger(__name__)


def configmap_informer(client: ApiClient, namespace: str, name: str, clock: Clock) -> Informer[ConfigMap]:
    """An informer of one ConfigMap, such as `scavenger-levels`; in metrics and probes it is `levels`."""
    return Informer(
        client,
        CONFIGMAPS,
        namespace=namespace,
        field_selector=f"metadata.name={name}",
        name=name.removeprefix("scavenger-"),
        clock=clock,
    )


class FollowedSettings:
    """What the ConfigMap `scavenger-settings` says at each moment.

    A change is here as soon as the watch shows it, and acts from the next decision on. A key with a bad value keeps the
    last good one. Until the first list, and without the ConfigMap, the defaults hold.

    Attributes:
        informer: to be run; the service is ready once it is synced.
        current: the settings. A decision takes them once, so that it is made on one version of them.
    """

    def __init__(self, client: ApiClient, settings: ServiceSettings, clock: Clock) -> None:
        self.informer = configmap_informer(client, settings.namespace, names.SETTINGS_CONFIGMAP, clock)
        self._read = SharedSettings()
        self._own = settings.own_values()
        self.current = replace(self._read, **self._own)
        self._changed: Callable[[], None] = lambda: None
        for key in FIELDS:
            INVALID.labels(key).set(0)
        if self._own:
            log.warning(
                "settings of this service go before those of all; the next version has no such settings",
                flags=[flag_field(field).replace("_", "-") for field in self._own],
                configmap=names.SETTINGS_CONFIGMAP,
                keys=[key_of(field) for field in self._own],
            )
        self.informer.add_handler(self._on_change)

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have it called after each change of `current`."""
        self._changed = changed

    def _on_change(self, change: Change[ConfigMap]) -> None:
        found, problems = self._read.read({} if change.new is None else change.new.data)
        self._read, before = found, self.current
        for key in FIELDS:
            INVALID.labels(key).set(key in problems)
        for key, problem in problems.items():
            log.error("ignored a setting", configmap=names.SETTINGS_CONFIGMAP, key=key, problem=problem)
        self.current = replace(found, **self._own)
        if self.current != before:
            log.info("settings of all changed", **self.current.to_data())
            self._changed()
