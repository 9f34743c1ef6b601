"""Jobs with a pod template: what becomes of it, and when it is not started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

import msgspec
import pytest
from pydantic import ValidationError
from scavenger_admitter.core.admission.placement.headroom import ANYWHERE, Target
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.shape import requests_of
from scavenger_admitter.core.manifest import job_manifest, target_of
from scavenger_admitter.core.pods_of_job import pods_of_job
from scavenger_admitter.facts import shape_of
from scavenger_admitter.slim_jobs import slim
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.rules.job import problems_of_its_own, warnings_of_its_own
from scavenger_domain.pod_security import Level, breaches
from scavenger_kube import kinds, scavenger_kinds
from scavenger_testing.pod_security import violations

from . import builders as b
from .test_lifecycle import states

RUN = "2026-01-01T00:00:00.000007Z"
SOME = {"cpu": "1", "memory": "1Gi"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def container(name: str = "sim", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": f"{name}:1", "resources": {"requests": SOME, "limits": SOME}, **fields}


def job(
    pod: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    phase: Phase | None = None,
    **spec: Any,
) -> ScavengerJob:
    template = {"metadata": metadata or {}, "spec": {"containers": [container()], **(pod or {})}}
    return b.job(phase, spec={"image": None, "resources": None, "template": template, **spec})


def manifest(
    made: ScavengerJob, target: Target = ANYWHERE, level: Level = Level.RESTRICTED, **settings: Any
) -> dict[str, Any]:
    return job_manifest(made, restarts=3, run=RUN, max_grace_seconds=300, level=level, target=target, **settings)


def pod_spec(made: ScavengerJob, target: Target = ANYWHERE, level: Level = Level.RESTRICTED) -> dict[str, Any]:
    found: dict[str, Any] = manifest(made, target, level)["spec"]["template"]["spec"]
    return found


# --- the pod as it is ---------------------------------------------------------------------------------------


WRITTEN: Mapping[str, Any] = {
    "volumes": [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "200Mi"}},
        {"name": "key", "secret": {"secretName": "key", "items": [{"key": "k", "path": "p"}], "defaultMode": 256}},
    ],
    "initContainers": [container("prepare"), container("proxy", restartPolicy="Always")],
    "nodeSelector": {"zone": "a"},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "runtimeClassName": "gvisor",
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.1"]},
    "hostAliases": [{"ip": "10.0.0.2", "hostnames": ["db"]}],
    "enableServiceLinks": False,
    "shareProcessNamespace": True,
    "securityContext": {"fsGroup": 100, "supplementalGroups": [7]},
    "imagePullSecrets": [{"name": "registry"}],
}


@pytest.mark.parametrize("field", sorted(WRITTEN.keys() - {"initContainers"}))
def test_what_the_user_wrote_is_in_the_pod(field: str) -> None:
    assert pod_spec(job({field: WRITTEN[field]}))[field] == WRITTEN[field]


def test_what_the_user_wrote_is_in_the_containers() -> None:
    fields: dict[str, Any] = {
        "workingDir": "/work",
        "ports": [{"containerPort": 80}],
        "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
        "startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 5},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        "volumeDevices": [{"name": "raw", "devicePath": "/dev/raw"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "stdin": True,
    }
    made = pod_spec(job({"containers": [container(**fields)], "initContainers": WRITTEN["initContainers"]}))

    assert fields.items() <= made["containers"][0].items()
    assert made["containers"][0]["resources"] == {"requests": SOME, "limits": SOME}
    assert [one["name"] for one in made["initContainers"]] == ["prepare", "proxy"]
    assert made["initContainers"][1]["restartPolicy"] == "Always"


def test_what_is_ours_stands_over_what_the_user_wrote() -> None:
    given = {
        "restartPolicy": "OnFailure",
        "priorityClassName": "system-node-critical",
        "priority": 5,
        "preemptionPolicy": "Never",
        "schedulerName": "other",
        "hostname": "mine",
        "subdomain": "mine",
        "terminationGracePeriodSeconds": 9999,
        "serviceAccount": "robot",
    }
    made = pod_spec(job(given))

    assert made["restartPolicy"] == "Never"
    assert made["priorityClassName"] == "scavenger-preemptible"
    assert made["terminationGracePeriodSeconds"] == 300
    assert made["serviceAccountName"] == "robot"
    assert not {"priority", "preemptionPolicy", "schedulerName", "hostname", "subdomain", "serviceAccount"} & set(made)


def test_labels_and_annotations_reach_the_pod_and_ours_stand_over_them() -> None:
    theirs = {"labels": {"team": "x", "scavenger.dev/job": "y"}, "annotations": {"a": "b"}, "finalizers": ["f/g"]}
    made = manifest(job(metadata=theirs))["spec"]["template"]["metadata"]

    assert made["labels"] | {"team": "x", "scavenger.dev/job": "job"} == made["labels"]
    assert made["annotations"]["a"] == "b"
    assert made["annotations"]["scavenger.dev/run"] == RUN
    assert made["finalizers"] == ["scavenger.dev/interruption-record"]


def test_annotations_that_keep_a_node_are_left_out_unless_the_administrator_allows_them() -> None:
    keep = {
        "karpenter.sh/do-not-disrupt": "true",
        "karpenter.sh/do-not-evict": "true",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "descheduler.alpha.kubernetes.io/prefer-no-eviction": "",
    }
    keyed = job(metadata={"annotations": {**keep, "a": "b"}})

    def annotations(**settings: Any) -> Any:
        return manifest(keyed, **settings)["spec"]["template"]["metadata"]["annotations"]

    assert {key for key in (*keep, "a") if key in annotations()} == {"a"}
    allowed = {"karpenter.sh/do-not-disrupt"}
    assert {key for key in keep if key in annotations(allowed_annotations=allowed)} == allowed
    safe = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    assert manifest(job(metadata={"annotations": safe}))["spec"]["template"]["metadata"]["annotations"].items() >= (
        safe.items()
    )


def test_every_container_gets_the_environment() -> None:
    own = [{"name": "SCAVENGER_INDEX", "value": "9"}, {"name": "A", "value": "$(SCAVENGER_RESTARTS)"}]
    made = pod_spec(job({"containers": [container(env=own), container("log")], "initContainers": [container("init")]}))

    for one in (*made["containers"], *made["initContainers"]):
        names = [variable["name"] for variable in one["env"]]
        assert names[:5] == [
            "SCAVENGER_INDEX",
            "SCAVENGER_PARALLELISM",
            "SCAVENGER_PEERS",
            "SCAVENGER_RESTARTS",
            "SCAVENGER_CHECKPOINT_INTERVAL",
        ]
        assert names.count("SCAVENGER_INDEX") == 1
    assert made["containers"][0]["env"][-1] == own[1]


@pytest.mark.parametrize(
    ("spec", "name"), [({}, "sim"), ({"mainContainer": "log"}, "log"), ({"mainContainer": "gone"}, "sim")]
)
def test_the_program_is_the_first_container_or_the_one_that_is_named(spec: dict[str, Any], name: str) -> None:
    made = manifest(job({"containers": [container(), container("log")]}, **spec))["spec"]["template"]["metadata"]

    assert made["annotations"]["kubectl.kubernetes.io/default-container"] == name


@pytest.mark.parametrize(
    ("automount", "allowed", "token"), [(None, True, True), (False, True, False), (True, False, False)]
)
def test_a_token_goes_only_where_the_namespace_allows_it(automount: bool | None, allowed: bool, token: bool) -> None:
    given: dict[str, Any] = {"serviceAccountName": "robot"}
    given |= {} if automount is None else {"automountServiceAccountToken": automount}
    made = job_manifest(job(given), restarts=0, run=RUN, max_grace_seconds=300, token=allowed)

    assert made["spec"]["template"]["spec"]["automountServiceAccountToken"] is token


def test_pods_of_a_gang_have_their_index_in_init_containers_as_well() -> None:
    made = job_manifest(
        job({"initContainers": [container("init")]}, parallelism=2),
        restarts=0,
        run=RUN,
        max_grace_seconds=300,
    )
    made["metadata"] |= {"uid": "u"}
    pods = pods_of_job(made)

    for index, pod in enumerate(pods):
        for one in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            assert {"name": "JOB_COMPLETION_INDEX", "value": str(index)} in one["env"]


def test_a_variable_without_a_name_is_left_to_the_api_server() -> None:
    assert pod_spec(job({"containers": [container(env=[{"value": "x"}])]}))["containers"][0]["env"][-1] == {
        "value": "x"
    }


def test_no_container_starts_again_in_its_pod() -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
    init = [
        container("proxy", restartPolicy="Always", restartPolicyRules=rules),
        container("a", restartPolicy="OnFailure"),
    ]
    made = job({"containers": [container(restartPolicy="Always", restartPolicyRules=rules)], "initContainers": init})
    found = pod_spec(made)
    assert [one.get("restartPolicy") for one in (*found["initContainers"], *found["containers"])] == [
        "Always",
        None,
        None,
    ]
    assert not any("restartPolicyRules" in one for one in (*found["initContainers"], *found["containers"]))
    assert [text.partition(": ")[0] for text in warnings_of_its_own(made.spec)] == [
        "spec.template.spec.initContainers[0].restartPolicyRules",
        "spec.template.spec.initContainers[1].restartPolicy",
        "spec.template.spec.containers[0].restartPolicy",
        "spec.template.spec.containers[0].restartPolicyRules",
    ]


# --- odd content --------------------------------------------------------------------------------------------

NODE_TERM: Final = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
WHOLE: Final[Mapping[str, Any]] = {
    **WRITTEN,
    "containers": [
        container(
            env=[{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            envFrom=[{"configMapRef": {"name": "c"}}],
            command=["a"],
            args=["b"],
            securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"]}, "seccompProfile": {"type": "Localhost"}},
            volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}],
            ports=[{"containerPort": 80}],
        )
    ],
    "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
    "overhead": {"cpu": "1m"},
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule", "tolerationSeconds": 5}],
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": NODE_TERM}],
        },
        "podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {"matchExpressions": []}}]},
    },
    "serviceAccountName": "robot",
    "automountServiceAccountToken": True,
    "terminationGracePeriodSeconds": 5,
    "schedulerName": "default-scheduler",
    "priorityClassName": "low",
    "priority": 1,
}
"""A pod with all that a component reads of one."""
JUNK: Final = (None, True, 5, 1.5, "5", [None], [5], {"x": None}, {"x": 5})
Path = tuple[str | int, ...]


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Of every field and every entry."""
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, one in entries:
        yield (*path, name)
        yield from paths(one, (*path, name))


