"""What every command is told: which cluster, which namespace; and the objects it asks for by name."""

from __future__ import annotations

import functools
import inspect
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import FrameType, TracebackType
from typing import Any, Self

import typer
from scavenger_api import names
from scavenger_api.shared_settings import SharedSettings
from scavenger_api.times import parse_time
from scavenger_domain.last_word import as_of
from scavenger_kube.blocking import Client
from scavenger_kube.errors import ApiError, Forbidden, NotFound
from scavenger_kube.kinds import ConfigMap
from scavenger_kube.resources import Lease

from scavenger_cli import connection, paths, remedies
from scavenger_cli.exits import CliError, ExitCode, Interrupted
from scavenger_cli.objects import AdoptedJob, Job, Queue, decode, decode_items, is_adopted, kind_and_name
from scavenger_cli.sources import job_sources


class Access:
    """One cluster, one namespace (or all), for the length of one command. flags: the global ones, as given."""

    def __init__(
        self, client: Client, namespace: str | None, all_namespaces: bool = False, system_namespace: str = ""
    ) -> None:
        self.client = client
        self.all_namespaces = all_namespaces
        self.flags: Mapping[str, Any] = {}
        self._namespace = namespace
        self._system_namespace = system_namespace
        self._served: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> Self:
        """The cluster and the namespace of a command's global flags. Raises CliError."""
        everywhere, system = bool(flags.get("all_namespaces")), connection.system_namespace(flags)
        made = cls(connection.client(flags), flags.get("namespace"), everywhere, system)
        made.flags = flags
        return made

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
        """A job of the namespace, of either kind.

        Args:
            name: of the job, or KIND/NAME.

        Raises:
            CliError: there is none, which names close matches, or one of each kind.
            ApiError: the API server says no.
        """
        return self.job_and_body(name)[0]

    def job_and_body(self, name: str) -> tuple[Job, bytes]:
        """The same, and the object as it came."""
        kind, name = kind_and_name(name)
        bodies = {one: self._body(name, one, wanted=one is kind) for one in ((kind,) if kind else (Job, AdoptedJob))}
        found = [(one, body) for one, body in bodies.items() if body and (one is Job or is_adopted(body))]
        if len(found) > 1:
            remedy = f"write job/{name} or scavengerjob/{name}"
            raise CliError(f"{name} is a ScavengerJob and a Job", remedy, ExitCode.USAGE)
        if not found:
            raise self._no_job(name, kind, regular=bool(bodies.get(AdoptedJob)))
        kind, body = found[0]
        return decode(body, kind), body

    def _body(self, name: str, kind: type[Job], *, wanted: bool) -> bytes:
        """An object as it came; empty where there is none. wanted: by its user, who has said the kind."""
        try:
            return self.client.get(paths.job(self.namespace, name, kind))
        except NotFound as error:
            if not kind.adopted and not error.details.get("name"):
                raise
        except Forbidden:
            if wanted or not kind.adopted:
                raise
        return b""

    def jobs(self, namespace: str | None) -> list[Job]:
        """The ScavengerJobs and the adopted Jobs of a namespace; of all namespaces without one."""
        found: list[Job] = []
        for source in job_sources(namespace):
            try:
                found += decode_items(self.client.get(source.path, source.params), source.kind)
            except (Forbidden, NotFound):
                if not source.optional:
                    raise
        return found

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

    @property
    def system_namespace(self) -> str:
        """The namespace of the components."""
        return self._system_namespace or names.SYSTEM_NAMESPACE

    def of_services(self, path: Callable[[str], str]) -> bytes:
        """An object of the components, as it came. path: where it is, given their namespace. Raises ApiError.

        Their namespace is the one that was said, else the usual one. It is not looked for by labels: any tenant may
        write those in a namespace of their own.
        """
        return self.client.get(path(self.system_namespace))

    def served(self, version: str) -> list[dict[str, Any]]:
        """What there is of an API such as `apps/v1`, which is asked for once; nothing where it is not served."""
        if version not in self._served:
            try:
                self._served[version] = json.loads(self.client.get(paths.api(version)))["resources"]
            except NotFound:
                self._served[version] = []
        return self._served[version]

    def admitter_seen(self) -> tuple[datetime | None, bool]:
        """When the admitter last renewed its Lease, and whether that could be read at all. Raises ApiError."""
        try:
            lease = decode(self.of_services(paths.admitter_lease), Lease)
        except NotFound:
            return None, True
        except Forbidden:
            return None, False  # nothing a researcher could do about it, so it is not worth a line
        return parse_time(lease.spec.renew_time), True

    def statuses_as_of(self) -> str:
        """A sentence on how old statuses are; empty while the admitter looks, or where its Lease cannot be read."""
        try:
            seen, known = self.admitter_seen()
        except ApiError:
            return ""
        text = as_of("the admitter", seen, self.now()) if known else ""
        return f"Statuses are {text}." if text else ""

    @functools.cached_property
    def settings_data(self) -> Mapping[str, str]:
        """The ConfigMap with what all components read alike, which is asked for once; empty without one. Raises
        ApiError."""
        try:
            return decode(self.of_services(paths.settings), ConfigMap).data
        except NotFound:
            return {}

    @property
    def shared(self) -> SharedSettings:
        """What all components read alike, or what they have by default where that may not be read, or says nothing that
        can be."""
        try:
            return SharedSettings().read(self.settings_data).settings
        except ApiError:
            return SharedSettings()

    def _no_job(self, name: str, kind: type[Job] | None, *, regular: bool) -> CliError:
        """The job may be in another namespace, which is the mistake made most often. regular: there is a Job of that
        name which is not adopted."""
        if regular:
            remedy = f"Jobs are adopted that have the label {names.LABEL_QUEUE} from the beginning (docs/move-a-job.md)"
            return CliError(f"{name} is a regular Job, and no scavenger job", remedy, ExitCode.NOT_FOUND)
        what = "adopted Job" if kind is AdoptedJob else "ScavengerJob"
        try:
            everywhere = self.jobs(None)
        except Forbidden:
            everywhere = self.jobs(self.namespace)
        everywhere = [job for job in everywhere if kind in (None, type(job))]
        elsewhere = sorted({job.namespace for job in everywhere if job.name == name})
        if elsewhere:
            error = remedies.missing(what, name, (), where=f" in namespace {self.namespace}")
            error.remedy = f"there is one in {' and '.join(elsewhere)}: add -n {elsewhere[0]}"
            return error
        here = [job.name for job in everywhere if job.namespace == self.namespace]
        return remedies.missing(what, name, here, where=f" in namespace {self.namespace}")


