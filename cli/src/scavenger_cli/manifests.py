"""Manifests: read from files, or built from the options of `run`. Pure but for the reading."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scavenger_api import names
from scavenger_api.quantity import parse_quantity

from scavenger_cli.exits import CliError, ExitCode

KINDS: Final = ("ScavengerJob", "ScavengerQueue")
VOLCANO: Final = "batch.volcano.sh/"
CONVERTED: Final = {
    "Job": ("batch/v1", f"{VOLCANO}v1alpha1"),
    "CronJob": ("batch/v1",),
    "JobSet": ("jobset.x-k8s.io/v1alpha2",),
    "MPIJob": ("kubeflow.org/v1", "kubeflow.org/v2beta1"),
    "PyTorchJob": ("kubeflow.org/v1",),
    "Pod": ("v1",),
    "RayJob": ("ray.io/v1",),
    "SparkApplication": ("sparkoperator.k8s.io/v1beta2",),
}
"""Kinds that `convert` takes, and of which APIs."""
Manifest = dict[str, Any]
_OURS: Final = "them as ScavengerJobs"
_SUBMITS: Final = re.compile(
    r"^\s*(executable|universe)\s*=.*^\s*queue\b[^:=]*$", re.IGNORECASE | re.MULTILINE | re.DOTALL
)
"""What stands in a submit file, and not in YAML."""
_APPLY: Final = f"write apiVersion: {names.API_VERSION}, kind: ScavengerJob; `kubectl apply` takes everything else"
_CONVERT: Final = f"`kubectl sj convert` makes ScavengerJobs of {', '.join(CONVERTED)}"


def read(source: str, wanted: Collection[str] = KINDS) -> list[Manifest]:
    """The manifests in a file, or on standard input for `-`; at least one is of a kind wanted. Raises CliError."""
    return parse(text_of(source), name_of(source), wanted)


def name_of(source: str) -> str:
    """What messages call it."""
    return "standard input" if source == "-" else source


def text_of(source: str) -> str:
    """What is in a file, or on standard input for `-`. Raises CliError."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise CliError(f"{source} cannot be read: {error.strerror}", code=ExitCode.USAGE) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is not a text file", code=ExitCode.USAGE) from error


def parse(text: str, source: str, wanted: Collection[str] = KINDS) -> list[Manifest]:
    """The manifests in a YAML or JSON text of one or more documents, lists opened. Raises CliError.

    Objects of other kinds may stand beside them (see `is_ours`), but not alone.
    """
    import yaml

    if text.startswith("#!"):
        remedy = f"`kubectl sj sbatch` submits scripts for Slurm, and `kubectl sj convert` prints {_OURS}"
        raise CliError(f"{source} is a script", remedy, ExitCode.USAGE)
    if is_submit_file(text):
        raise CliError(f"{source} is a submit file of HTCondor", f"`kubectl sj convert` prints {_OURS}", ExitCode.USAGE)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = [one for one in yaml.load_all(text, Loader=loader) if one is not None]
    except yaml.YAMLError as error:
        raise CliError(f"{source} is not YAML: {' '.join(str(error).split())}", code=ExitCode.USAGE) from error
    found = [item for one in documents for item in _opened(one)]
    if not found:
        raise CliError(f"{source} holds no object", code=ExitCode.USAGE)
    for number, one in enumerate(found, start=1):
        _check(one, f"{source}, object {number}" if len(found) > 1 else source)
    if not any(is_converted(one) if wanted is CONVERTED else one["kind"] in wanted for one in found):
        remedy = _CONVERT if any(map(is_converted, found)) else _APPLY
        raise CliError(f"{source} holds no {' or '.join(wanted)}", remedy, ExitCode.USAGE)
    return found


def is_submit_file(text: str) -> bool:
    """Whether a text is a submit file of HTCondor, and no manifest."""
    return _SUBMITS.search(text) is not None


def literal(text: str) -> str:
    """A text of a command or of the environment that is the same when the kubelet has replaced `$(NAME)` and `$$`."""
    return re.sub(r"\$(?=[$(])", "$$", text)


def named(manifest: Manifest) -> str:
    """Kind and name of an object, as messages call it; with the prefix where the API server makes the name."""
    metadata = manifest.get("metadata") or {}
    return f"{manifest['kind']} {metadata.get('name') or metadata.get('generateName')}"


def is_ours(manifest: Manifest) -> bool:
    """Whether it is a ScavengerJob or ScavengerQueue, and not, for example, the claim that a job mounts."""
    return manifest["kind"] in KINDS