def changed(path: Path, *junk: Any) -> dict[str, Any]:
    """The whole pod with this in a place; without one, the place is empty."""
    pod = deepcopy(dict(WHOLE))
    there: Any = pod
    for name in path[:-1]:
        there = there[name]
    del there[path[-1]]
    if junk:
        there[path[-1]] = junk[0]
    return pod


FIELDS = [path for path in paths(WHOLE) if isinstance(path[-1], str)]
OF_ANY_NAME = {"env", "nodeSelector", "overhead", "requests", "limits"}
NAMED = [path for path in FIELDS if path != ("containers",) and not OF_ANY_NAME & {*path[:-1]}]


@pytest.mark.parametrize("path", NAMED, ids=lambda path: ".".join(map(str, path)))
def test_a_field_that_is_null_is_absent(path: Path) -> None:
    assert _pod_of(changed(path, None)) == _pod_of(changed(path))


def _pod_of(pod: dict[str, Any]) -> dict[str, Any] | None:
    """What is made of a pod, without what is empty; None where it is refused."""
    try:
        found: dict[str, Any] = _filled(pod_spec(job(pod), Target(only=("n1",))))
    except ValidationError:
        return None
    return found


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: found for name, one in value.items() if (found := _filled(one)) not in ({}, [], "")}
    return [_filled(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("field", sorted(WHOLE))
def test_whatever_is_taken_can_be_read_by_every_component(field: str) -> None:
    """Who could hide a job from one of them would have it run where others are evicted."""
    taken = 0
    for path in (one for one in FIELDS if one[0] == field):
        for junk in JUNK:
            pod = changed(path, junk)
            try:
                made = job(pod)
            except ValidationError:
                continue
            taken += 1
            body = msgspec.json.encode({"spec": {"template": {"spec": pod}}})
            assert msgspec.json.decode(body, type=scavenger_kinds.ScavengerJob).spec.requests == made.spec.requests
            shape_of(made)
            list(problems_of_its_own(made.spec))
            list(warnings_of_its_own(made.spec))
            list(breaches(made.spec, Level.RESTRICTED))
    assert taken


# --- where it goes ------------------------------------------------------------------------------------------


def affinity(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def zone(*values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(values)}]}


def test_one_of_the_users_terms_and_one_of_ours_have_to_hold() -> None:
    neighbours = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]}}
    wanted = affinity(zone("a"), zone("b"), {})["affinity"] | neighbours
    made = pod_spec(job({"affinity": wanted}), Target(only=("n1", "n2"), rather="n2"))["affinity"]

    def both(label: str, node: str) -> dict[str, Any]:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        return {**zone(label), "matchFields": fields}

    terms = made["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [both("a", "n1"), both("a", "n2"), both("b", "n1"), both("b", "n2")]
    assert made["podAntiAffinity"] == neighbours["podAntiAffinity"]
    assert len(made["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]) == 1


def test_without_a_target_the_affinity_is_the_users() -> None:
    wanted = affinity(zone("a"))["affinity"]
    assert pod_spec(job({"affinity": wanted}))["affinity"] == wanted


def test_jobs_are_placed_where_their_affinity_lets_them() -> None:
    room = {"cpu": 4000, "memory": 1 << 33, "pods": 110}
    nodes = {name: NodeView(name, room, labels={"zone": name}) for name in ("a", "b", "c")}
    index = NodeIndex(nodes)

    assert index.matching(shape_of(job(affinity(zone("a"), zone("c"))))) == [0, 2]
    not_a = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}
    assert index.matching(shape_of(job(affinity(not_a)))) == [1, 2]
    assert index.matching(shape_of(job())) == [0, 1, 2]


@pytest.mark.parametrize(
    ("pod", "bound"),
    [
        ({}, False),
        ({"volumes": [{"name": "a", "emptyDir": {}}]}, False),
        ({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]}, True),
        ({"volumes": [{"name": "a", "nfs": {"server": "s", "path": "/"}}]}, True),
        ({"volumes": [{"name": "a", "ephemeral": {}}]}, True),
        ({"affinity": {"podAntiAffinity": {}}}, True),
        ({"topologySpreadConstraints": []}, True),
    ],
)
def test_what_the_plan_cannot_judge_is_left_to_the_scheduler(pod: dict[str, Any], bound: bool) -> None:
    granted = Target(only=("n1",))
    assert target_of(job(pod), granted, 0).only == (() if bound else ("n1",))


# --- what it asks for ---------------------------------------------------------------------------------------

REQUESTS = [
    {"containers": [container(), container("log", resources={"limits": {"cpu": "100m", "memory": "64Mi"}})]},
    {"initContainers": [container("init", resources={"requests": {"cpu": "8", "nvidia.com/gpu": "1"}})]},
    {"initContainers": [container("proxy", restartPolicy="Always"), container("init")]},
    {"resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "4Gi"}}},
    {"overhead": {"cpu": "250m", "memory": "120Mi"}},
]


@pytest.mark.parametrize("pod", REQUESTS, ids=lambda pod: ",".join(pod))
def test_a_job_is_planned_by_what_its_pod_will_request(pod: dict[str, Any]) -> None:
    """The API server fills in requests from limits, per container and for the whole pod."""
    made = job(pod)
    spec = pod_spec(made)
    for one in (*spec["containers"], *spec.get("initContainers", ())):
        one["resources"] = {"requests": {**one["resources"].get("limits", {}), **one["resources"].get("requests", {})}}

    assert shape_of(made).requests == requests_of(msgspec.convert({"spec": spec}, kinds.Pod))


def test_on_reclaimed_capacity_containers_are_placed_by_what_stands_for_cpu_and_memory() -> None:
    small = {"limits": {"cpu": "100m", "memory": "1500Ki"}}
    made = job({"containers": [container(), container("log", resources=small)]}, capacity="Reclaimed")
    first, second = pod_spec(made)["containers"]

    assert first["resources"]["requests"] == {
        "cpu": "0",
        "memory": "0",
        "scavenger.dev/reclaimed-cpu": "1000",
        "scavenger.dev/reclaimed-memory": "1024",
    }
    assert second["resources"]["limits"]["memory"] == "1500Ki"
    assert made.spec.placed_by == {"scavenger.dev/reclaimed-cpu": 1100, "scavenger.dev/reclaimed-memory": 1026}


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"containers": [container(resources={"requests": {"cpu": "1"}})]}, "memory is mandatory"),
        ({"nodeName": "n1"}, "spec.template.spec.nodeName: the scheduler chooses the node"),
        ({"activeDeadlineSeconds": 5}, "spec.template.spec.activeDeadlineSeconds: "),
    ],
)
def test_a_job_that_no_webhook_has_refused_fails_before_it_takes_anything(pod: dict[str, Any], words: str) -> None:
    outcome = b.decide(b.seen(job(pod), 5, units=1))

    assert outcome.status.phase is Phase.FAILED
    assert states(outcome.status)["Succeeded"] == "False:Invalid"
    assert outcome.actions == ()
    assert not outcome.candidate
    assert words in (outcome.status.message or "")


