"""The resources that each pod of a ScavengerJob gets, and the rules for their names and quantities."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field

from scavenger_api.model import Model, Quantity, cel, validations
from scavenger_api.quantity import amount
from scavenger_api.reclaimed import asked_for

ResourceMap = Annotated[dict[str, Quantity], Field(max_length=16)]
_SIDES: Final = ("requests", "limits")


def _names_resource(resource: str) -> str:
    return " || ".join(f"(has(self.{side}) && '{resource}' in self.{side})" for side in _SIDES)


_MAY_SET_NOTHING_ASIDE: Final = (
    "(k in ['cpu', 'memory'] && has(self.limits) && k in self.limits && quantity(string(self.limits[k]))"
    ".isGreaterThan(quantity('0')))"
)
"""CEL: 0 as request beside a limit; refused for what it is unless `capacity: Reclaimed`."""


def _every_resource(condition: str) -> str:
    """CEL: `condition` holds for each entry of both sides, with name `k` and quantity `q`."""
    return " && ".join(
        f"(!has(self.{side}) || self.{side}.all(k, "
        + condition.replace("$q", f"quantity(string(self.{side}[k]))")
        + "))"
        for side in _SIDES
    )


class ResourceRequirements(Model):
    """What each pod gets. One side given fills in the other."""

    requests: ResourceMap | None = None
    """What is set aside for each pod: cpu and memory, and other resources such as GPUs. Jobs are planned, ranked and
    counted by it."""
    limits: ResourceMap | None = None
    """The most each pod may use; by default its request. With `capacity: Reclaimed` requests of cpu and memory may be
    0."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(_names_resource("cpu"), "cpu is mandatory; add it to resources.requests, as cpu: 500m"),
            cel(_names_resource("memory"), "memory is mandatory; add it to resources.requests, as memory: 1Gi"),
            cel(
                _every_resource(f"$q.isGreaterThan(quantity('0')) || {_MAY_SET_NOTHING_ASIDE}"),
                "every quantity must be greater than zero; remove the resource or raise it",
            ),
            cel(
                _every_resource(
                    "k in ['cpu', 'memory', 'ephemeral-storage'] || k.startsWith('hugepages-') || "
                    "(k.contains('/') && $q.isInteger())"
                ),
                "name cpu, memory, ephemeral-storage, hugepages-SIZE, or a device with its domain "
                "in whole units, as nvidia.com/gpu: 1",
            ),
            cel(
                _every_resource("!k.startsWith('scavenger.dev/')"),
                "scavenger.dev/* resources are set by the admitter; use capacity: Reclaimed",
            ),
        )
    )

    def effective(self) -> dict[str, str]:
        """What each pod asks for, see `asked_for`."""
        return {name: str(text) for name, text in asked_for(self.requests, self.limits).items()}

    def most(self) -> dict[str, str]:
        """What each pod may use at most."""
        asked = self.effective()
        other = {n: t for n, t in (self.limits or {}).items() if amount(n, t) != amount(n, asked[n])}
        return asked | other
