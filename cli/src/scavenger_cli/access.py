"""What every command is told: which cluster, which namespace; and the objects it asks for by name."""

from __future__ import annotations

import functools
import inspect
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType, TracebackType
from typing import Annotated, Any, Self

import typer
from scavenger_kube import kubeconfig
from scavenger_kube.blocking import Client
from scavenger_kube.endpoint import Endpoint, KubeconfigError
from scavenger_kube.errors import Forbidden, NotFound

from scavenger_cli import paths, remedies
from scavenger_cli.exits import CliError, Interrupted
from scavenger_cli.objects import Job, Queue, decode, decode_items


class Access:
    """One cluster, one namespace (or all), for the length of one command."""

    def __init__(self, client: Client, namespace: str | None, all_namespaces: bool = False) -> None:
        self.client = client
        self.all_namespaces = all_namespaces
        self._namespace = namespace

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    @property
    def namespace(self) -> str:
        """The namespace of -n, or else of the context."""
        return self._namespace or self.client.endpoint.namespace

    @property
    def scope(self) -> str | None:
        """The namespace to list; None for all."""
        return None if self.all_namespaces else self.namespace

    @staticmethod
    def now() -> datetime:
        """The time to count ages to."""
        return datetime.now(UTC)

    def job(self, name: str) -> Job:
        """A ScavengerJob of the namespace. Raises CliError naming close matches, ApiError."""
        return decode(self.job_body(name), Job)

    def job_body(self, name: str) -> bytes:
        """The same, as it came."""
        try:
            return self.client.get(paths.job(self.namespace, name))
        except NotFound as error:
            if not error.details.get("name"):
                raise
            raise self._no_job(name) from error

    def jobs(self, namespace: str | None) -> list[Job]:
        """The ScavengerJobs of a namespace; of all namespaces without one."""
        return decode_items(self.client.get(paths.jobs(namespace)), Job)

    def queue(self, name: str) -> Queue:
        """A ScavengerQueue. Raises CliError naming close matches, ApiError."""
        return decode(self.queue_body(name), Queue)

    def queue_body(self, name: str) -> bytes:
        """The same, as it came."""
        try:
            return self.client.get(paths.queue(name))
        except NotFound as error:
            if not error.details.get("name"):
                raise
            raise remedies.missing("ScavengerQueue", name, [q.metadata.name for q in self.queues()]) from error

    def queues(self) -> list[Queue]:
        """All ScavengerQueues."""
        return decode_items(self.client.get(paths.QUEUES), Queue)

    def _no_job(self, name: str) -> CliError:
        """The job may be in another namespace, which is the mistake made most often."""
        try:
            everywhere = self.jobs(None)
        except Forbidden:
            everywhere = self.jobs(self.namespace)
        elsewhere = sorted({job.namespace for job in everywhere if job.name == name})
        if elsewhere:
            error = remedies.missing("ScavengerJob", name, (), where=f" in namespace {self.namespace}")
            error.remedy = f"there is one in {' and '.join(elsewhere)}: add -n {elsewhere[0]}"
            return error
        here = [job.name for job in everywhere if job.namespace == self.namespace]
        return remedies.missing("ScavengerJob", name, here, where=f" in namespace {self.namespace}")


NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace (default: that of the context).")
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
ContextOption = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]
KubeconfigOption = Annotated[str | None, typer.Option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig.")]


def _cluster(context: ContextOption = None, kubeconfig: KubeconfigOption = None) -> None: ...


def _namespaced(
    namespace: NamespaceOption = None, context: ContextOption = None, kubeconfig: KubeconfigOption = None
) -> None: ...


def _listing(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None: ...


def _endpoint(path: str | None, context: str | None) -> Endpoint:
    try:
        return kubeconfig.load(path, context)
    except KubeconfigError as error:
        raise CliError(error.message, error.remedy) from error


def _accessing(options: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the command's first parameter is an Access, made of these options, which are added to its own."""
    shared = inspect.signature(options, eval_str=True).parameters

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = [p for name, p in inspect.signature(function, eval_str=True).parameters.items() if name != "access"]
        parameters = [*own, *(p.replace(kind=p.KEYWORD_ONLY) for p in shared.values())]

        @functools.wraps(function)
        def command(**values: Any) -> None:
            given = {name: values.pop(name) for name in shared}
            load = functools.partial(_endpoint, given["kubeconfig"], given["context"])
            with Access(Client(load), given.get("namespace"), given.get("all_namespaces", False)) as access:
                function(access, **values)

        del command.__wrapped__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorate


cluster_command = _accessing(_cluster)
"""For what belongs to the cluster: --context, --kubeconfig."""
namespaced_command = _accessing(_namespaced)
"""For one job: -n as well."""
listing_command = _accessing(_listing)
"""For many jobs: -n and -A as well."""


def interruptible() -> None:
    """Ctrl-C raises Interrupted from here on."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    signal.signal(signal.SIGINT, interrupt)