def test_nor_does_one_start_that_says_itself_what_the_components_say_of_jobs() -> None:
    """By this figure the scheduler would spare it for ever."""
    outcome = b.decide(b.seen(job(metadata={"annotations": {"scavenger.dev/running-priority": "1e12"}}), 5, units=1))

    assert outcome.actions == ()
    assert states(outcome.status)["Succeeded"] == "False:Invalid"
    assert "scavenger.dev/running-priority" in (outcome.status.message or "")


# --- what it may not have -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", Level)
def test_a_job_that_asks_for_the_node_is_not_started(level: Level) -> None:
    made = job({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]})
    outcome = b.decide(b.seen(made, 5, units=1, level=level))

    assert outcome.actions == ()
    assert states(outcome.status)["Admitted"] == "False:PodSecurity"
    assert "spec.template.spec.volumes[0].hostPath" in (outcome.status.message or "")


@pytest.mark.parametrize("field", sorted(WRITTEN))
def test_pods_keep_to_restricted(field: str) -> None:
    made = job({field: WRITTEN[field]})

    assert list(breaches(made.spec, Level.RESTRICTED)) == []
    assert violations(pod_spec(made)) == []


@pytest.mark.parametrize(
    ("context", "user"),
    [({}, 1000), ({"fsGroup": 5}, 1000), ({"runAsUser": 7}, 7)],
)
def test_pods_run_as_the_user_of_their_namespace_unless_they_name_one(context: dict[str, Any], user: int) -> None:
    made = job_manifest(job({"securityContext": context}), restarts=0, run=RUN, max_grace_seconds=300, user=1000)
    assert made["spec"]["template"]["spec"]["securityContext"] == {**context, "runAsUser": user}


