"""Settings of a service: one typed class, read from flags, then the environment, then defaults.

`health_port` is `--health-port` and SCAVENGER_HEALTH_PORT. `--help` lists every setting with its unit, default and both
names, all of it from the class, so that it cannot be out of date.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from scavenger_api.names import EVERY_TAINT, MAX_INTERRUPTION_AFTER_SECONDS
from scavenger_api.shared_settings import FIELDS, flag_field
from scavenger_api.weights import parse_weights, weights_of

from scavenger_runtime.listening import EVERYWHERE
from scavenger_runtime.prometheus import POD_CPU, POD_MEMORY, TAKEN

ENV_PREFIX = "SCAVENGER_"
_TRUTHS = (bool, bool | None)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")


def parse_seconds(value: Any) -> Any:
    """Seconds from a number or a duration such as `90s`, `1h30m` or `250ms`. Raises ValueError for other
    strings.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _DURATION.fullmatch(text):
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected seconds or a duration such as 30s, 5m or 1h30m") from None


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Seconds = Annotated[float, BeforeValidator(parse_seconds)]
"""A duration in seconds; flags and environment also take `30s`, `5m`, `1h30m`."""

OptionalSeconds = Annotated[float | None, BeforeValidator(parse_seconds)]
"""The same, or None where nothing was said."""

Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""A list of words; flags and environment take them separated by commas."""


def _checked_weights(value: str | None) -> str | None:
    parse_weights(value or "")
    return value


OptionalWeights = Annotated[str | None, AfterValidator(_checked_weights)]
"""Weights of resources, as `scavenger_api.weights.parse_weights` takes them."""


def option(default: Any, text: str, *, unit: str = "", deprecated: bool = False, **limits: Any) -> Any:
    """A setting: its default, what it does, its unit, and pydantic's limits (ge, le, gt, ...).

    One that is deprecated is still taken, and shown nowhere but in `--help` and the schema of the chart.
    """
    extra: dict[str, Any] = ({"unit": unit} if unit else {}) | ({"deprecated": True} if deprecated else {})
    return Field(default, description=text, json_schema_extra=extra or None, **limits)


def is_deprecated(field: FieldInfo) -> bool:
    """Whether the next version does not have the setting."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("deprecated"))


def _moved(key: str, **limits: Any) -> Any:
    return option(
        None,
        f"deprecated, and removed in the next version: set `{key}` of the chart scavenger-base for all components",
        deprecated=True,
        **limits,
    )


# --- settings that more than one service has: they mean the same, so they are described once ---

# Of these five the ConfigMap scavenger-settings has the values for all (scavenger_runtime.shared_settings).
STARTUP_COST: Any = _moved("startupCostSeconds", unit="seconds", ge=0)
TRUSTED_INTERVAL: Any = _moved("trustedIntervalSeconds", unit="seconds", ge=1)
START_OVER_WINDOW: Any = _moved("startOverWindowSeconds", unit="seconds", ge=0)
MINIMUM_RUN: Any = _moved("minimumRun")
RESOURCE_WEIGHTS: Any = _moved("resourceWeights")
MAX_INTERRUPTION_AFTER: Any = option(
    MAX_INTERRUPTION_AFTER_SECONDS,
    "longest checkpoint interval that a job may declare; set the same value for admitter and webhook",
    unit="seconds",
    ge=1,
)
ALLOWED_TOLERATIONS: Any = option(
    (),
    "keys of the taints that jobs may tolerate, beside those of resources that they request. "
    f"{EVERY_TAINT} means every taint. Set the same value for admitter and webhook",
)
POOL_IGNORES: Any = option(
    (),
    "keys of taints and names of devices that do not make a pool of nodes. Set the same value for "
    "regulator, admitter and prioritizer",
)
ADOPT: Any = option(
    False,
    "also watch adopted Jobs, which have spec.managedBy: scavenger.dev/adopter and the label of a queue; "
    "global.adopt.enabled of the charts sets it",
)
PROMETHEUS_TOKEN_FILE: Any = option(None, "file with the bearer token for Prometheus")
PROMETHEUS_CA_FILE: Any = option(None, "file with the CA of its certificate")
PROMETHEUS_POD_CPU: Any = option(POD_CPU, "PromQL: cores used by pod")
PROMETHEUS_POD_MEMORY: Any = option(POD_MEMORY, "PromQL: bytes used by pod")
PROMETHEUS_TAKEN: Any = option(TAKEN, "PromQL: Unix time of the samples, by node or for the cluster")
PROMETHEUS_WINDOW: Any = option(
    60.0, "window over which the CPU queries average; set it to the scrape interval", unit="seconds", ge=0
)
TOLERATED_TAINTS: Any = option((), "keys of NoSchedule and NoExecute taints whose nodes still count in the load")
WRITE_RATE: Any = option(
    500.0,
    "maximum rate of writes; up to four times as high while the API server answers within 10 ms",
    unit="requests per second",
    gt=0,
)
PRESSED_WRITE_RATE: Any = option(
    4.0,
    "maximum rate of deferrable writes while regular pods wait for capacity, or victims terminate",
    unit="requests per second",
    gt=0,
)


