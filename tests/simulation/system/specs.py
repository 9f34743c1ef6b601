"""What users of histories write into ScavengerJobs and ScavengerQueues: one generator for each field of their specs.

The specs of histories are built of these tables and of nothing else, so a field without a generator is never played.
`test_specs.py` plays the tables and holds what comes out to the CRDs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from scavenger_api.job import IN_TEMPLATE, ScavengerJobSpec
from scavenger_api.task_numbers import parse_numbers

Object = dict[str, Any]
Generator = Callable[[random.Random], Any]

CLAIM: Final = "data"
SETTINGS: Final = "settings"
TOKEN: Final = "token"
ACCOUNT: Final = "runner"
PROGRAM: Final = "main"
BESIDE: Final = "beside"
"""The container of a template that is not the program."""
SAVED: Final = 85
"""The exit code of a program that has saved its state, by HTCondor's convention and that of snapshots."""
FAILS_WITH: Final = 3
"""The exit code of a program that fails."""
TOLERATED: Final = "example.org/spot"
OTHER: Final = "other"
"""The queue beside the default one."""
PLAIN: Final = 0.4
"""So many of the jobs that users submit have nothing special."""
SOME: Final = (1, 2, 3, 5)
"""How many fields the others have that need not be there."""


def one_of(*values: Any) -> Generator:
    """Any of these."""
    return lambda chance: chance.choice(values)


def several(*values: Any) -> Generator:
    """At least one of these, as a list in this order."""

    def drawn(chance: random.Random) -> list[Any]:
        chosen = set(chance.sample(range(len(values)), chance.randint(1, len(values))))
        return [value for number, value in enumerate(values) if number in chosen]

    return drawn


def tasks_of(array: Mapping[str, Any]) -> int:
    """How many tasks an array has, as its spec has it."""
    return int(array.get("tasks") or len(parse_numbers(array["indexes"])))


def parts(least: Mapping[str, Generator], **more: Generator) -> Generator:
    """An object with these fields, and with some of the others."""

    def drawn(chance: random.Random) -> Object:
        there = {name: make for name, make in more.items() if chance.random() < 0.5}
        return {name: make(chance) for name, make in {**least, **there}.items()}

    return drawn


def both(least: Generator, more: Generator) -> Generator:
    """An object with the fields of two."""
    return lambda chance: {**least(chance), **more(chance)}


def listed(*generators: Generator) -> Generator:
    """One item of each of some of these generators."""
    choose = several(*generators)
    return lambda chance: [make(chance) for make in choose(chance)]


def mounts(name: str, path: str) -> Generator:
    """A list of one mount."""
    whole = parts({"name": one_of(name), "mountPath": one_of(path)}, subPath=one_of("a"), readOnly=one_of(False, True))
    return lambda chance: [whole(chance)]


_MORE: Final = {"500m": "1", "1": "2", "2": "4"}


def amounts(**other: str) -> Generator:
    """Requests of a container and limits above them, or one side."""

    def drawn(chance: random.Random) -> Object:
        asked = {"cpu": chance.choice(("500m", "1", "1", "2")), "memory": "1Gi", **other}
        sides = chance.choice((("requests",), ("limits",), ("requests", "limits")))
        found = {side: dict(asked) for side in sides}
        if len(found) == 2:
            found["limits"] |= {"cpu": _MORE[asked["cpu"]], "memory": "2Gi"}
        return found

    return drawn


def _key(name: str) -> Generator:
    return parts({"name": one_of(name), "key": one_of("word")}, optional=one_of(False, True))


_SOURCES: Final[Mapping[str, Generator]] = {
    "fieldRef": parts({"fieldPath": one_of("metadata.name")}, apiVersion=one_of("v1")),
    "resourceFieldRef": parts(
        {"resource": one_of("limits.cpu")}, containerName=one_of(PROGRAM), divisor=one_of("1", "1m")
    ),
    "configMapKeyRef": _key(SETTINGS),
    "secretKeyRef": _key(TOKEN),
}