def test_a_short_job_runs_as_the_user_of_its_namespace_unless_it_names_one() -> None:
    for own, user in ((None, 1000), (7, 7)):
        short = b.job(spec={"runAsUser": own, "fsGroup": 5})
        made = job_manifest(short, restarts=0, run=RUN, max_grace_seconds=300, user=1000)
        assert made["spec"]["template"]["spec"]["securityContext"] == {"fsGroup": 5, "runAsUser": user}


def test_the_line_to_add_is_named_where_it_belongs() -> None:
    words = 'container has runAsNonRoot and image will run as root (pod: "p", container: sim)'
    pod = b.pod(started=None, waiting=("CreateContainerConfigError", words))
    outcome = b.decide(b.seen(job(phase=Phase.STARTING), 30, b.batch(), pod))

    assert states(outcome.status)["Succeeded"] == "False:RunsAsRoot"
    assert "add the line `runAsUser: 65532` to spec.template.spec.securityContext" in (outcome.status.message or "")


# --- how it starts ------------------------------------------------------------------------------------------

INIT = {"initContainers": [container("prepare")]}
ON_PREPARE = {"containerName": "prepare", "operator": "In", "values": [3]}


def init(pod: kinds.Pod, name: str, **state: Any) -> kinds.Pod:
    status = {"name": name, "state": state}
    statuses = (msgspec.convert(status, kinds.ContainerStatus),)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, init_container_statuses=statuses))