def unique_identity() -> str:
    """Host name (the pod's name), process id and a random part: no two processes share it, not even restarts of one."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


class ServiceSettings(BaseSettings):
    """What every service can be told. Services add their own fields in a subclass."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore", validate_default=True)

    namespace: str = option(
        "scavenger-system", "namespace of the components, with their Leases and ConfigMaps", min_length=1
    )
    kubeconfig: str | None = option(
        None, "kubeconfig file; the default is the pod's service account, or ~/.kube/config"
    )
    context: str | None = option(None, "context in the kubeconfig; the default is the current context")
    health_address: str = option(
        EVERYWHERE, "address for /healthz, /readyz and /metrics; the default is all addresses of IPv6 and IPv4"
    )
    health_port: int = option(8080, "port for /healthz, /readyz and /metrics; 0 takes a free one", ge=0, le=65535)
    metrics_tls_folder: str = option(
        "", "folder with tls.crt and tls.key, to serve /metrics over TLS on metrics-port, and not on health-port"
    )
    metrics_auth: Literal["none", "token"] = option(
        "none", "token: clients of /metrics need a token that the API server allows to get that nonResourceURL"
    )
    metrics_port: int = option(8443, "port for /metrics over TLS; 0 takes a free one", ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = option("info", "lowest level that is logged")
    log_format: Literal["json", "console"] = option("json", "format of the log: json for programs, console for people")
    leader_elect: bool = option(True, "elect a leader, so that one replica at a time does the work")
    lease_duration: Seconds = option(
        15.0,
        "time after which another replica may replace a leader that does not renew its Lease",
        unit="seconds",
        gt=0,
    )
    renew_deadline: Seconds = option(
        10.0, "time after which a leader that cannot renew its Lease stops", unit="seconds", gt=0
    )
    retry_period: Seconds = option(
        2.0, "time between renewals of the Lease, and between attempts to acquire it", unit="seconds", gt=0
    )
    identity: str = Field(
        default_factory=unique_identity, description="name of the process in the Lease; must be unique", min_length=1
    )
    workers: int = option(4, "maximum number of concurrent reconciles", ge=1, le=1000)
    shutdown_timeout: Seconds = option(25.0, "time to finish the current work after SIGTERM", unit="seconds", ge=0)

    @model_validator(mode="after")
    def _lease_times_in_order(self) -> Self:
        """lease-duration must exceed renew-deadline, and renew-deadline must exceed retry-period."""
        if not self.lease_duration > self.renew_deadline > self.retry_period:
            raise ValueError("it must be that lease-duration > renew-deadline > retry-period")
        return self

    @model_validator(mode="after")
    def _metrics_without_contradiction(self) -> Self:
        """metrics-auth and metrics-port require `metrics-tls-folder`, and metrics-port must differ from health-port."""
        if not self.metrics_tls_folder:
            if self.metrics_auth != "none":
                raise ValueError("metrics-auth needs metrics-tls-folder: tokens would be sent unencrypted")
            if "metrics_port" in self.model_fields_set:
                raise ValueError("metrics-port needs metrics-tls-folder: in clear, /metrics is on health-port")
        elif self.metrics_port and self.metrics_port == self.health_port:
            raise ValueError("metrics-port and health-port must differ: probes stay in clear")
        return self

    @classmethod
    def load(cls, argv: Sequence[str] | None = None) -> Self:
        """The settings from flags (default: of this process), environment and defaults, in that order.

        Exits with status 2 and one line naming the flag and the variable where a value is bad, 0 after
        `--help`.
        """
        parser = cls._parser()
        flags = {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}
        try:
            return cls(**flags)
        except ValidationError as error:
            parser.exit(2, f"{parser.prog}: error: {_explain(cls, error)}\n")

    def shown(self) -> dict[str, Any]:
        """All settings for the log, secrets masked."""
        return self.model_dump(mode="json")

    def own_values(self) -> dict[str, Any]:
        """What the service was given in the place of what all read, by field of `SharedSettings`.

        This counts for one version more.
        """
        found = {}
        for field in FIELDS.values():
            value = getattr(self, flag_field(field), None)
            if value is not None:
                found[field] = weights_of(value) if field == "resource_weights" else value
        return found

    @classmethod
    def _parser(cls) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=cls._program(), description=(cls.__doc__ or "").strip(), allow_abbrev=False
        )
        for name, field in cls.model_fields.items():
            flag: dict[str, Any] = {"nargs": "?", "const": "true"} if field.annotation in _TRUTHS else {}
            parser.add_argument(
                _flag(name),
                dest=name,
                default=None,
                metavar=_placeholder(field),
                help=_help(cls, name, field),
                **flag,
            )
        return parser

    @classmethod
    def _program(cls) -> str:
        module = cls.__module__.split(".", maxsplit=1)[0]
        return module.replace("_", "-") if module != "__main__" else Path(sys.argv[0]).name


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _variable(cls: type[BaseSettings], name: str) -> str:
    return (str(cls.model_config.get("env_prefix") or "") + name).upper()