def _variable(kind: str) -> Generator:
    return lambda chance: {"name": kind.upper(), "valueFrom": {kind: _SOURCES[kind](chance)}}


_ENV: Final = listed(
    parts({"name": one_of("WORD"), "value": one_of("", "said")}), *(_variable(kind) for kind in _SOURCES)
)
_ENV_FROM: Final = listed(
    parts({"configMapRef": parts({"name": one_of(SETTINGS)}, optional=one_of(False, True))}, prefix=one_of("C_")),
    parts({"secretRef": parts({"name": one_of(TOKEN)}, optional=one_of(False, True))}, prefix=one_of("S_")),
)
_TOLERATIONS: Final = listed(
    parts({"key": one_of(TOLERATED), "operator": one_of("Exists")}, effect=one_of("NoSchedule")),
    parts({"key": one_of(TOLERATED), "operator": one_of("Equal"), "value": one_of("yes")}),
    parts(
        {
            "key": one_of(TOLERATED),
            "operator": one_of("Exists"),
            "effect": one_of("NoExecute"),
            "tolerationSeconds": one_of(60),
        }
    ),
)
_SECURITY: Final = parts(
    {},
    runAsNonRoot=one_of(True),
    allowPrivilegeEscalation=one_of(False),
    privileged=one_of(False),
    readOnlyRootFilesystem=one_of(False, True),
    seccompProfile=one_of({"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "a.json"}),
    capabilities=one_of({"drop": ["ALL"]}, {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}),
)
_POLICY: Final = listed(
    parts(
        {
            "action": one_of("FailJob", "FailIndex", "Ignore", "Count"),
            "onExitCodes": parts(
                {"operator": one_of("In"), "values": one_of([FAILS_WITH], [1, 137])}, containerName=one_of(PROGRAM)
            ),
        }
    ),
    parts(
        {
            "action": one_of("Ignore", "Count"),
            "onPodConditions": lambda chance: [
                parts({"type": one_of("DisruptionTarget", "Ready")}, status=one_of("True", "False"))(chance)
            ],
        }
    ),
    parts(
        {
            "action": one_of("FailJob", "Count"),
            "onExitCodes": parts({"operator": one_of("NotIn"), "values": one_of([FAILS_WITH])}),
        }
    ),
)


PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ON_FIRST: Final = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def _template(chance: random.Random) -> Object:
    """A pod template: with init containers that end, with some that stay, and with a second container, or without."""
    program = {"name": PROGRAM, "image": "example.org/app:1", "command": ["/app"], "resources": amounts()(chance)}
    beside = {
        "name": BESIDE,
        "image": "example.org/beside:1",
        "resources": {"limits": {"cpu": "100m", "memory": "1Mi"}},
    }
    before = {"name": "before", "image": "example.org/before:1", "resources": program["resources"]}
    stays = {**beside, "name": "stays", "restartPolicy": "Always"}
    optional: Mapping[str, Generator] = {
        "initContainers": several(before, stays),
        "volumes": several({"name": "scratch", "emptyDir": {}}, {"name": "c", "configMap": {"name": SETTINGS}}),
        "terminationGracePeriodSeconds": one_of(5, 30),
        "tolerations": _TOLERATIONS,
        "serviceAccountName": one_of(ACCOUNT),
        "serviceAccount": one_of(ACCOUNT),
        "securityContext": one_of({"runAsUser": 1000}),
        "nodeSelector": FIELDS["nodeSelector"],
        "affinity": one_of({"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": _ON_FIRST}]}}),
        "resources": one_of({"limits": {"cpu": "2200m", "memory": "4Gi"}}),
    }
    names = several(*optional)(chance)
    metadata = {"labels": {"app": "x"}, "annotations": {"example.org/note": "x"}}
    containers = chance.choice(([program], [program, beside], [beside, program]))
    more = {"env": _ENV, "envFrom": _ENV_FROM, "securityContext": _SECURITY}
    program.update({name: make(chance) for name, make in more.items() if chance.random() < 0.3})
    return {
        "metadata": metadata,
        "spec": {"containers": containers, **{name: optional[name](chance) for name in names}},
    }


