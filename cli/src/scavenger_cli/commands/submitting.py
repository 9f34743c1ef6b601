"""submit, run: new jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer
from scavenger_kube.errors import AlreadyExists, Invalid

from scavenger_cli import paths, remedies
from scavenger_cli.access import Access, namespaced_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import output_of, print_objects
from scavenger_cli.manifests import CONVERTED, Manifest, RunOptions, is_converted, is_ours, named, read, scavenger_job
from scavenger_cli.objects import Job, without_managed_fields
from scavenger_cli.options import RESTRICTED, PodSecurity, Priority, Timeout, level_of, seconds
from scavenger_cli.output import note, say
from scavenger_cli.trial import refusals
from scavenger_cli.waiting import Goal, wait_for

if TYPE_CHECKING:
    from scavenger_domain.pod_security import Level

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Create nothing. The API server checks the objects; with =client, `lint` does, without a cluster.",
    ),
]
Client = Annotated[bool, typer.Option("--dry-run-client", hidden=True, help="The same as --dry-run=client.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the job has completed; exit code 4 if it fails.")]
Watch = Annotated[bool, typer.Option("--watch", help="The same, and print every change.")]
Created = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FORM", help="Print the created objects in this format.")
]


@namespaced_command
def submit(
    access: Access,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A YAML or JSON file; - reads standard input.")],
    wait: Wait = False,
    watch: Watch = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    client: Client = False,
    pod_security: PodSecurity = RESTRICTED,
    output: Created = None,
) -> None:
    """Submit the jobs of a file.

    The file may have several documents: jobs, queues, and objects of other kinds, such as the claim of a job. The
    command creates nothing unless the API server accepts all of them. It does not change a claim that exists.

    \b
    Examples:
      kubectl sj submit simulation.yaml
      kubectl sj submit simulation.yaml --wait --timeout 2h
      generate-jobs | kubectl sj submit -
    """
    manifests = read(file)
    trial = dry_run or client
    if len(manifests) > 1 and not trial:
        for manifest in manifests:
            create(access, manifest, dry_run=True)
    level = level_of(pod_security) if client else None
    created = create_all(access, manifests, dry_run=dry_run, client=level, output=output)
    see_through(access, created, wait and not trial, watch and not trial, timeout)


@namespaced_command
def run(
    access: Access,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the job, at most 52 characters.")] = None,
    image: Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Container image.")] = None,
    cpu: Annotated[
        str | None, typer.Option("--cpu", metavar="QUANTITY", help="CPU of each pod, such as 500m or 2.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="QUANTITY", help="Memory of each pod, such as 4Gi.")
    ] = None,
    words: Annotated[list[str] | None, typer.Argument(metavar="-- ARGS", help="Arguments of the program.")] = None,
    command: Annotated[bool, typer.Option("--command", help="ARGS replace the entrypoint of the image.")] = False,
    parallelism: Annotated[int, typer.Option(metavar="N", min=1, help="Number of pods; all of them run, or none.")] = 1,
    array: Annotated[
        str | None,
        typer.Option(
            metavar="INDEXES", help="Independent tasks, such as 0-999%100, 1-20 or 1,5,9-12; % limits running tasks."
        ),
    ] = None,
    backoff_limit: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="How often to retry the job, or each task, after a failure.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB[:ended]", help="Start after this job has completed, or ended; repeatable."),
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Queue of the job.")] = None,
    priority: Priority = None,
    pvc: Annotated[list[str] | None, typer.Option(metavar="NAME:/PATH[:ro]", help="Mount a claim; repeatable.")] = None,
    configmap: Annotated[list[str] | None, typer.Option(metavar="NAME:/PATH", help="Mount a ConfigMap.")] = None,
    secret: Annotated[list[str] | None, typer.Option(metavar="NAME:/PATH", help="Mount a Secret.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Environment variable; repeatable.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=QUANTITY", help="Another resource, such as nvidia.com/gpu=1; repeatable."),
    ] = None,
    node_selector: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=VALUE", help="Label that a node must have; repeatable.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="LABEL=VALUE", help="Label of the job.")] = None,
    interruption_after: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Longest time between two checkpoints, such as 30m.")
    ] = None,
    checkpoint_exit_code: Annotated[
        int | None,
        typer.Option(
            metavar="CODE",
            min=1,
            max=255,
            help="Exit code of a program that saved its state and is not done, such as 85.",
        ),
    ] = None,
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="CLAIM", help="Save snapshots of a program without checkpoints in this --pvc."),
    ] = None,
    grace: Annotated[int | None, typer.Option(metavar="SECONDS", help="Time between SIGTERM and SIGKILL.")] = None,
    ttl: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Time after its end when the job is deleted.")
    ] = None,
    service_account: Annotated[str | None, typer.Option(metavar="NAME", help="Service account of the pods.")] = None,
    user: Annotated[int | None, typer.Option(metavar="UID", help="User ID, if the image runs as root.")] = None,
    fs_group: Annotated[
        int | None, typer.Option(metavar="GID", help="ID of the group that may write to the claims.")
    ] = None,
    reclaimed: Annotated[
        bool,
        typer.Option("--reclaimed", help="Run on capacity that other pods request and do not use; --cpu is a limit."),
    ] = False,
    recommended: Annotated[
        bool,
        typer.Option("--recommended", help="Request less than --cpu and --memory, by what was measured."),
    ] = False,
    suspended: Annotated[bool, typer.Option("--suspended", help="Create the job suspended.")] = False,
    job: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Run a Job, or an object of another kind that `convert` takes."),
    ] = None,
    wait: Wait = False,
    watch: Watch = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    client: Client = False,
    pod_security: PodSecurity = RESTRICTED,
    output: Created = None,
) -> None:
    """Run a command, without a manifest.

    ARGS are arguments of the image's entrypoint, as with kubectl run. With --command they replace it.
    `--dry-run=client -o yaml` prints the manifest, and needs no cluster. With --from, the file has everything but the
    name, the queue and the priority. Lines on standard error list what was left out or changes its meaning.

    \b
    Examples:
      kubectl sj run pi --image python:3.12 --user 65532 --cpu 1 --memory 1Gi --command -- python pi.py
      kubectl sj run --from job.yaml --queue night
      kubectl sj run sweep --image sweep:1 --cpu 1 --memory 2Gi --array 1-1000%50 --backoff-limit 2
      kubectl sj run sum --image sum:1 --cpu 1 --memory 2Gi --after sweep
      kubectl sj run fill --image fill:1 --cpu 8 --memory 2Gi --reclaimed
      kubectl sj run md --image gromacs:1 --cpu 4 --memory 8Gi --parallelism 4 --pvc md-state:/state -- -maxh 24
    """
    options = RunOptions(
        image=image or "",
        cpu=cpu or "",
        memory=memory or "",
        words=words or (),
        command=command,
        parallelism=parallelism,
        array=_tasks(array),
        backoff_limit=backoff_limit,
        after=after or (),
        queue=queue,
        priority=priority,
        interruption_after=interruption_after,
        checkpoint_exit_code=checkpoint_exit_code,
        snapshot=snapshot,
        grace_seconds=grace,
        ttl_seconds=ttl,
        suspend=suspended,
        reclaimed=reclaimed,
        recommended=recommended,
        service_account=service_account,
        user=user,
        fs_group=fs_group,
        env=env or (),
        resources=resource or (),
        node_selector=node_selector or (),
        pvcs=pvc or (),
        config_maps=configmap or (),
        secrets=secret or (),
        labels=label or (),
    )
    manifest = scavenger_job(_given(name, options), options) if job is None else _from(job, name, options)
    if client and (namespace := access.flags.get("namespace")):
        manifest["metadata"] = {**manifest["metadata"], "namespace": namespace}
    trial = dry_run or client
    level = level_of(pod_security) if client else None
    created = create_all(access, [manifest], dry_run=dry_run, client=level, output=output)
    see_through(access, created, wait and not trial, watch and not trial, timeout)


def _tasks(text: str | None) -> Manifest | None:
    """spec.array of --array, as sbatch reads it. Raises CliError."""
    if text is None:
        return None
    from scavenger_cli.slurm_options import array

    return array(text)


def _given(name: str | None, options: RunOptions) -> str:
    """The name of a job that no file describes. Raises CliError for what is missing."""
    wanted = {"NAME": name, "--image": options.image, "--cpu": options.cpu, "--memory": options.memory}
    if missing := [word for word, value in wanted.items() if not value]:
        raise CliError(f"{', '.join(missing)} missing", "give all of them, or --from FILE", ExitCode.USAGE)
    return str(name)


_BESIDE_A_FILE: Final = ("queue", "priority")


def _from(file: str, name: str | None, options: RunOptions) -> Manifest:
    """The ScavengerJob of a file with a Job. Raises CliError."""
    from scavenger_cli.convert import converted

    nothing = RunOptions(image="", cpu="", memory="")
    given = [field for field, value in vars(options).items() if value != getattr(nothing, field)]
    if others := sorted(set(given) - set(_BESIDE_A_FILE)):
        raise CliError(f"{', '.join(others)}: the file of --from says it", "change the file", ExitCode.USAGE)
    found = [one for one in read(file, CONVERTED) if is_converted(one)]
    if len(found) != 1:
        raise CliError(f"{file} holds {len(found)} jobs", "use `kubectl sj convert` and submit", ExitCode.USAGE)
    manifest, lines = converted(found[0])
    for line in lines:
        note(f"{found[0]['kind']}: {line}")
    manifest["spec"] |= {field: getattr(options, field) for field in _BESIDE_A_FILE if field in given}
    if name is not None:
        manifest["metadata"] = {**manifest["metadata"], "name": name}
        manifest["metadata"].pop("generateName", None)
    return manifest


def create_all(
    access: Access, manifests: Sequence[Manifest], *, dry_run: bool, client: Level | None, output: str | None
) -> list[dict[str, Any]]:
    """Create objects and say so, or print those of this project's kinds in the form of -o.

    Args:
        access: the cluster.
        manifests: of the objects.
        dry_run: have the API server check them, and create none.
        client: ask no API server, judge the manifests as `lint` does where namespaces have this level, and take the
            objects for what they say; None to ask it.
        output: the form, or None.

    Returns:
        The objects of this project's kinds.

    Raises:
        CliError: where one cannot be created.
    """
    form = None if output is None else output_of(output, "what was created")
    if client is not None:
        _judge(manifests, client)
    created = []
    for manifest in manifests:
        one = manifest if client is not None else create(access, manifest, dry_run=dry_run)
        if one is None:
            note(f"{manifest['kind']} {manifest['metadata']['name']} exists already, and stays as it is")
        elif form is None or form.table:
            group = manifest["apiVersion"].rpartition("/")[0]
            kind = f"{manifest['kind'].lower()}{'.' * bool(group)}{group}"
            name = named(one).partition(" ")[2]
            say(f"{kind}/{name} created{' (dry run)' * (dry_run or client is not None)}")
        if one is not None and is_ours(manifest):
            created.append(one)
    if form is not None and not form.table:
        print_objects(created, form, "scavengerjob", single=len(created) == 1)
    return created


def _judge(manifests: Iterable[Manifest], level: Level) -> None:
    """Refuse what `lint` refuses, in one error, and print its warnings about what is sent. Raises CliError."""
    from scavenger_cli.lint.check import check

    wrong = []
    for manifest in filter(is_ours, manifests):
        problems, warnings = check(manifest, level)
        wrong += [f"{named(manifest)} is not valid:"] * bool(problems) + [f"  {one}" for one in problems]
        for text in warnings:
            note(f"warning: {text}")
    if wrong:
        raise CliError("\n".join(wrong), code=ExitCode.USAGE)


def create(access: Access, manifest: Manifest, *, dry_run: bool = False) -> dict[str, Any] | None:
    """Create one object; fields that the API does not know are refused, not dropped.

    Returns:
        The object; None where one of a kind that is not ours exists already.

    Raises:
        CliError: where it cannot be created.
    """
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise CliError(f"the {manifest['kind']} has no metadata", "give it a name", ExitCode.USAGE)
    path = _collection(access, manifest)
    if manifest["kind"] == "ScavengerJob" and (found := refusals(access, manifest)):
        name = metadata.get("name") or metadata.get("generateName")
        raise CliError("\n  ".join([f"the pod of {name} is not valid:", *found]))
    params = {"fieldValidation": "Strict", "fieldManager": "kubectl-sj", "dryRun": "All" if dry_run else None}
    try:
        body = access.client.request("POST", path, body=manifest, params=params)
    except Invalid as error:
        name = metadata.get("name") or metadata.get("generateName")
        raise CliError("\n".join(remedies.invalid_fields(error, str(name)))) from error
    except AlreadyExists as error:
        if not is_ours(manifest):
            return None
        what, name = manifest["kind"], metadata["name"]
        remedy = f"choose another name; `kubectl sj get {name}` shows the one there is"
        if what == "ScavengerQueue":
            remedy = f"`kubectl sj queue get {name}` shows it"
        raise CliError(f"there is a {what} {name} already", remedy) from error
    finally:
        for text in access.client.new_warnings():
            note(f"warning: {text}")
    made: dict[str, Any] = without_managed_fields(json.loads(body))
    return made


def _collection(access: Access, manifest: Manifest) -> str:
    """The path to which an object is posted; the API server says it of kinds that are not ours. Raises CliError."""
    namespace = manifest["metadata"].get("namespace") or access.namespace
    kind, version = manifest["kind"], manifest["apiVersion"]
    if is_ours(manifest):
        return paths.QUEUES if kind == "ScavengerQueue" else paths.jobs(namespace)
    api = paths.api(version)
    for one in access.served(version):
        if one["kind"] == kind and "/" not in one["name"]:
            return f"{api}/namespaces/{quote(namespace)}/{one['name']}" if one["namespaced"] else f"{api}/{one['name']}"
    raise CliError(f"the cluster has no kind {kind} of {version}", "see `kubectl api-resources`")


def see_through(
    access: Access, created: Sequence[dict[str, Any]], wait: bool, watch: bool, timeout: str | None
) -> None:
    """Wait for what was created, if that is wanted, and with `watch` print every change. Raises CliError."""
    jobs = [one for one in created if one["kind"] == "ScavengerJob"]
    if not (wait or watch) or not jobs:
        return
    namespaces = {one["metadata"]["namespace"] for one in jobs}
    if len(namespaces) > 1:
        raise CliError("the jobs are in different namespaces", "wait for each with `kubectl sj wait`", ExitCode.USAGE)
    inside = Access(access.client, namespaces.pop())
    wait_for(
        inside,
        [f"scavengerjob/{one['metadata']['name']}" for one in jobs],
        Goal.COMPLETED,
        seconds(timeout),
        report=_report if watch else None,
        reached=lambda told: say(f"{told} completed"),
    )


def _report(job: Job) -> None:
    message = job.status.message
    note(f"{job.name}: {job.phase or 'submitted'}{f' ({message})' if message and message != job.phase.lower() else ''}")