def ended(code: int, at: float = 20) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": b.stamp(at), "reason": "Error" if code else "Completed"}}


def test_a_job_whose_init_container_fails_has_failed() -> None:
    pod = init(b.pod(started=None, phase="Failed"), "prepare", **ended(3))
    outcome = b.decide(b.seen(job(INIT, phase=Phase.STARTING), 30, b.batch(), pod))

    assert outcome.status.phase is Phase.FAILED
    assert "init container prepare" in (outcome.status.message or "")
    assert "exited with code 3" in (outcome.status.message or "")


@pytest.mark.parametrize(
    ("more", "phase"),
    [
        ({"backoffLimit": 1}, Phase.WAITING),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": ON_PREPARE}]}}, Phase.WAITING),
        (
            {"backoffLimit": 1, "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": ON_PREPARE}]}},
            Phase.FAILED,
        ),
    ],
)
def test_an_init_container_that_fails_is_tried_again_as_the_job_allows(more: dict[str, Any], phase: Phase) -> None:
    pod = init(b.pod(started=None, phase="Failed"), "prepare", **ended(3))
    outcome = b.decide(b.seen(job(INIT, phase=Phase.STARTING, **more), 30, b.batch(), pod))
    assert (outcome.status.phase, outcome.start_failed) == (phase, phase is Phase.WAITING)