FIELDS: Final[Mapping[str, Generator]] = {
    "queue": one_of("default", OTHER),
    "priority": one_of(-10, 0, 5, 10),
    "template": _template,
    "mainContainer": one_of(PROGRAM),
    "image": one_of("example.org/app:1"),
    "imagePullPolicy": one_of("Always", "IfNotPresent", "Never"),
    "imagePullSecrets": one_of([{"name": TOKEN}]),
    "command": one_of(["/app"]),
    "args": one_of(["--fast"]),
    "env": _ENV,
    "envFrom": _ENV_FROM,
    "serviceAccountName": one_of(ACCOUNT),
    "nodeSelector": one_of({"kubernetes.io/hostname": "n1"}),
    "tolerations": _TOLERATIONS,
    "resources": amounts(),
    "resourcesFrom": one_of("Recommended"),
    "parallelism": one_of(1, 2, 3, 4),
    "array": both(
        one_of({"tasks": 2}, {"tasks": 3}, {"indexes": "1,4-16:4"}),
        parts({}, maxRunning=one_of(1, 2), failFast=one_of(False, True), retry=one_of(0, 1)),
    ),
    "snapshot": parts({"volume": one_of(CLAIM)}, every=one_of("30s", "1m")),
    "persistentVolumeClaims": mounts(CLAIM, "/data"),
    "configMaps": mounts(SETTINGS, "/settings"),
    "secrets": mounts(TOKEN, "/token"),
    "runAsUser": one_of(1000),
    "runAsGroup": one_of(1000),
    "fsGroup": one_of(1000),
    "securityContext": _SECURITY,
    "interruptionAfter": one_of("1m", "30m"),
    "terminationGracePeriodSeconds": one_of(0, 5, 30),
    "checkpointExitCode": one_of(SAVED),
    "progressDeadlineIntervals": one_of(1, 3),
    "backoffLimit": one_of(0, 1, 3),
    "podFailurePolicy": lambda chance: {"rules": _POLICY(chance)},
    "activeDeadlineSeconds": one_of(60, 600),
    "suspend": one_of(False, True),
    "ttlSecondsAfterFinished": one_of(0, 30, 600),
    "capacity": one_of("Guaranteed", "Reclaimed"),
}
"""Of a ScavengerJob, by the field of its spec."""