def global_parameters(*, hidden: bool, namespace: bool = False, everywhere: bool = False) -> list[inspect.Parameter]:
    """kubectl's global flags as parameters of a command. namespace: -n as well; everywhere: -A as well."""
    options = {
        **({"namespace": connection.NamespaceOption} if namespace else {}),
        **({"all_namespaces": connection.AllNamespacesOption} if everywhere else {}),
        "context": connection.ContextOption,
        "kubeconfig": connection.KubeconfigOption,
        **connection.rare(hidden),
    }
    flags = ("all_namespaces", "insecure_skip_tls_verify")
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=option, default=False if name in flags else None
        )
        for name, option in options.items()
    ]


def declare(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Have the command-line library believe that these are the function's parameters."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    return function


def _accessing(*, namespace: bool, everywhere: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the command's first parameter is an Access, made of the global flags, which are added to its own."""
    shared = global_parameters(hidden=True, namespace=namespace, everywhere=everywhere)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = [p for name, p in inspect.signature(function, eval_str=True).parameters.items() if name != "access"]

        @functools.wraps(function)
        def command(line: typer.Context, **values: Any) -> None:
            flags = connection.given({p.name: values.pop(p.name) for p in shared}, line.parent)
            with Access.of(flags) as access:
                function(access, **values)

        del command.__wrapped__
        context = inspect.Parameter("line", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        return declare(command, [context, *(p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *shared))])

    return decorate


cluster_command = _accessing(namespace=False, everywhere=False)
"""For what belongs to the cluster."""
namespaced_command = _accessing(namespace=True, everywhere=False)
"""For one job: -n as well."""
listing_command = _accessing(namespace=True, everywhere=True)
"""For many jobs: -n and -A as well."""


def interruptible() -> None:
    """Ctrl-C raises Interrupted from here on."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    signal.signal(signal.SIGINT, interrupt)
