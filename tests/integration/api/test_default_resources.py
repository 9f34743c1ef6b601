"""cpu and memory that a job leaves out, by its namespace or by the administrator, as the API server fills them in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
from scavenger_cluster.stack import rendered
from scavenger_testing.place import Server, path_of
from scavenger_testing.waiting import wait

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl


DEFAULTS = {"default-cpu": "500m", "default-memory": "1Gi", "default-cpu-per-gpu": "4", "default-memory-per-gpu": "8Gi"}
GPUS = {"nvidia.com/gpu": "2"}
NOTED: Final = "scavenger.dev/default-resources"
OF_ALL: Final = {"cpu": "250m", "memory": "512Mi", "cpuPerGPU": "3"}
RANGE: Final = {"type": "Container", "defaultRequest": {"cpu": "200m"}, "default": {"cpu": "400m"}}

Object = dict[str, Any]
Create = Callable[..., Object]


def template(*containers: dict[str, Any], **pod: Any) -> dict[str, Any]:
    named = [{"name": f"c{number}", "image": "i:1", **one} for number, one in enumerate(containers)]
    return {"spec": {"containers": named, **pod}}


def creating(server: Server, namespace: str) -> Create:
    """Returns a job as it is kept: its spec, with what is noted on it."""
    path = f"{path_of('scavengerjobs', namespace)}?dryRun=All&fieldValidation=Strict"

    def create(spec: Object, noted: str | None = None) -> Object:
        meta = {"name": "j", **({"annotations": {NOTED: noted}} if noted is not None else {})}
        job = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": meta, "spec": spec}
        answer = server("POST", path, job)
        assert answer.allowed, answer
        made = answer.body
        return {**made["spec"], "noted": made["metadata"].get("annotations", {}).get(NOTED)}

    return create


@pytest.fixture(scope="module")
def policies(api_cluster: Kubectl, server: Server, module_namespace: str) -> Iterator[None]:
    """The policies, in force in all namespaces until the module has ended, and annotations on one."""
    has = ("--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
    settings = [f"--set=defaultResources.{name}={value}" for name, value in OF_ALL.items()]
    policy = rendered("scavenger-base", print, *has, *settings, templates=("default-resources",))
    api_cluster.ok("apply", "-f", "-", stdin=policy)
    api_cluster.ok("annotate", "namespace", module_namespace, *(f"scavenger.dev/{n}={v}" for n, v in DEFAULTS.items()))

    def filled() -> bool:
        try:
            found = creating(server, module_namespace)({"template": template({})})
        except AssertionError:  # for a moment it says that it does not know the kind
            return False
        return "resources" in found["template"]["spec"]["containers"][0]

    wait("the policy to be in force", filled)
    yield
    api_cluster.ok("delete", "-f", "-", stdin=policy)
    wait("the policy to be gone", lambda: not filled())


@pytest.fixture
def kept(server: Server, policies: None, module_namespace: str) -> Create:
    """In a namespace with annotations."""
    return creating(server, module_namespace)


def both(cpu: str, memory: str) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory}
    return {"requests": asked, "limits": asked}


def test_what_nobody_names_is_filled_in(kept: Create) -> None:
    (one,) = kept({"template": template({})})["template"]["spec"]["containers"]
    assert one["resources"] == both("500m", str(1 << 30))
    short = kept({"image": "i:1"})
    assert (short["resources"], short["noted"]) == (both("500m", str(1 << 30)), None)


def test_each_gpu_has_its_own(kept: Create) -> None:
    wanted = both("8000m", str(2 * (8 << 30)))
    (one,) = kept({"template": template({"resources": {"limits": GPUS}})})["template"]["spec"]["containers"]
    assert one["resources"] == {"requests": wanted["requests"], "limits": wanted["limits"] | GPUS}
    short = kept({"image": "i:1", "resources": {"requests": GPUS}})["resources"]
    assert short == {"requests": wanted["requests"] | GPUS, "limits": wanted["limits"]}


def test_the_main_container_has_what_is_missing_of_the_pod(kept: Create) -> None:
    pod = template({"resources": {"requests": {"memory": "2Gi"}}}, {})
    first, second = kept({"template": pod, "mainContainer": "c1"})["template"]["spec"]["containers"]
    assert first["resources"] == {"requests": {"memory": "2Gi"}}
    assert second["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}
    short = kept({"image": "i:1", "resources": {"requests": {"memory": "2Gi"}}})["resources"]
    assert short == {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": "500m"}}


def test_what_is_named_stays(kept: Create) -> None:
    for pod in (
        template({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
        template({}, resources={"requests": {"cpu": "1", "memory": "1Gi"}}),
        template({}, initContainers=[{"name": "i", "image": "i", "resources": {"requests": {"cpu": 1, "memory": 5}}}]),
    ):
        assert kept({"template": pod})["template"] == pod
    short = {"image": "i:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    assert kept(short).items() >= short.items()


def test_a_namespace_without_defaults_has_those_of_the_administrator(
    server: Server, policies: None, namespace: str
) -> None:
    create = creating(server, namespace)
    short = create({"image": "i:1"})
    assert (short["resources"], short["noted"]) == (both("250m", str(1 << 29)), "cpu,memory")
    whole = create({"template": template({"resources": {"limits": {**GPUS, "memory": "1Gi"}}})})
    (one,) = whole["template"]["spec"]["containers"]
    assert one["resources"]["requests"] == {"cpu": "6000m"}
    assert whole["noted"] == "cpu"


def test_a_limit_range_goes_before_the_administrator_in_whatever_order_the_policies_are_asked(
    api_cluster: Kubectl, server: Server, policies: None, namespace: str
) -> None:
    create = creating(server, namespace)
    for name in ("a", "b"):
        body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": [RANGE]}}
        api_cluster.inside(namespace).ok("create", "-f", "-", stdin=json.dumps(body))
    cpu = {"requests": "200m", "limits": "400m"}

    def sides(spec: Object, noted: str | None = None) -> tuple[dict[str, str], str | None]:
        made = create(spec, noted)
        of = made["template"]["spec"]["containers"][0] if "template" in spec else made
        return {side: amounts["cpu"] for side, amounts in of["resources"].items()}, made["noted"]

    wait("the range to be seen", lambda: sides({"image": "i:1"})[0] == cpu)
    assert sides({"image": "i:1"}) == (cpu, "memory")
    assert sides({"template": template({})}) == (cpu, "memory")
    filled = {"image": "i:1", "resources": both("250m", "1Gi")}
    assert sides(filled) == ({"requests": "250m", "limits": "250m"}, None), "as the user wrote it"
    assert sides(filled, noted="cpu") == (cpu, None), "as the other policy left it"
    api_cluster.ok("annotate", "namespace", namespace, "scavenger.dev/default-cpu=1")
    wait("the annotation to be seen", lambda: sides({"image": "i:1"})[0] == {"requests": "1000m", "limits": "1000m"})


def test_a_limit_range_counts_for_sidecars_and_other_containers(
    api_cluster: Kubectl, server: Server, policies: None, namespace: str
) -> None:
    """Kubernetes gives its defaults to each container of a pod that names no size: the job is planned with as much."""
    create = creating(server, namespace)
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": [RANGE]}}
    api_cluster.inside(namespace).ok("create", "-f", "-", stdin=json.dumps(body))
    filled = {"requests": {"cpu": "200m"}, "limits": {"cpu": "400m"}}
    own = {"resources": both("2", "4Gi")}
    beside = [{"name": "s", "image": "i:1", "restartPolicy": "Always"}, {"name": "t", "image": "i:1", **own}]

    def sizes(*containers: Object, **pod: Any) -> list[Any]:
        spec = create({"template": template(*containers, **pod)})["template"]["spec"]
        return [one.get("resources") for one in (*spec["containers"], *spec.get("initContainers", ()))]

    wait("the range to be seen", lambda: sizes(own, initContainers=beside)[1] == filled)
    assert sizes(own, initContainers=beside) == [own["resources"], filled, own["resources"]]
    assert sizes({}, own) == [filled, own["resources"]]
    assert sizes(own, {"resources": {"requests": {"memory": "1Gi"}}}) == [
        own["resources"],
        {"requests": {"memory": "1Gi", "cpu": "200m"}, "limits": {"cpu": "400m"}},
    ]
    main, sidecar = sizes({}, initContainers=beside[:1])
    assert (main["requests"]["cpu"], sidecar) == ("200m", filled)
    assert sizes(own, {"resources": {"limits": {"cpu": "1"}}})[1] == {"limits": {"cpu": "1"}}
    api_cluster.ok("annotate", "namespace", namespace, "scavenger.dev/default-cpu=1")
    wait("the annotation to be seen", lambda: sizes({})[0]["requests"]["cpu"] == "1000m")
    main, sidecar = sizes({}, initContainers=beside[:1])
    assert (main["requests"]["cpu"], sidecar) == ("1000m", filled)