QUEUE_FIELDS: Final[Mapping[str, Generator]] = {
    "weight": one_of(1, 3),
    "quota": one_of({"cpu": "2"}, {"cpu": "4", "memory": "8Gi"}),
    "closed": one_of(False, True),
    "namespaceSelector": one_of(
        {"matchLabels": {"team": "lab"}},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": ["lab", "office"]}]},
        {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    ),
    "perNamespace": one_of({}, {"weights": {"lab": 3}}),
}
"""Of a ScavengerQueue, by the field of its spec."""

EXCLUDED: Final[Mapping[str, str]] = {
    "template:overhead": "the API server refuses it in a pod without a RuntimeClass, whose word it is",
}
"""Paths without a generator, after the name of their CRD or of a part of templates, and why they can matter to no
decision."""

_AFTER: Final = (
    "a job never starts after one that fails or goes, and histories want what may start to start. "
    "tests/unit/admitter/test_after.py plays ends, deletions, names, successors and circles"
)
KNOWN: Final[Mapping[str, str]] = {
    "scavengerjobs:after[].job": _AFTER,
    "scavengerjobs:after[].when": _AFTER,
    "kubelets: restart after a pod has ended and before it is gone": (
        "a kubelet that starts again writes the status of an ended pod once more, with the generation of a deletion "
        "since. The admitter then takes the pod for one that was told to stop first (pods._asked_in_time)"
    ),
    "kubelets: MemoryPressure": "conditions of nodes but Ready are not modelled, so each OOMKilled is the job's own",
    "tenants: the same name in two namespaces": "histories tell jobs apart by their names",
    "Job controller: a Job that is resumed": "it makes no pods again here; admitters delete such Jobs first",
}
"""What histories do not play, and why: a fault that is known, or a model that is missing. Fields of a CRD have its name
before the colon."""

_NEEDED: Final = ("image", "resources")
"""Of a job without template."""


def job_spec(chance: random.Random) -> Object:
    """The spec of a job that a user writes, and that the CRD takes."""
    if chance.random() < PLAIN:
        return consistent({"parallelism": chance.choice((1, 1, 2))}, chance)
    optional = [name for name in FIELDS if name not in _NEEDED]
    chosen = chance.sample(optional, chance.choice(SOME))
    return consistent({name: FIELDS[name](chance) for name in FIELDS if name in chosen}, chance)


def queue_spec(chance: random.Random) -> Object:
    """The spec of a queue."""
    return {name: QUEUE_FIELDS[name](chance) for name in several(*QUEUE_FIELDS)(chance)}


def consistent(spec: Object, chance: random.Random) -> Object:
    """The same with what its fields need beside them, and without what they exclude, as the rules of the CRD say."""
    spec = dict(spec)
    if "mainContainer" in spec:
        spec.setdefault("template", FIELDS["template"](chance))
    if "template" in spec:
        spec = _without(spec, *IN_TEMPLATE, "snapshot")
        if "terminationGracePeriodSeconds" in spec["template"]["spec"]:
            spec.pop("terminationGracePeriodSeconds", None)
        if "resources" in spec["template"]["spec"]:  # above which no container may have a limit
            spec.pop("capacity", None)
            _with_equal_sides(spec["template"]["spec"])
        if spec.get("capacity") == "Reclaimed":  # nothing is filled in within a template
            _with_equal_sides(spec["template"]["spec"], only="limits")
        if spec["template"]["spec"]["containers"][0]["name"] != PROGRAM:
            spec["mainContainer"] = PROGRAM
    else:
        spec = {**{name: FIELDS[name](chance) for name in _NEEDED}, **spec}
        if spec.get("capacity") == "Reclaimed":
            spec["resources"] = _equal(spec["resources"])
    if "snapshot" in spec:
        claim = {"name": CLAIM, "mountPath": "/data"}
        spec |= {"command": ["/app"], "persistentVolumeClaims": [claim], "interruptionAfter": "30m"}
        spec = _without(spec, "parallelism", "capacity")
    if "template" in spec or "array" in spec or spec.get("capacity") == "Reclaimed":
        spec = _without(spec, "resourcesFrom")
    spec = _of_a_size_that_fits(spec)
    return _without(spec, "parallelism", "capacity") if "array" in spec else _of_no_array(spec)


def _of_no_array(spec: Object) -> Object:
    """The same, where only a task fails alone."""
    if "podFailurePolicy" not in spec:
        return spec
    rules = spec["podFailurePolicy"]["rules"]
    jobs = [{**rule, "action": "FailJob"} if rule["action"] == "FailIndex" else rule for rule in rules]
    return {**spec, "podFailurePolicy": {"rules": jobs}}


def _equal(sides: Object, only: str = "") -> Object:
    """Requests and limits that are the same, or one side."""
    asked = next(iter(sides.values()))
    return {side: dict(asked) for side in ([only] if only else sides)}


def _with_equal_sides(pod: Object, only: str = "") -> None:
    for one in (*pod.get("initContainers", ()), *pod["containers"]):
        one["resources"] = _equal(one["resources"], only)


def _of_a_size_that_fits(spec: Object) -> Object:
    """The same, with fewer pods where the nodes of a history, of four cores each and never full, would not have room
    for all of them."""
    cores = ScavengerJobSpec.model_validate(spec).requests["cpu"] / 1000
    selects = "nodeSelector" in spec or "nodeSelector" in spec.get("template", {}).get("spec", {})
    most = max(1, int((1 if selects else 3) * 2.5 // cores) if cores > 1 or selects else 4)
    return {**spec, "parallelism": min(spec["parallelism"], most)} if "parallelism" in spec else spec


def _without(spec: Object, *names: str) -> Object:
    return {name: value for name, value in spec.items() if name not in names}