def test_what_others_added_fails_no_job() -> None:
    pod = init(b.pod(started=None, phase="Failed"), "istio-init", **ended(3))
    outcome = b.decide(b.seen(job(INIT, phase=Phase.STARTING), 30, b.batch(), pod))

    assert outcome.status.phase is Phase.WAITING


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ({"running": {"startedAt": b.stamp(10)}}, Phase.STARTING),
        (ended(0, at=4900), Phase.STARTING),
        (ended(0, at=100), Phase.WAITING),
    ],
)
def test_a_start_takes_as_long_as_its_init_containers(state: dict[str, Any], phase: Phase) -> None:
    pod = init(b.pod(started=None), "prepare", **state)
    outcome = b.decide(b.seen(job(INIT, phase=Phase.STARTING), 5000, b.batch(), pod))

    assert outcome.status.phase is phase


# --- what is kept of it -------------------------------------------------------------------------------------


def test_of_a_large_template_what_only_pods_read_is_not_kept() -> None:
    env = [
        {"name": "A", "value": "x" * 20_000},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    made = job({"containers": [container(env=env, args=["y" * 20_000], securityContext={"privileged": True})]})
    kept = slim(made)

    assert len(kept.model_dump_json()) < 5000
    assert kept.spec.references("secret") == {"s"}
    assert kept.spec.requests == made.spec.requests
    assert list(breaches(kept.spec, Level.RESTRICTED)) == list(breaches(made.spec, Level.RESTRICTED))
