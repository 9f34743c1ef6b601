"""queue create, list, get (view), set, close, open, delete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from scavenger_api import names
from scavenger_domain.selectors import selects
from scavenger_kube.errors import ApiError, Invalid, NotFound

from scavenger_cli import objects, paths, remedies
from scavenger_cli.access import Access, cluster_command, namespaced_command
from scavenger_cli.collection import Collection, follow_collection, print_collection
from scavenger_cli.commands.showing import MAX_WIDTH, width
from scavenger_cli.commands.submitting import create as create_object
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import Format, output_of, print_objects
from scavenger_cli.lists import QUEUE_HEADER, queue_row
from scavenger_cli.manifests import namespace_weights, scavenger_queue
from scavenger_cli.objects import Named, Queue, plain
from scavenger_cli.options import NoHeadersOption, ObjectOutput, QueueName, SelectorOption, WatchOption
from scavenger_cli.output import note, say
from scavenger_cli.sources import Source

EMPTY = "No queues found. Jobs are queued in the queue default."
Weight = Annotated[int, typer.Option("--weight", "-w", metavar="N", min=1, help="Weight of its share.")]
Quota = Annotated[
    list[str] | None,
    typer.Option("--quota", metavar="cpu=N,memory=N", help="Maximum that its jobs may use together; repeatable."),
]
NamespaceSelector = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace-selector", metavar="LABEL=VALUE", help="Labels of the namespaces that may use it; repeatable."
    ),
]
NamespaceWeight = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace-weight",
        metavar="NAMESPACE=N",
        help="Weight of a namespace among the others, whose weight is 1; repeatable. Implies --per-namespace.",
    ),
]
_CHANGES: Final = "give --weight, --quota, --namespace-selector, --per-namespace or --namespace-weight"
OptionalName = Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the queue.")]
NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="The same as the argument.")]


@cluster_command
def create(
    access: Access,
    name: OptionalName = None,
    name_: NameOption = None,
    weight: Weight = 1,
    quota: Quota = None,
    namespace_selector: NamespaceSelector = None,
    per_namespace: Annotated[
        bool, typer.Option("--per-namespace", help="Let its namespaces take turns, by use and weight.")
    ] = False,
    namespace_weight: NamespaceWeight = None,
) -> None:
    """Create a queue.

    \b
    Examples:
      kubectl sj queue create night --weight 3 --quota cpu=200,memory=1Ti
      kubectl sj queue create --name blue --weight 1 --namespace-selector team=blue
      kubectl sj queue create shared --namespace-weight chemistry=3
    """
    if (name is None) == (name_ is None):
        raise CliError("say the name of the queue once", "write kubectl sj queue create NAME", ExitCode.USAGE)
    chosen = name or name_ or ""
    weights = {one: given for one, given in namespace_weights(namespace_weight or ()).items() if given}
    turns = {"weights": weights} if weights else {} if per_namespace else None
    create_object(access, scavenger_queue(chosen, weight, quota or (), namespace_selector or (), turns))
    _done(chosen, "created")


@namespaced_command
def list_queues(
    access: Access,
    all_: Annotated[
        bool, typer.Option("--all", help="Also list queues that jobs of the namespace cannot use.")
    ] = False,
    selector: SelectorOption = None,
    no_headers: NoHeadersOption = False,
    watch: WatchOption = False,
    output: ObjectOutput = Format.TABLE,
) -> None:
    """List the queues that you may use.

    These are the queues that accept jobs of your namespace, if you may create jobs there. TOTAL counts all jobs of a
    queue, and PENDING the queued ones. CPU is what its jobs use, and SHARE what the queue deserves now.

    \b
    Examples:
      kubectl sj queue list
      kubectl sj queue list --all -w
    """
    form = output_of(output, "queue list")
    wanted, empty = (None, EMPTY) if all_ else _usable(access)
    queues = Collection(
        sources=[Source(paths.QUEUES, {"labelSelector": selector}, Queue)],
        word="scavengerqueue",
        header=QUEUE_HEADER,
        row=lambda queue: queue_row(queue, access.now()),
        key=lambda queue: queue.metadata.name,
        wanted=wanted,
        headers=not no_headers,
        empty=empty,
    )
    if watch:
        follow_collection(access.client, queues, form)
    else:
        print_collection(access.client, queues, form)


def _usable(access: Access) -> tuple[Callable[[Queue], bool] | None, str]:
    """Which queues take jobs that the user creates in the namespace, and what is said where none does. What may not be
    asked hides no queue."""
    namespace = access.namespace
    others = f"`kubectl sj queue list --all` shows the others: {EMPTY}"
    attributes = {"group": names.GROUP, "resource": "scavengerjobs", "verb": "create", "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    with contextlib.suppress(ApiError):
        answer = plain(access.client.request("POST", paths.ACCESS_REVIEWS, body=review))
        if not answer.get("status", {}).get("allowed", True):
            text = f"You may not create ScavengerJobs in namespace {namespace}: ask its administrator. {others}"
            return (lambda queue: False), text
    try:
        labels = objects.decode(access.client.get(paths.namespace(namespace)), Named).metadata.labels
    except ApiError:
        note(f"Namespace {namespace} cannot be read: queues for other namespaces are shown as well.")
        return None, EMPTY

    def takes(queue: Queue) -> bool:
        selector = queue.spec.namespace_selector
        return selector is None or selects(selector, labels)

    return takes, f"No queue takes jobs of namespace {namespace}. {others}"


@cluster_command
def get(access: Access, name: QueueName, output: ObjectOutput = Format.TABLE) -> None:
    """Show one queue.

    The output has its jobs by phase, what they use, and what the queue deserves now.

    \b
    Examples:
      kubectl sj queue get night
      kubectl sj queue view night
    """
    from scavenger_cli import details, render

    form = output_of(output, "queue get")
    body = access.queue_body(name)
    if not form.table:
        print_objects([plain(body)], form, "scavengerqueue", single=True)
        return
    lines = details.queue_details(objects.decode(body, Queue), access.now())
    for text in render.pairs(lines, min(width(), MAX_WIDTH)):
        say(text)


@cluster_command
def close(access: Access, name: QueueName) -> None:
    """Close a queue.

    A closed queue accepts and starts no jobs. Its running jobs continue.

    \b
    Example:
      kubectl sj queue close night
    """
    _change(access, name, {"closed": True})
    _done(name, "closed")


@cluster_command
def open_queue(access: Access, name: QueueName) -> None:
    """Open a closed queue.

    \b
    Example:
      kubectl sj queue open night
    """
    _change(access, name, {"closed": False})
    _done(name, "opened")


@cluster_command
def change(
    access: Access,
    name: QueueName,
    weight: Annotated[int | None, typer.Option("--weight", "-w", metavar="N", min=1, help="Its new weight.")] = None,
    quota: Quota = None,
    namespace_selector: NamespaceSelector = None,
    per_namespace: Annotated[
        bool | None,
        typer.Option("--per-namespace/--no-per-namespace", help="Whether its namespaces take turns by use and weight."),
    ] = None,
    namespace_weight: NamespaceWeight = None,
) -> None:
    """Change the limits and the users of a queue.

    - as a quantity removes the limit, and as the weight of a namespace the weight. The labels replace all labels that a
    namespace must have; - lets all namespaces use the queue.

    \b
    Examples:
      kubectl sj queue set night --weight 5
      kubectl sj queue set night --quota cpu=100,memory=-
      kubectl sj queue set night --namespace-selector team=blue
      kubectl sj queue set night --namespace-weight chemistry=3,physics=-
    """
    spec: dict[str, Any] = {"weight": weight} if weight is not None else {}
    if quota:
        limits = scavenger_queue(name, 1, quota)["spec"]["quota"]
        spec["quota"] = {resource: None if value == "-" else value for resource, value in limits.items()}
    if namespace_selector:
        spec["namespaceSelector"] = _selector(access.queue(name), namespace_selector)
    weights = namespace_weights(namespace_weight or ())
    if per_namespace is not None or any(weights.values()) or (weights and access.queue(name).spec.per_namespace):
        spec["perNamespace"] = _turns(per_namespace, weights)
    if not spec:
        raise CliError("say what to change", _CHANGES, ExitCode.USAGE)
    _change(access, name, spec)
    _done(name, "changed")


@cluster_command
def delete(
    access: Access,
    name: QueueName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete it and its jobs without a prompt.")] = False,
) -> None:
    """Delete a queue and its jobs.

    \b
    Example:
      kubectl sj queue delete night --yes
    """
    queue = access.queue(name)
    jobs = sum(job.spec.queue == name for job in access.jobs(None))
    if jobs and not yes:
        remedy = f"move or delete them first, or add --yes: they are deleted with it (`kubectl sj list -A -q {name}`)"
        raise CliError(f"{jobs} jobs are in queue {name}" if jobs > 1 else f"a job is in queue {name}", remedy)
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": queue.metadata.uid}}
    with contextlib.suppress(NotFound):
        access.client.request("DELETE", paths.queue(name), body=body)
    _done(name, f"deleted, and {jobs} jobs with it" if jobs else "deleted")


def _selector(queue: Queue, wanted: list[str]) -> dict[str, Any] | None:
    """The patch that leaves these labels alone in a queue's selector; None takes it away."""
    if wanted == ["-"]:
        return None
    labels = scavenger_queue(queue.metadata.name, 1, (), wanted)["spec"]["namespaceSelector"]["matchLabels"]
    old = queue.spec.namespace_selector
    gone = dict.fromkeys(old.match_labels if old is not None else (), None)
    return {"matchLabels": {**gone, **labels}, "matchExpressions": None}


def _turns(wanted: bool | None, weights: dict[str, int | None]) -> dict[str, Any] | None:
    """The patch of `spec.perNamespace`; None takes it away. Raises CliError."""
    if wanted is not False:
        return {"weights": weights} if weights else {}
    if weights:
        raise CliError("--no-per-namespace has no weights", "leave out --namespace-weight", ExitCode.USAGE)
    return None


def _change(access: Access, name: str, spec: dict[str, Any]) -> None:
    access.queue(name)
    try:
        access.client.patch(paths.queue(name), {"spec": spec}, {"fieldManager": "kubectl-sj"})
    except Invalid as error:
        raise CliError("\n".join(remedies.invalid_fields(error, name))) from error


def _done(name: str, what: str) -> None:
    say(f"scavengerqueue.{names.GROUP}/{name} {what}")
