"""From a refusal of the API server to a sentence with a remedy. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from scavenger_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.lint.unknown import remedy_for
from scavenger_cli.patterns import meaning

_FORBIDDEN: Final = re.compile(r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"')
_NAMESPACE: Final = re.compile(r'in the namespace "(?P<namespace>[^"]*)"')
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "(?P<field>[^"]*)"')
_VALUE_IN_MESSAGE: Final = re.compile(r"^Invalid value: (?:\S+: )?(?P<rest>.*)$", re.DOTALL)

_NO_FAULTS: Final = ("some validation rules were not checked", "evaluating rule:")
"""What the server adds when a rule could not run because the schema was not met: no fault of its own."""

INSTALL: Final = (
    "helm install scavenger charts/scavenger -n scavenger-system --create-namespace "
    "--set global.image.registry=REGISTRY (docs/install.md)"
)

ROLE_FOR: Final = {
    "get": "scavenger-jobs-view",
    "list": "scavenger-jobs-view",
    "watch": "scavenger-jobs-view",
}


def as_cli_error(error: ApiError, *, server: str = "") -> CliError:
    """What to tell the user about an error that no command has explained itself."""
    if isinstance(error, Unavailable) and not error.status:
        return CliError(
            f"cannot reach the API server: {error.message}",
            "is the cluster running, and does --context or --kubeconfig name the right one?",
        )
    if isinstance(error, Unauthorized):
        return CliError(
            "the API server does not accept the credentials of this kubeconfig", "log in again, or choose --context"
        )
    if isinstance(error, Forbidden):
        return forbidden(error)
    if isinstance(error, NotFound):
        return not_found(error)
    if isinstance(error, AlreadyExists):
        name = error.details.get("name", "it")
        return CliError(f"{name} exists already", f"choose another name, or `kubectl sj delete {name}` first")
    if isinstance(error, Conflict):
        return CliError(
            f"another client changed the object at the same moment: {error.message}", "run the command again"
        )
    if isinstance(error, TooManyRequests | Unavailable):
        return CliError(f"the API server answers {error.message or error} ({error.status})", "try again in a moment")
    return CliError("\n".join(invalid_fields(error)))


def forbidden(error: Forbidden) -> CliError:
    """Who may not do what, and which role would help."""
    found = _FORBIDDEN.search(error.message)
    if found is None:  # an admission plugin, a policy, or a webhook: its own words say it best
        return CliError(f"refused: {error.message}")
    namespace = _NAMESPACE.search(error.message)
    where = f" in namespace {namespace['namespace']}" if namespace else " in the whole cluster"
    message = f"{found['user']} may not {found['verb']} {found['resource']}{where}"
    if found["resource"] == "scavengerjobs":
        role = ROLE_FOR.get(found["verb"], "scavenger-jobs-edit")
        scope = f"name a namespace with -n, or ask an administrator for the ClusterRole {role}"
        return CliError(message, scope if not namespace else f"ask an administrator for the ClusterRole {role} there")
    if found["resource"] == "scavengerqueues":
        return CliError(message, "queues belong to the cluster: ask an administrator")
    return CliError(message, "ask an administrator for the right")


def not_found(error: NotFound) -> CliError:
    """Which object is missing; or that the whole kind is."""
    name, kind = error.details.get("name"), str(error.details.get("kind") or "")
    if name and kind == "namespaces":
        return CliError(
            f"there is no namespace {name}", f"create it with `kubectl create namespace {name}`", ExitCode.NOT_FOUND
        )
    if name:
        return CliError(f"there is no {singular(kind)} {name}", code=ExitCode.NOT_FOUND)
    return CliError(
        "this cluster does not know ScavengerJobs",
        f"install them: {INSTALL}",
    )


def singular(kind: str) -> str:
    """`scavengerjobs` as it is written in a sentence."""
    known = {"scavengerjobs": "ScavengerJob", "scavengerqueues": "ScavengerQueue", "pods": "pod"}
    return known.get(kind, kind)


def missing(kind: str, name: str, others: Iterable[str], *, where: str = "") -> CliError:
    """There is no such object; close matches are named."""
    close = difflib.get_close_matches(name, list(others), n=3, cutoff=0.6)
    remedy = f"did you mean {' or '.join(close)}?" if close else f"`{_LIST[kind]}` shows what there is"
    return CliError(f"there is no {kind} {name}{where}", remedy, ExitCode.NOT_FOUND)


_LIST: Final = {
    "ScavengerJob": "kubectl sj list -A",
    "adopted Job": "kubectl sj list -A",
    "ScavengerQueue": "kubectl sj queue list",
}


def invalid_fields(error: ApiError, name: str = "") -> list[str]:
    """What is wrong with a manifest, a line per field, as the API server's schema and CEL rules say it."""
    causes = error.details.get("causes") or ()
    head = f"{name or error.details.get('name') or 'the object'} is not valid:"
    if not causes:
        return [head, *(f"  {line}" for line in _strict(error.message))]
    lines = [head]
    seen = set()
    for cause in causes:
        line = f"  {field_of(cause)}: {_plain(str(cause.get('message', '')))}"
        if line not in seen and not any(sign in line for sign in _NO_FAULTS):
            seen.add(line)
            lines.append(line)
    return lines


def field_of(cause: Mapping[str, Any]) -> str:
    """The field a cause is about, without the placeholders the API server writes where it knows none."""
    field = str(cause.get("field") or "")
    return "the object" if field in ("", "<nil>") else field


def _plain(message: str) -> str:
    """The rule's own words, without the value repeated before them; patterns in words."""
    if (words := meaning(message)) is not None:
        return f"write {words}"
    found = _VALUE_IN_MESSAGE.match(message)
    return (found["rest"] if found and found["rest"] else message).strip()


def _strict(message: str) -> list[str]:
    fields = _UNKNOWN_FIELD.findall(message)
    if not fields:
        return [message]
    known = _spec_fields()
    lines = []
    for field in fields:
        remedy = remedy_for(field, known, known)
        lines.append(f"unknown field {field}{':' if remedy.endswith('?') else ';'} {remedy}")
    return lines


def _spec_fields() -> list[str]:
    from scavenger_api.job import ScavengerJobSpec

    return [field.alias or name for name, field in ScavengerJobSpec.model_fields.items()]