def is_converted(manifest: Manifest) -> bool:
    """Whether `convert` makes a ScavengerJob of it."""
    return manifest["apiVersion"] in CONVERTED.get(manifest["kind"], ())


def _opened(document: Any) -> Iterable[Any]:
    if isinstance(document, dict) and document.get("kind") == "List":
        return list(document.get("items") or ())
    return (document,)


def _check(document: Any, where: str) -> None:
    if not isinstance(document, dict):
        raise CliError(f"{where}: not an object, but {type(document).__name__}", code=ExitCode.USAGE)
    kind, version = document.get("kind"), document.get("apiVersion")
    other = isinstance(kind, str) and kind and isinstance(version, str) and version
    meant = not other or kind in KINDS or str(version).startswith(f"{names.GROUP}/")
    if meant and (kind not in KINDS or version != names.API_VERSION):
        raise CliError(
            f"{where}: {kind or 'no kind'} of {version or 'no apiVersion'} is not a ScavengerJob",
            _APPLY,
            ExitCode.USAGE,
        )
    if not meant:
        return
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise CliError(f"{where}: metadata.name is missing", "give it a name", ExitCode.USAGE)


@dataclass(frozen=True)
class RunOptions:
    """What `run` was given. Mounts are NAME:/PATH[:ro]; the rest as in spec."""

    image: str
    cpu: str
    memory: str
    words: Sequence[str] = ()
    command: bool = False
    parallelism: int = 1
    array: Manifest | None = None
    backoff_limit: int | None = None
    after: Sequence[str] = ()
    queue: str | None = None
    priority: int | None = None
    interruption_after: str | None = None
    checkpoint_exit_code: int | None = None
    snapshot: str | None = None
    grace_seconds: int | None = None
    ttl_seconds: int | None = None
    suspend: bool = False
    reclaimed: bool = False
    recommended: bool = False
    service_account: str | None = None
    user: int | None = None
    fs_group: int | None = None
    env: Sequence[str] = ()
    resources: Sequence[str] = ()
    node_selector: Sequence[str] = ()
    pvcs: Sequence[str] = ()
    config_maps: Sequence[str] = ()
    secrets: Sequence[str] = ()
    labels: Sequence[str] = field(default=())


def scavenger_job(name: str, options: RunOptions) -> Manifest:
    """The ScavengerJob of `run`; what was not given is not written, so that the defaults are the API's.

    Raises CliError for an option that cannot be read.
    """
    words = list(options.words)
    asked = {"cpu": options.cpu, "memory": options.memory, **dict(assignments("--resource", options.resources))}
    spec = {
        "queue": options.queue,
        "priority": options.priority,
        "image": options.image,
        "command": words if options.command and words else None,
        "args": words if words and not options.command else None,
        "env": [{"name": key, "value": value} for key, value in assignments("--env", options.env)] or None,
        "resources": {"limits" if options.reclaimed else "requests": asked},
        "resourcesFrom": "Recommended" if options.recommended else None,
        "parallelism": options.parallelism if options.parallelism != 1 else None,
        "array": options.array,
        "backoffLimit": options.backoff_limit,
        "after": [other_job(text) for text in options.after] or None,
        "nodeSelector": dict(assignments("--node-selector", options.node_selector)) or None,
        "persistentVolumeClaims": [mount("--pvc", text) for text in options.pvcs] or None,
        "configMaps": [mount("--configmap", text) for text in options.config_maps] or None,
        "secrets": [mount("--secret", text) for text in options.secrets] or None,
        "serviceAccountName": options.service_account,
        "runAsUser": options.user,
        "fsGroup": options.fs_group,
        "interruptionAfter": options.interruption_after,
        "checkpointExitCode": options.checkpoint_exit_code,
        "snapshot": {"volume": options.snapshot} if options.snapshot else None,
        "terminationGracePeriodSeconds": options.grace_seconds,
        "ttlSecondsAfterFinished": options.ttl_seconds,
        "suspend": True if options.suspend else None,
        "capacity": "Reclaimed" if options.reclaimed else None,
    }
    metadata: Manifest = {"name": name}
    if options.labels:
        metadata["labels"] = dict(assignments("--label", options.labels))
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": metadata,
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


@dataclass(frozen=True)
class Changes:
    """What `resubmit` is to change; None for what stays."""

    image: str | None = None
    cpu: str | None = None
    memory: str | None = None
    queue: str | None = None