def _placeholder(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return "{" + ",".join(str(arg) for arg in get_args(field.annotation)) + "}"
    extra = field.json_schema_extra
    unit = extra.get("unit") if isinstance(extra, dict) else None
    if unit:
        return str(unit).upper()
    if field.annotation in _TRUTHS:
        return "{true,false}"
    named: dict[Any, str] = {int: "NUMBER", float: "NUMBER"}
    return named.get(field.annotation, "TEXT")


def _help(cls: type[BaseSettings], name: str, field: FieldInfo) -> str:
    default = "unique" if field.default_factory is not None else _shown(field.default)
    extra = field.json_schema_extra
    unit = f" {extra['unit']}" if isinstance(extra, dict) and "unit" in extra and field.default is not None else ""
    text = f"{field.description or name} (default: {default}{unit}; env: {_variable(cls, name)})"
    return text.replace("%", "%%")


def _shown(default: Any) -> str:
    if default is None:
        return "none"
    if isinstance(default, SecretStr):
        return "none" if not default.get_secret_value() else "set"
    if isinstance(default, bool):
        return json.dumps(default)
    if isinstance(default, tuple | list):
        return ",".join(map(str, default)) or "none"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _explain(cls: type[BaseSettings], error: ValidationError) -> str:
    """The first thing wrong, with the names under which it can be put right. Values of secrets are not
    repeated.
    """
    first = error.errors(include_url=False)[0]
    message = str(first["msg"]).removeprefix("Value error, ")
    if not first["loc"]:
        return message
    name = str(first["loc"][0])
    field = cls.model_fields.get(name)
    secret = field is not None and field.annotation is SecretStr
    given = "" if secret else f", got {first['input']!r}"
    return f"{_flag(name)} ({_variable(cls, name)}): {message}{given}"
