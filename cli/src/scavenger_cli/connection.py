"""kubectl's global flags: which cluster, as whom, and how long to wait. They stand before or after the command."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from scavenger_api import names
from scavenger_api.duration import DurationError, parse_duration
from scavenger_kube import kubeconfig as files
from scavenger_kube.blocking import REQUEST_TIMEOUT, Client
from scavenger_kube.endpoint import Endpoint, KubeconfigError
from scavenger_kube.overrides import Overrides

from scavenger_cli.exits import CliError, ExitCode

SYSTEM_NAMESPACE_VARIABLE: Final = "SCAVENGER_SYSTEM_NAMESPACE"

NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace (default: that of the context).")
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
ContextOption = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]
KubeconfigOption = Annotated[str | None, typer.Option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig.")]


def rare(hidden: bool) -> dict[str, Any]:
    """The flags that few need, by parameter. hidden: a command takes them without showing them in its help."""
    text = functools.partial(typer.Option, hidden=hidden)
    return {
        "cluster": Annotated[str | None, text("--cluster", metavar="NAME", help="Cluster of the kubeconfig.")],
        "server": Annotated[str | None, text("--server", "-s", metavar="URL", help="URL of the API server.")],
        "token": Annotated[str | None, text("--token", metavar="TOKEN", help="Bearer token for authentication.")],
        "act_as": Annotated[str | None, text("--as", metavar="USER", help="User to impersonate.")],
        "act_as_group": Annotated[
            list[str] | None, text("--as-group", metavar="GROUP", help="Group to impersonate; repeatable.")
        ],
        "act_as_uid": Annotated[str | None, text("--as-uid", metavar="UID", help="UID to impersonate.")],
        "certificate_authority": Annotated[
            str | None,
            text("--certificate-authority", metavar="FILE", help="File with the CA certificates of the API server."),
        ],
        "insecure_skip_tls_verify": Annotated[
            bool, text("--insecure-skip-tls-verify", help="Do not check the server's certificate.")
        ],
        "tls_server_name": Annotated[
            str | None, text("--tls-server-name", metavar="NAME", help="Name that the server's certificate must have.")
        ],
        "request_timeout": Annotated[
            str | None,
            text(
                "--request-timeout",
                metavar="DURATION",
                help="Time to wait for an answer, such as 5s or 2m; 0: no limit.",
            ),
        ],
        "system_namespace": Annotated[
            str | None,
            text(
                "--system-namespace",
                metavar="NAME",
                help=f"Namespace of components (default: ${SYSTEM_NAMESPACE_VARIABLE} or {names.SYSTEM_NAMESPACE}).",
            ),
        ],
    }


def given(parameters: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Each parameter as it was given to the command, or else nearest before it on the command line.

    context: the typer.Context before the command's own, None for none.
    """
    found = dict(parameters)
    while context is not None:
        for name in found:
            found[name] = found[name] or context.params.get(name)
        context = context.parent
    return found


def overrides(flags: Mapping[str, Any]) -> Overrides:
    """What the flags say in the place of the kubeconfig."""
    return Overrides(
        cluster=flags.get("cluster") or "",
        server=flags.get("server") or "",
        certificate_authority=flags.get("certificate_authority") or "",
        insecure_skip_tls_verify=bool(flags.get("insecure_skip_tls_verify")),
        tls_server_name=flags.get("tls_server_name") or "",
        token=flags.get("token") or "",
        act_as=flags.get("act_as") or "",
        act_as_uid=flags.get("act_as_uid") or "",
        act_as_groups=tuple(flags.get("act_as_group") or ()),
    )


def client(flags: Mapping[str, Any], timeout: float | None = REQUEST_TIMEOUT) -> Client:
    """A client of the cluster that the flags lead to; timeout: seconds, where they say nothing. Raises CliError."""
    wanted = flags.get("request_timeout")
    seconds = timeout if wanted is None else request_seconds(wanted)
    load = functools.partial(_endpoint, flags.get("kubeconfig"), flags.get("context"), overrides(flags))
    return Client(load, timeout=seconds)


def request_seconds(text: str) -> float | None:
    """Seconds out of `--request-timeout`: a duration, or whole seconds; None, for ever, out of 0. Raises CliError."""
    try:
        found = float(text) if re.fullmatch(r"\d{1,9}", text) else parse_duration(text).total_seconds()
    except (DurationError, OverflowError):
        message = f"--request-timeout {text} is not a duration"
        raise CliError(message, "write one as 5s or 2m, or whole seconds", ExitCode.USAGE) from None
    return found or None


def system_namespace(flags: Mapping[str, Any]) -> str:
    """The namespace of the components, as flag or environment say it; empty where they do not."""
    return flags.get("system_namespace") or os.environ.get(SYSTEM_NAMESPACE_VARIABLE, "")


def _endpoint(path: str | None, context: str | None, instead: Overrides) -> Endpoint:
    try:
        return files.load(path, context, instead)
    except KubeconfigError as error:
        raise CliError(error.message, error.remedy) from error