def again(old: Manifest, name: str, changes: Changes) -> Manifest:
    """The manifest of a job like one that is there, as its user would have written it, under another name.

    Raises CliError where what is to change stands in a pod template.
    """
    spec = {key: value for key, value in old["spec"].items() if key != "suspend"}
    spec |= {key: value for key, value in (("image", changes.image), ("queue", changes.queue)) if value is not None}
    wanted = {key: value for key, value in (("cpu", changes.cpu), ("memory", changes.memory)) if value is not None}
    if "resources" in spec:
        spec["resources"] = {side: _changed(amounts, wanted) for side, amounts in spec["resources"].items()}
    elif wanted or changes.image:
        raise CliError(
            "the image and the resources of this job stand in spec.template",
            f"change them in a copy of `kubectl get sj {old['metadata']['name']} -o yaml`",
        )
    metadata: Manifest = {"name": name}
    if labels := old["metadata"].get("labels"):
        metadata["labels"] = labels
    own = {
        key: value
        for key, value in (old["metadata"].get("annotations") or {}).items()
        if not key.startswith((f"{names.GROUP}/", "kubectl.kubernetes.io/"))
    }
    if own:
        metadata["annotations"] = own
    return {"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": metadata, "spec": spec}


def _changed(amounts: Manifest, wanted: Manifest) -> Manifest:
    """Requests or limits with other amounts of what is in them; 0, as reclaimed capacity may have it, stays 0."""
    return {name: wanted.get(name, old) if parse_quantity(old) else old for name, old in amounts.items()}


def next_name(name: str, taken: Collection[str], longest: int) -> str:
    """The first name that is free after this one: simulation, simulation-2, simulation-3."""
    stem, dash, number = name.rpartition("-")
    counted = bool(dash) and number.isdecimal() and len(number) < 6 and not number.startswith("0")
    stem, count = (stem, int(number)) if counted else (name, 1)
    while True:
        count = count + 1
        found = f"{stem[: longest - len(str(count)) - 1].rstrip('-')}-{count}"
        if found not in taken:
            return found


def scavenger_queue(
    name: str,
    weight: int,
    quota: Sequence[str],
    selector: Sequence[str] = (),
    turns: Manifest | None = None,
) -> Manifest:
    """The ScavengerQueue of `queue create`. Raises CliError.

    Args:
        name: of the queue.
        weight: of its share.
        quota: as `cpu=100,memory=1Ti`.
        selector: labels of the namespaces that may use it, as `team=blue,stage=test`.
        turns: `spec.perNamespace`; None where its namespaces take no turns.
    """
    limits = dict(assignments("--quota", _parts(quota)))
    labels = dict(assignments("--namespace-selector", _parts(selector)))
    spec: Manifest = {"weight": weight, **({"quota": limits} if limits else {})}
    if labels:
        spec["namespaceSelector"] = {"matchLabels": labels}
    if turns is not None:
        spec["perNamespace"] = turns
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}, "spec": spec}


def namespace_weights(texts: Iterable[str]) -> dict[str, int | None]:
    """Weights of namespaces out of `chemistry=3,physics=2`; None for the quantity `-`. Raises CliError."""
    option = "--namespace-weight"
    found: dict[str, int | None] = {}
    for namespace, text in assignments(option, _parts(texts)):
        if text != "-" and not re.fullmatch(r"[1-9][0-9]{0,6}", text):
            raise CliError(f"{option} {namespace}={text} is not a weight", "write 1 or more", ExitCode.USAGE)
        found[namespace] = None if text == "-" else int(text)
    return found


def _parts(texts: Iterable[str]) -> list[str]:
    return [part for text in texts for part in text.split(",") if part]


def other_job(text: str) -> Manifest:
    """One entry of spec.after out of NAME, NAME:completed or NAME:ended. Raises CliError."""
    name, _, when = text.partition(":")
    if not name or when.lower() not in ("", "completed", "ended"):
        remedy = "write NAME, which has to complete, or NAME:ended for one that may fail"
        raise CliError(f"--after {text} is no job to wait for", remedy, ExitCode.USAGE)
    return {"job": name, **({"when": when.capitalize()} if when else {})}


def mount(option: str, text: str) -> Manifest:
    """One mount out of NAME:/PATH or NAME:/PATH:ro. Raises CliError."""
    name, _, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    if not name or not path.startswith("/") or mode not in ("", "ro"):
        raise CliError(
            f"{option} {text} is not a mount",
            "write NAME:/PATH, or NAME:/PATH:ro to mount it read-only",
            ExitCode.USAGE,
        )
    return {"name": name, "mountPath": path, **({"readOnly": True} if mode else {})}


def assignments(option: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """NAME=VALUE pairs. Raises CliError."""
    found = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise CliError(f"{option} {text} is not an assignment", "write NAME=VALUE", ExitCode.USAGE)
        found.append((name, value))
    return found
