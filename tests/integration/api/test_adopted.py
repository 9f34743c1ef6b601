"""Which batch/v1 Jobs become scavenger jobs, and what tenants can do with them, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_testing.place import MASTERS, Answer, Object, Place, Server, account, namespace, pod_spec, sized_spec

ADMITTER: Final = account("admitter")
TENANT: Final = "tenant"
QUEUE: Final[Object] = {names.LABEL_QUEUE: "default"}
OURS: Final[Object] = {"managedBy": names.MANAGED_BY_ADOPTER}
LEAVE: Final = "or remove the label scavenger.dev/queue to run a regular Job"


def batch(name: str = "j", labels: Object | None = None, meta: Object | None = None, **spec: Any) -> Object:
    """A Job of one pod. spec: of the Job; `pod`: more of its pod's spec, `tmeta`: metadata of the template."""
    template: Object = {"spec": {**sized_spec(restartPolicy="Never"), **spec.pop("pod", {})}}
    if tmeta := spec.pop("tmeta", None):
        template["metadata"] = tmeta
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels or {}, **(meta or {})},
        "spec": {**spec, "template": template},
    }


def cron(labels: Object | None = None, **what: Any) -> Object:
    """A CronJob with this in its jobTemplate."""
    job = batch(labels=labels, **what)
    job["metadata"].pop("name")
    inside = {"metadata": job["metadata"], "spec": job["spec"]}
    spec = {"schedule": "0 0 * * *", "jobTemplate": inside}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}


def said(**values: str) -> Object:
    """metadata with annotations of ours."""
    return {"annotations": {f"{names.GROUP}/{key.replace('_', '-')}": value for key, value in values.items()}}


class Places(NamedTuple):
    """A namespace that is not served, and served ones."""

    plain: Place
    labelled: Place
    all: Place


@pytest.fixture(scope="module")
def places(cluster: Cluster, server: Server) -> Iterator[Places]:
    """With the policies of `global.adopt.enabled`, and a tenant with the role edit in each namespace."""
    stack.adopt_jobs(cluster)
    labelled = {names.LABEL_ADOPT: "labelled"}
    whole = {names.LABEL_ADOPT: "all", names.LABEL_ADOPT_QUEUE: "night"}
    try:
        with (
            namespace(cluster, server) as plain,
            namespace(cluster, server, **labelled) as one,
            namespace(cluster, server, **whole) as two,
        ):
            found = Places(plain, one, two)
            for place in found:
                allow(place)
            plain.wait("Jobs to be adopted", lambda: adopted(one.try_create("jobs", batch(labels=QUEUE))))
            two.wait("unlabelled Jobs to be adopted", lambda: adopted(two.try_create("jobs", batch())))
            plain.wait("the policies to be in force", lambda: in_force(found))
            yield found
    finally:
        stack.adopt_no_jobs(cluster)


def allow(place: Place) -> None:
    """Give the tenant the role edit, and the rights to write statuses and ephemeral containers beside it."""
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["patch", "update"]},
        {"apiGroups": [""], "resources": ["pods/ephemeralcontainers", "pods/status"], "verbs": ["patch"]},
    ]
    root = "/apis/rbac.authorization.k8s.io/v1"
    where = f"{root}/namespaces/{place.namespace}"
    assert place.server("POST", f"{where}/roles", {"metadata": {"name": "more"}, "rules": rules}).allowed
    subject = {"kind": "User", "name": TENANT, "apiGroup": "rbac.authorization.k8s.io"}
    for kind, name in (("ClusterRole", "edit"), ("Role", "more")):
        ref = {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        body = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
        assert place.server("POST", f"{where}/rolebindings", body).allowed
    place.wait("its rights", lambda: place.try_create("jobs", batch(), user=TENANT).allowed)
    place.wait("its other rights", lambda: place.try_patch("jobs", "x", {}, sub="status", user=TENANT).code == 404)


def in_force(places: Places) -> bool:
    """Whether each policy answers by the new rules: the API server takes up one after the other."""
    root: Object = {"securityContext": {"runAsUser": 0}}
    return (
        places.labelled.try_create("jobs", batch(labels=QUEUE, meta=said(interruption_after="1h"))).allowed
        and places.labelled.try_create("cronjobs", cron(QUEUE)).allowed
        and bool(places.all.try_create("jobs", batch(backoffLimitPerIndex=16, **INDEXED)).warnings)
        and places.labelled.try_create("pods", of_job(**root), user=ADMITTER, groups=(MASTERS,)).allowed
    )


def adopted(answer: Answer) -> bool:
    """Whether this is a Job of ours."""
    return answer.allowed and answer.body["spec"].get("managedBy") == names.MANAGED_BY_ADOPTER


INDEXED: Final[Object] = {"completionMode": "Indexed", "completions": 3}
POLICY: Final[Object] = {"rules": [{"succeededCount": 1}]}
UNSIZED: Final[Object] = pod_spec()
LIMITED: Final[Object] = {
    "containers": [
        {"name": "a", "image": "none", "resources": {"limits": {"cpu": "1"}}},
        {"name": "b", "image": "none", "resources": {"requests": {"memory": "1Gi"}}},
    ]
}


def owner(version: str, kind: str) -> Object:
    """metadata with an owner."""
    return {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": "o", "uid": "1-2", "controller": True}]}


# --- creation ---


def test_nothing_is_adopted_by_default(cluster: Cluster, server: Server) -> None:
    """First, as the others turn it on. A namespace with the label is not served until an administrator says so."""
    with namespace(cluster, server, **{names.LABEL_ADOPT: "all"}) as place:
        place.wait("the policies to be in force", lambda: not place.try_create("jobs", batch(**OURS)).allowed)
        place.wait("all of them", lambda: not place.try_create("cronjobs", cron(QUEUE)).allowed)
        assert not adopted(place.try_create("jobs", batch()))
        for body in (
            batch(**OURS),
            batch(managedBy=names.MANAGED_BY),
            batch(labels=QUEUE, **OURS),
            batch(labels=QUEUE),
        ):
            refused = place.try_create("jobs", body)
            assert not refused.allowed
            assert "not adopted" in said_of(refused) or "created by the admitter only" in said_of(refused)
        assert "global.adopt.enabled=true" in said_of(place.try_create("jobs", batch(labels=QUEUE)))
        assert place.try_create("jobs", batch(labels={names.LABEL_ADOPT: "never"})).allowed
        who: Object = {"user": ADMITTER, "groups": (MASTERS,)}
        place.wait("that of pods", lambda: not place.try_create("pods", of_job(), **who).allowed)


class Made(NamedTuple):
    """A Job that is created. Each of the others: the queue it is adopted into, "" where it runs as a regular Job, and
    what is said where it is refused, after `!`."""

    name: str
    body: Object
    plain: str
    labelled: str
    all: str


UNSERVED: Final = "!Jobs of this namespace are not adopted"
JOBS: Final = [
    Made("a regular Job", batch(), "", "", "night"),
    Made("one with a label", batch(labels=QUEUE), UNSERVED, "default", "default"),
    Made("one of another queue", batch(labels={names.LABEL_QUEUE: "q"}), UNSERVED, "q", "q"),
    Made("one that opts out", batch(labels={names.LABEL_ADOPT: "never"}), "", "", ""),
    Made("one that opts in and out", batch(labels={**QUEUE, names.LABEL_ADOPT: "never"}), UNSERVED, "!never", "!never"),
    Made("one that says another word", batch(labels={names.LABEL_ADOPT: "all"}), "!admitter", "!admitter", "!admitter"),
    Made("one of the Job controller", batch(managedBy="kubernetes.io/job-controller"), "", "", ""),
    Made(
        "the same with a label", batch(labels=QUEUE, managedBy="kubernetes.io/job-controller"), UNSERVED, "!leave", "!l"
    ),
    Made("one of somebody else", batch(managedBy="example.com/other"), "", "", ""),
    Made("one of ours by hand", batch(**OURS), "!spec.managedBy: Jobs of", "!has a queue", "!has a queue"),
    Made("one of ours by hand with a label", batch(labels=QUEUE, **OURS), UNSERVED, "default", "default"),
    Made("one of a ScavengerJob by hand", batch(managedBy=names.MANAGED_BY), *(["!created by the admitter only"] * 3)),
    Made("one with another name of ours", batch(managedBy="scavenger.dev/x"), *(["!created by the admitter only"] * 3)),
    Made("one of Kueue", batch(labels={"kueue.x-k8s.io/queue-name": "q"}), "", "", ""),
    Made("one of two queues", batch(labels={**QUEUE, "kueue.x-k8s.io/queue-name": "q"}), UNSERVED, "!Kueue", "!Kueue"),
    Made("a hook of Helm", batch(meta={"annotations": {"helm.sh/hook": "pre-install"}}), "", "", ""),
    Made(
        "a hook that asks",
        batch(labels=QUEUE, meta={"annotations": {"helm.sh/hook": "x"}}),
        UNSERVED,
        "default",
        "default",
    ),
    Made("a hook of Argo CD", batch(meta={"annotations": {"argocd.argoproj.io/hook": "Sync"}}), "", "", ""),
    Made("a child of a JobSet", batch(meta=owner("jobset.x-k8s.io/v1alpha2", "JobSet")), "", "", ""),
    Made("a child of a TrainJob", batch(meta=owner("trainer.kubeflow.org/v1alpha1", "TrainJob")), "", "", ""),
    Made("a child of an MPIJob", batch(meta=owner("kubeflow.org/v2beta1", "MPIJob")), "", "", ""),
    Made("a child of a Workflow", batch(meta=owner("argoproj.io/v1alpha1", "Workflow")), "", "", "night"),
    Made("a child of a ScavengerJob", batch(meta=owner(names.API_VERSION, "ScavengerJob")), *(["!admitter only"] * 3)),
    Made("one of the system", batch(pod={"priorityClassName": "system-node-critical"}), "", "", ""),
    Made("one with a success policy", batch(successPolicy=POLICY, **INDEXED), "", "", "night"),
    Made("one with retries for each index", batch(backoffLimitPerIndex=15, **INDEXED), "", "", "night"),
    Made("one with too many of them", batch(backoffLimitPerIndex=16, **INDEXED), "", "", ""),
    Made("one without sizes", batch(pod=UNSIZED), "", "", ""),
    Made("one with a label and without", batch(labels=QUEUE, pod=UNSIZED), UNSERVED, "!cpu is", "!memory is mandatory"),
    Made("one that only limits", batch(labels=QUEUE, pod=LIMITED), UNSERVED, "default", "default"),
    Made("one that says how often", batch(meta=said(interruption_after="30m")), UNSERVED, "", "night"),
    Made("one that says nonsense", batch(meta=said(interruption_after="soon")), UNSERVED, "", "!must be a duration"),
    Made("one with a mark of ours", batch(meta=said(run="1")), *(["!written by the admitter only"] * 3)),
    Made(
        "one with our class",
        batch(labels=QUEUE, pod={"priorityClassName": "scavenger-preemptible"}),
        "!",
        "!only",
        "!only",
    ),
    Made(
        "a label in the template", batch(tmeta={"labels": QUEUE}), "!", *(["!template label scavenger.dev/queue"] * 2)
    ),
]


@pytest.mark.parametrize("case", JOBS, ids=lambda case: case.name)
def test_who_is_adopted(places: Places, case: Made) -> None:
    for place, expected in zip(places, case[2:], strict=True):
        answer = place.try_create("jobs", case.body, user=TENANT)
        if expected.startswith("!"):
            assert not answer.allowed
            assert expected[1:] in said_of(answer)
            continue
        assert answer.allowed, answer
        assert adopted(answer) == bool(expected)
        labels = answer.body["metadata"].get("labels", {})
        assert labels.get(names.LABEL_QUEUE, "") == expected


@pytest.fixture
def filled(cluster: Cluster, places: Places) -> Iterator[Place]:
    """A served namespace with a LimitRange that knows cpu; the administrator has a default of memory for all."""
    place, newer = places.labelled, "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
    words = (stack.ADOPT, "--api-versions", newer, "--set=defaultResources.memory=1Gi")
    policy = stack.rendered("scavenger-base", print, *words, templates=("default-resources",))
    cluster.kubectl("apply", "-f", "-", input=policy)
    limits = [{"type": "Container", "defaultRequest": {"cpu": "200m"}, "default": {"cpu": "400m"}}]
    made = {"metadata": {"name": "sizes"}, "spec": {"limits": limits}}
    assert place.server("POST", place.path("limitranges"), made).allowed
    place.wait("sizes", lambda: place.try_create("jobs", batch(labels=QUEUE, pod=UNSIZED), user=TENANT).allowed)
    yield place
    cluster.kubectl("delete", "-f", "-", input=policy)
    assert place.server("DELETE", place.path("limitranges", "sizes")).allowed


def test_a_job_that_asks_gets_the_sizes_that_a_scavenger_job_gets(filled: Place, places: Places) -> None:
    answer = filled.try_create("jobs", batch(labels=QUEUE, pod=UNSIZED), user=TENANT)
    assert adopted(answer)
    (container,) = answer.body["spec"]["template"]["spec"]["containers"]
    memory = str(2**30)
    asked = {"requests": {"cpu": "200m", "memory": memory}, "limits": {"cpu": "400m", "memory": memory}}
    assert container["resources"] == asked
    assert filled.try_create("cronjobs", cron(QUEUE, pod=UNSIZED), user=TENANT).allowed, "its Jobs get theirs"
    plain = places.all.try_create("jobs", batch(pod=UNSIZED), user=TENANT)
    assert (plain.allowed, adopted(plain)) == (True, False), "nobody asked, and nothing is filled in"
    assert any("cpu is mandatory" in text for text in plain.warnings)


def said_of(answer: Answer) -> str:
    """All that policies say: the first is the message, others are among the causes."""
    causes = (answer.body.get("details") or {}).get("causes") or ()
    return " ".join([answer.message, *(str(cause.get("message", "")) for cause in causes)])


DISRUPTED: Final = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
NONE: Final = {"onExitCodes": {"operator": "In", "values": [3]}}
GANG: Final[Object] = {"meta": said(gang="true"), "completionMode": "Indexed", "completions": 2, "parallelism": 2}
REFUSED: Final = [
    ("spec.backoffLimitPerIndex: ", {**INDEXED, "backoffLimitPerIndex": 16}),
    ("spec.podFailurePolicy.rules[].onPodConditions: ", {"podFailurePolicy": {"rules": [DISRUPTED]}}),
    ("metadata.annotations[scavenger.dev/gang]: ", {"meta": said(gang="true")}),
    ("metadata.annotations[scavenger.dev/snapshot]: ", {"meta": said(snapshot="work")}),
    ("metadata.annotations[scavenger.dev/minimum-run]: ", {"meta": said(minimum_run="10m")}),
    (
        "spec.manualSelector: ",
        {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}, "tmeta": {"labels": {"a": "b"}}},
    ),
    ("spec.template.spec.nodeName: ", {"pod": {"nodeName": "n"}}),
    ("spec.template.spec.schedulingGates: ", {"pod": {"schedulingGates": [{"name": "a.b/c"}]}}),
    ("spec.template.spec.resourceClaims: ", {"pod": {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]}}),
    ("spec.completions: ", {"completions": 100_001, "parallelism": 1}),
    ("spec.parallelism: ", {"parallelism": 100_001}),
]
"""What adopted Jobs cannot have, and how its refusal begins."""
REFUSED_GANGS: Final = [
    ("metadata.annotations[scavenger.dev/gang]: ", {**GANG, "parallelism": 1}),
    ("metadata.annotations[scavenger.dev/gang]: ", {**GANG, "completions": 1, "parallelism": 1}),
    ("metadata.annotations[scavenger.dev/gang]: ", {**GANG, "completionMode": "NonIndexed"}),
    ("spec.backoffLimitPerIndex: ", {**GANG, "backoffLimitPerIndex": 1}),
    ("spec.successPolicy: ", {**GANG, "successPolicy": {"rules": [{"succeededCount": 1}]}}),
    ("spec.template.spec.restartPolicy: ", {**GANG, "pod": {"restartPolicy": "OnFailure"}}),
]
"""What a gang cannot have besides."""


@pytest.mark.parametrize(
    ("field", "what"),
    [*REFUSED, *(pytest.param(*case, marks=pytest.mark.long) for case in REFUSED_GANGS)],
    ids=[field for field, _ in (*REFUSED, *REFUSED_GANGS)],
)
def test_what_cannot_be(places: Places, field: str, what: Object) -> None:
    """Refused with its field and a remedy for who asked; elsewhere it runs, and where nobody asked with a warning."""
    for place in (places.labelled, places.all):
        answer = place.try_create("jobs", batch(labels=QUEUE, **dict(what)), user=TENANT)
        assert not answer.allowed
        assert field in said_of(answer)
        assert "leave" in said_of(answer) or "split" in said_of(answer)
        timed = place.try_create("cronjobs", cron(QUEUE, **dict(what)), user=TENANT)
        assert not timed.allowed
        assert f"spec.jobTemplate.{field}" in said_of(timed)
    answer = places.all.try_create("jobs", batch(**dict(what)), user=TENANT)
    assert answer.allowed, answer
    assert not adopted(answer)
    assert any("not adopted, runs as a regular Job: " in text and field in text for text in answer.warnings)
    assert not places.labelled.try_create("jobs", batch(**dict(what)), user=TENANT).warnings


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("interruption_after", ["90s", "1h30m", "7d", "1.5h"], ["", "1 h", "-1h", "0s", "1d2h", "9" * 40 + "s"]),
        ("checkpoint_exit_code", ["1", "85", "255"], ["0", "256", "-1", "01", "a"]),
        ("gang", ["false"], ["", "yes", "True"]),
    ],
)
def test_annotations_say_something(places: Places, name: str, good: list[str], bad: list[str]) -> None:
    for values, allowed in ((good, True), (bad, False)):
        for value in values:
            answer = places.labelled.try_create("jobs", batch(labels=QUEUE, meta=said(**{name: value})))
            assert answer.allowed == allowed, (value, answer)
            assert allowed or f"metadata.annotations[scavenger.dev/{name.replace('_', '-')}]: " in said_of(answer)


def test_a_namespace_of_the_system_is_never_served(places: Places) -> None:
    place = places.plain
    patch = {"metadata": {"labels": {names.LABEL_ADOPT: "all"}}}
    try:
        assert place.server("PATCH", "/api/v1/namespaces/kube-public", patch, content_type=MERGE).allowed
        place.wait(
            "the label", lambda: place.server("GET", "/api/v1/namespaces/kube-public").body["metadata"]["labels"]
        )
        assert not adopted(place.try_create("jobs", batch(), namespace="kube-public"))
        refused = place.try_create("jobs", batch(labels=QUEUE), namespace="kube-public")
        assert "are not adopted" in said_of(refused)
    finally:
        patch["metadata"]["labels"][names.LABEL_ADOPT] = None  # type: ignore[assignment]
        place.server("PATCH", "/api/v1/namespaces/kube-public", patch, content_type=MERGE)


MERGE: Final = "application/merge-patch+json"


@pytest.mark.parametrize("kind", ["plain", "labelled", "all"])
def test_cron_jobs_say_it_in_their_template(places: Places, kind: str) -> None:
    place: Place = getattr(places, kind)
    answer = place.try_create("cronjobs", cron(QUEUE, meta=said(checkpoint_exit_code="85")), user=TENANT)
    assert answer.allowed == (kind != "plain"), answer
    assert answer.allowed or "spec.jobTemplate.metadata.labels[scavenger.dev/queue]: " in said_of(answer)
    assert place.try_create("cronjobs", cron({names.LABEL_ADOPT: "never"}), user=TENANT).allowed
    for body in (cron(tmeta={"labels": QUEUE}), cron({"scavenger.dev/job": "j"}), cron(managedBy=names.MANAGED_BY)):
        assert not place.try_create("cronjobs", body, user=TENANT).allowed
    named = cron()
    named["metadata"]["labels"] = QUEUE
    assert "written by the admitter only" in said_of(place.try_create("cronjobs", named, user=TENANT))


def test_the_real_controller_of_cron_jobs_makes_adopted_jobs(places: Places) -> None:
    place, body = places.labelled, cron(QUEUE)
    body["spec"]["schedule"] = "* * * * *"
    assert place.create("cronjobs", body, user=TENANT).allowed
    missed = {"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}}  # or it would wait for the next minute
    assert place.patch("cronjobs", "c", {"spec": {"startingDeadlineSeconds": 300}}).allowed
    assert place.patch("cronjobs", "c", missed, sub="status").allowed

    def made() -> list[Object]:
        return [one for one in place.items("jobs") if one["metadata"]["name"].startswith("c-")]

    place.wait("the Job", made)
    (job,) = made()
    assert job["spec"]["managedBy"] == names.MANAGED_BY_ADOPTER
    assert job["metadata"]["labels"][names.LABEL_QUEUE] == "default"
    place.delete("cronjobs", "c")


# --- changes ---


@pytest.fixture(scope="module")
def existing(places: Places) -> Places:
    """An adopted Job `mine` and a regular one `regular` in each served namespace, and only that elsewhere."""
    for place in places:
        assert place.create("jobs", batch("regular", labels={names.LABEL_ADOPT: "never"}), user=TENANT).allowed
    for place in places[1:]:
        meta = said(interruption_after="1h")
        answer = place.create("jobs", batch("mine", labels=QUEUE, meta=meta), user=TENANT)
        assert adopted(answer), answer
    return places


def annotated(**values: str | None) -> Object:
    """A patch of annotations of ours."""
    return {"metadata": {"annotations": {f"{names.GROUP}/{k.replace('_', '-')}": v for k, v in values.items()}}}


def labelled(key: str, value: str | None) -> Object:
    """A patch of a label."""
    return {"metadata": {"labels": {key: value}}}


CHANGES: Final = [
    ({"spec": {"suspend": True}}, ""),
    ({"spec": {"parallelism": 3}}, ""),
    ({"spec": {"ttlSecondsAfterFinished": 60}}, ""),
    ({"spec": {"suspend": True, "parallelism": 0, "ttlSecondsAfterFinished": 60}}, ""),
    (labelled("team", "a"), ""),
    ({"metadata": {"annotations": {"note": "a"}}}, ""),
    ({"spec": {"backoffLimit": 9}}, "suspend, parallelism and ttlSecondsAfterFinished may change"),
    ({"spec": {"activeDeadlineSeconds": 9}}, "suspend, parallelism and ttlSecondsAfterFinished may change"),
    ({"spec": {"suspend": True, "backoffLimit": 9}}, "suspend, parallelism and ttlSecondsAfterFinished may change"),
    ({"spec": {"managedBy": None}}, "field is immutable"),
    ({"spec": {"managedBy": names.MANAGED_BY}}, "field is immutable"),
    (labelled(names.LABEL_QUEUE, "other"), "said of an adopted Job when it is created"),
    (labelled(names.LABEL_QUEUE, None), "stays with an adopted Job"),
    (labelled(names.LABEL_ADOPT, "never"), "said of an adopted Job when it is created"),
    (annotated(interruption_after="9h"), "suspend the Job, and change it when none of its pods is left"),
    (annotated(interruption_after=None), "suspend the Job, and change it when none of its pods is left"),
    (annotated(checkpoint_exit_code="9"), "suspend the Job, and change it when none of its pods is left"),
    ({"spec": {"suspend": True}, **annotated(interruption_after="9h")}, "suspend the Job, and change it"),
    (annotated(minimum_run="9h"), "said of an adopted Job when it is created"),
    (annotated(release="requested"), "only who has the verb release on jobs.batch"),
    (annotated(run="1"), "said of an adopted Job when it is created"),
    (labelled(names.LABEL_JOB, "j"), "said of an adopted Job when it is created"),
    ({"metadata": {"finalizers": [names.FINALIZER]}}, "said of an adopted Job when it is created"),
    ({"metadata": owner(names.API_VERSION, "ScavengerJob")}, "said of an adopted Job when it is created"),
]


@pytest.mark.parametrize(("patch", "refusal"), CHANGES, ids=[str(patch) for patch, _ in CHANGES])
def test_what_a_tenant_changes_of_an_adopted_job(existing: Places, patch: Object, refusal: str) -> None:
    answer = existing.labelled.try_patch("jobs", "mine", patch, user=TENANT)
    assert answer.allowed == (not refusal), answer
    assert refusal in said_of(answer)


@pytest.mark.long
def test_the_size_of_a_gang_and_that_it_is_one_do_not_change(existing: Places) -> None:
    place = existing.labelled
    assert adopted(place.create("jobs", batch("gang", labels=QUEUE, **GANG), user=TENANT))
    changes: list[tuple[Object, str]] = [
        ({"spec": {"parallelism": 1}}, "is the size of a gang and does not change"),
        ({"spec": {"parallelism": 0}}, "is the size of a gang and does not change"),
        ({"spec": {"parallelism": 1}, **annotated(gang=None)}, "stays with an adopted Job"),
        (annotated(gang=None), "stays with an adopted Job"),
        (annotated(gang="false"), "said of an adopted Job when it is created"),
        ({"spec": {"suspend": True}}, ""),
        ({"spec": {"ttlSecondsAfterFinished": 60}}, ""),
    ]
    for patch, refusal in changes:
        answer = place.try_patch("jobs", "gang", patch, user=TENANT)
        assert answer.allowed == (not refusal), (patch, answer)
        assert refusal in said_of(answer), patch
    said = said_of(place.try_patch("jobs", "mine", annotated(gang="true"), user=TENANT))
    assert "said of an adopted Job when it is created" in said


STOPPED: Final = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
KEEPS: Final = "suspend the Job, and change it when none of its pods is left"


def test_promises_change_while_a_job_is_suspended_and_none_of_its_pods_is_left(existing: Places) -> None:
    place = existing.labelled
    theirs: Object = {"user": ADMITTER, "groups": (MASTERS,)}
    meta = said(interruption_after="1h")
    assert place.create("jobs", batch("stopped", labels=QUEUE, meta=meta, suspend=True), user=TENANT).allowed

    def change(**values: str | None) -> Answer:
        return place.try_patch("jobs", "stopped", annotated(**values), user=TENANT)

    assert KEEPS in said_of(change(interruption_after="2h")), "the admitter has not seen it suspended yet"
    for left in ({"active": 1}, {"active": 0, "terminating": 1}):
        status = {"status": {"conditions": [STOPPED, LEDGER], **left}}
        assert place.patch("jobs", "stopped", status, sub="status", **theirs).allowed
        assert KEEPS in said_of(change(interruption_after="2h"))
    gone = {"status": {"active": 0, "terminating": 0}}
    assert place.patch("jobs", "stopped", gone, sub="status", **theirs).allowed
    for values in ({"interruption_after": "2h"}, {"interruption_after": None}, {"checkpoint_exit_code": "85"}):
        assert change(**values).allowed
    resumed = {"spec": {"suspend": False}, **annotated(interruption_after="2h")}
    assert place.try_patch("jobs", "stopped", resumed, user=TENANT).allowed
    assert "must be a duration above 0" in said_of(change(interruption_after="soon"))
    assert "must be a number from 1 to 255" in said_of(change(checkpoint_exit_code="0"))
    for other in (annotated(minimum_run="9h"), labelled(names.LABEL_QUEUE, "other"), annotated(run="1")):
        refused = place.try_patch("jobs", "stopped", other, user=TENANT)
        assert "said of an adopted Job when it is created" in said_of(refused)


def test_an_administrator_asks_for_its_release_and_the_admitter_changes_nothing(existing: Places) -> None:
    place = existing.labelled
    assert place.try_patch("jobs", "mine", annotated(release="requested")).allowed
    assert not place.try_patch("jobs", "mine", annotated(release="done")).allowed
    for patch in ({"spec": {"suspend": True}}, annotated(release="requested"), labelled("team", "a")):
        assert not place.try_patch("jobs", "mine", patch, user=ADMITTER, groups=(MASTERS,)).allowed
    path = place.path("jobs", "mine") + "?dryRun=All"
    assert not place.server("DELETE", path, user=ADMITTER, groups=(MASTERS,)).allowed
    assert not place.try_create("jobs", batch(labels=QUEUE), user=ADMITTER, groups=(MASTERS,)).allowed


FROM: Final = {"release.scavenger.dev/from": "u-1"}


def of_release(name: str = "r", of: str = "", **spec: Any) -> Object:
    """A Job that a release creates: a copy of this Job, or the one in its place."""
    notes = {**FROM, **({} if of else {"release.scavenger.dev/copy": "r-r0"})}
    labels = {names.LABEL_ADOPT: "never", **({"release.scavenger.dev/of": of} if of else {})}
    return batch(name, labels=labels, meta={"annotations": notes}, **{"suspend": True, **spec})


def test_the_account_of_the_release_hook_touches_what_is_released_only(existing: Places) -> None:
    """With all rights of RBAC. tests/integration/admitter/test_adopted_jobs.py lets it release Jobs."""
    place = existing.labelled
    theirs: Object = {"user": account("admitter-release"), "groups": (MASTERS,)}
    for body in (of_release("copied", "mine"), of_release("again")):
        assert place.try_create("jobs", body, **theirs).allowed
        assert place.create("jobs", body).allowed
    awake, running = of_release(suspend=False), batch("r", suspend=True)
    queued, owned = of_release(), of_release()
    queued["spec"]["managedBy"] = "example.com/other"
    owned["metadata"] |= owner("batch/v1", "CronJob")
    for body in (awake, running, queued, owned):
        assert "creates the suspended copy" in said_of(place.try_create("jobs", body, **theirs)), body
    assert not place.try_create("jobs", of_release(), namespace="kube-public", **theirs).allowed
    woken = {"spec": {"suspend": False}, "metadata": {"annotations": {"release.scavenger.dev/copy": None}}}
    counts = {"status": {"succeeded": 1, "failed": 2}}
    assert place.try_patch("jobs", "mine", annotated(release="requested"), **theirs).allowed
    assert place.try_patch("jobs", "again", woken, **theirs).allowed
    for name in ("copied", "again"):
        assert place.try_patch("jobs", name, counts, sub="status", **theirs).allowed
    refused = [
        ("mine", {"spec": {"suspend": True}}),
        ("mine", labelled("team", "a")),
        ("again", {"spec": {"parallelism": 3}}),
        ("again", labelled("team", "a")),
        ("copied", woken),
        ("regular", {"spec": {"suspend": True}}),
    ]
    for name, patch in refused:
        said = said_of(place.try_patch("jobs", name, patch, **theirs))
        assert "a release marks adopted Jobs" in said, (name, patch, said)
    for name, patch in (("regular", counts), ("again", {"status": {"active": 1}})):
        said = said_of(place.try_patch("jobs", name, patch, sub="status", **theirs))
        assert "what suspended Jobs have counted" in said, (name, patch, said)
    assert place.create(
        "pods", {"metadata": {"name": "p"}, **{"spec": pod_spec(nodeSelector={"nobody": "here"})}}
    ).allowed
    places = [
        ("jobs/mine", True),
        ("jobs/copied", True),
        ("jobs/again", False),
        ("jobs/regular", False),
        ("pods/p", False),
    ]
    for path, allowed in places:
        kind, name = path.split("/")
        answer = place.server("DELETE", place.path(kind, name) + "?dryRun=All", **theirs)
        assert answer.allowed == allowed, (path, answer)


def test_a_label_that_comes_later_is_answered_with_a_warning(existing: Places) -> None:
    for place in existing[1:]:
        answer = place.try_patch("jobs", "regular", labelled(names.LABEL_QUEUE, "default"), user=TENANT)
        assert answer.allowed, answer
        assert any("counts when a Job is created" in text for text in answer.warnings)
        assert not adopted(answer)
    answer = existing.plain.try_patch("jobs", "regular", labelled(names.LABEL_QUEUE, "default"), user=TENANT)
    assert "written by the admitter only" in said_of(answer)


def test_a_regular_job_stays_its_user_s(existing: Places) -> None:
    place = existing.labelled
    assert place.patch("jobs", "regular", labelled(names.LABEL_QUEUE, "default"), user=TENANT).allowed
    for patch in (
        {"spec": {"suspend": True, "backoffLimit": 9}},
        labelled(names.LABEL_QUEUE, None),
        labelled(names.LABEL_ADOPT, None),
        annotated(interruption_after="1h"),
    ):
        assert place.try_patch("jobs", "regular", patch, user=TENANT).allowed, patch


LEDGER: Final = {"type": names.CONDITION_LEDGER, "status": "False", "reason": "Running", "message": '{"v":1}'}


def test_a_ledger_is_written_by_the_admitter_only(existing: Places) -> None:
    """Not by whoever may write the status of Jobs, and not by way of a creation."""
    place, forged = existing.labelled, {"status": {"conditions": [LEDGER]}}
    for who in ({"user": TENANT}, {}, {"user": account("regulator"), "groups": (MASTERS,)}):
        answer = place.try_patch("jobs", "mine", forged, sub="status", **who)
        assert "the admitter alone writes the status" in said_of(answer)
    born = place.try_create("jobs", {**batch(labels=QUEUE), **forged}, user=TENANT)
    assert adopted(born)
    assert not born.body["status"].get("conditions")
    replaced = place.get("jobs", "mine") | {"status": forged["status"]}
    put = place.server("PUT", place.path("jobs", "mine") + "?dryRun=All", replaced, user=TENANT)
    assert put.allowed, put
    assert not put.body["status"].get("conditions")
    theirs: Object = {"user": ADMITTER, "groups": (MASTERS,)}
    assert place.try_patch("jobs", "mine", forged, sub="status", **theirs).allowed
    for meta in (labelled("a", "b"), annotated(run="1"), {"metadata": {"finalizers": ["a.b/c"]}}):
        assert not place.try_patch("jobs", "mine", {**forged, **meta}, sub="status", **theirs).allowed
    assert not place.try_patch("jobs", "regular", forged, sub="status", **theirs).allowed
    assert place.try_patch("jobs", "regular", forged, sub="status", user=TENANT).allowed


# --- pods ---

SUFFIX: Final = "-x01zz"


def of_job(name: str = f"mine{SUFFIX}", of: str = "mine", meta: Object | None = None, **spec: Any) -> Object:
    """The pod of an adopted Job, as the admitter creates it."""
    labels = {
        names.LABEL_JOB: of,
        names.LABEL_TASK: "0",
        names.LABEL_KIND: names.KIND_JOB,
        names.LABEL_QUEUE: "default",
        names.LABEL_PREEMPTION_CLASS: names.PREEMPTIBLE,
        **dict.fromkeys(names.JOB_LABELS, of),
    }
    by = {"apiVersion": "batch/v1", "kind": "Job", "name": of, "uid": "1-2", "controller": True}
    whole = {"name": name, "labels": labels, "ownerReferences": [by], "finalizers": [names.FINALIZER], **(meta or {})}
    klass = {"priorityClassName": names.PRIORITY_CLASS_PREEMPTIBLE, "restartPolicy": "OnFailure"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": whole, "spec": {**pod_spec(), **klass, **spec}}


MAIN: Final = {"name": "main", "image": "none"}
SHAPES: Final[dict[str, Object]] = {
    "as it is": {},
    "root": {"securityContext": {"runAsUser": 0}},
    "privileged": {"containers": [{**MAIN, "securityContext": {"privileged": True}}]},
    "a folder of the node": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    "the node's network": {"hostNetwork": True},
    "an account": {"serviceAccountName": "default", "automountServiceAccountToken": True},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_pods_are_as_their_users_wrote_them_where_jobs_are_adopted(existing: Places, shape: str) -> None:
    who: Object = {"user": ADMITTER, "groups": (MASTERS,)}
    body = of_job(**SHAPES[shape])
    for place in existing[1:]:
        answer = place.try_create("pods", body, **who)
        assert answer.allowed, answer
        assert not place.try_create("pods", body, user=TENANT).allowed
        plain = of_job(**SHAPES[shape])
        del plain["metadata"]["labels"][names.LABEL_KIND]
        assert not place.try_create("pods", plain, **who).allowed
    refused = existing.plain.try_create("pods", body, **who)
    assert "for Jobs only, in namespaces" in said_of(refused)


def test_pod_security_of_the_namespace_binds_all_the_same(existing: Places) -> None:
    place, level = existing.all, {"metadata": {"labels": {names.LABEL_POD_SECURITY_ENFORCE: "baseline"}}}
    path = f"/api/v1/namespaces/{place.namespace}"
    who: Object = {"user": ADMITTER, "groups": (MASTERS,)}
    assert place.server("PATCH", path, level, content_type=MERGE).allowed
    bad = of_job(**SHAPES["privileged"])
    place.wait("it is enforced", lambda: not place.try_create("pods", bad, **who).allowed)
    assert "violates PodSecurity" in said_of(place.try_create("pods", bad, **who))
    assert place.try_create("pods", of_job(**SHAPES["root"]), **who).allowed
    level["metadata"]["labels"][names.LABEL_POD_SECURITY_ENFORCE] = None  # type: ignore[assignment]
    assert place.server("PATCH", path, level, content_type=MERGE).allowed


LONG: Final = "a" * 63
POD_NAMES: Final = [
    ("mine-x01zz", "mine", "", True),
    ("mine-7-x01zz", "mine", "7", True),
    ("mine-8-x01zz", "mine", "7", False),
    ("mine-7-xbcd", "mine", "7", True),
    ("mine-x01", "mine", "", False),
    ("mine-w01zz", "mine", "", False),
    ("min-x01zz", "mine", "", False),
    ("coredns-x01zz", "mine", "", False),
    (f"{'a' * 57}-x01zz", LONG, "", True),
    (f"{'a' * 56}-x01zz", LONG, "", False),
    (f"{'a' * 55}-1-x01zz", "a" * 55, "12", True),
    (f"{'a' * 55}-2-x01zz", "a" * 55, "12", False),
    (f"{'a' * 57}-x01zz", LONG, "12", True),
    (f"{'b' * 57}-x01zz", LONG, "12", False),
]


@pytest.mark.parametrize(("name", "of", "index", "allowed"), POD_NAMES)
def test_pods_are_called_after_their_job(places: Places, name: str, of: str, index: str, *, allowed: bool) -> None:
    body = of_job(name, of)
    if index:
        body["metadata"]["labels"][names.LABEL_TASK] = index
    answer = places.labelled.try_create("pods", body, user=ADMITTER, groups=(MASTERS,))
    assert answer.allowed == allowed, answer


@pytest.mark.parametrize(
    "body",
    [
        of_job(meta={"ownerReferences": []}),
        of_job(meta={"finalizers": []}),
        of_job(priorityClassName="ordinary-workload"),
        of_job(nodeName="n"),
        of_job(resourceClaims=[{"name": "a", "resourceClaimName": "b"}]),
    ],
    ids=["no owner", "no finalizer", "another class", "a node", "a device"],
)
def test_what_the_admitter_adds_is_never_missing(places: Places, body: Object) -> None:
    assert not places.labelled.try_create("pods", body, user=ADMITTER, groups=(MASTERS,)).allowed


@pytest.fixture(scope="module")
def running(existing: Places) -> Iterator[Place]:
    """A served namespace with the pod of an adopted Job, and one that has lost its owner."""
    place: Place = existing.labelled
    who: Object = {"user": ADMITTER, "groups": (MASTERS,)}
    (uid,) = [one["metadata"]["uid"] for one in place.items("jobs") if one["metadata"]["name"] == "mine"]
    bodies = [of_job(), of_job(f"orphan{SUFFIX}", "orphan")]
    for body in bodies:
        body["metadata"]["ownerReferences"][0]["uid"] = uid
        body["metadata"]["ownerReferences"][0]["name"] = body["metadata"]["labels"][names.LABEL_JOB]
    assert place.create("pods", bodies[0], **who).allowed
    stack_gc = "system:serviceaccount:kube-system:generic-garbage-collector"
    made = place.create("pods", bodies[1], **who)
    assert made.allowed or made.code == 409, made
    taken = place.patch(
        "pods", f"orphan{SUFFIX}", {"metadata": {"ownerReferences": None}}, user=stack_gc, groups=(MASTERS,)
    )
    assert taken.allowed, taken
    yield place
    for name in (f"mine{SUFFIX}", f"orphan{SUFFIX}"):
        place.patch("pods", name, {"metadata": {"finalizers": None}})


def off(*keys: str, **more: Any) -> Object:
    """A patch that takes labels off."""
    return {"metadata": {"labels": dict.fromkeys(keys), **more}}


def test_an_interrupted_pod_loses_the_labels_of_its_job(running: Place) -> None:
    theirs: Object = {"user": ADMITTER, "groups": (MASTERS,)}
    name = f"mine{SUFFIX}"
    assert running.try_patch("pods", name, off(*names.JOB_LABELS), **theirs).allowed
    assert running.try_patch("pods", name, off("job-name"), **theirs).allowed
    for patch in (
        off(names.LABEL_JOB),
        off(names.LABEL_KIND),
        off(names.LABEL_PREEMPTION_CLASS),
        off(*names.JOB_LABELS, names.LABEL_TASK),
        {"metadata": {"labels": {"job-name": "other"}}},
        {"metadata": {"labels": {"team": "a"}}},
        {"metadata": {"labels": {names.LABEL_JOB: "other"}}},
        {"metadata": {"ownerReferences": None}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        assert not running.try_patch("pods", name, patch, **theirs).allowed, patch
    for service in ("prioritizer", "regulator"):
        who: Object = {"user": account(service), "groups": (MASTERS,)}
        assert not running.try_patch("pods", name, off("job-name"), **who).allowed


def test_the_admitter_lets_go_of_a_pod_without_an_owner(running: Place) -> None:
    theirs: Object = {"user": ADMITTER, "groups": (MASTERS,)}
    name = f"orphan{SUFFIX}"
    keys = (names.LABEL_JOB, names.LABEL_TASK, names.LABEL_KIND, names.LABEL_QUEUE, names.LABEL_PREEMPTION_CLASS)
    assert running.try_patch("pods", name, off(*keys, finalizers=None), **theirs).allowed
    assert running.try_patch("pods", name, off(*keys, *names.JOB_LABELS, finalizers=None), **theirs).allowed
    assert not running.try_patch("pods", name, off(*keys[1:]), **theirs).allowed, "some stay"
    assert not running.try_patch("pods", f"mine{SUFFIX}", off(*keys), **theirs).allowed, "it has an owner"
    assert not running.try_patch("pods", name, off(*keys), user=TENANT).allowed
    freed = {"metadata": {"labels": {**dict.fromkeys(keys), "team": "a"}}}
    assert not running.try_patch("pods", name, freed, **theirs).allowed


def test_a_tenant_gets_no_mark_onto_a_pod(running: Place) -> None:
    """Neither at its creation, nor later, nor by way of its status or of an ephemeral container."""
    name = f"mine{SUFFIX}"
    mine = {"metadata": {"name": "own", "labels": {"team": "a"}}, "spec": pod_spec()}
    assert running.create("pods", mine, user=TENANT).allowed
    for key, value in of_job()["metadata"]["labels"].items():
        if key in names.JOB_LABELS:
            continue
        patch = {"metadata": {"labels": {key: value}}}
        assert not running.try_patch("pods", "own", patch, user=TENANT).allowed, key
        assert not running.try_create(
            "pods", {**mine, **patch, "metadata": {"name": "p", **patch["metadata"]}}, user=TENANT
        ).allowed
        assert not running.try_patch("pods", name, labelled(key, "forged"), sub="status", user=TENANT).allowed
    container = {"name": "e", "image": "none", "targetContainerName": "main"}
    debugged: Object = {
        "metadata": {"labels": {names.LABEL_QUEUE: "other"}},
        "spec": {"ephemeralContainers": [container]},
    }
    strategic = "application/strategic-merge-patch+json"
    answer = running.try_patch("pods", name, debugged, sub="ephemeralcontainers", user=TENANT, content_type=strategic)
    assert answer.allowed, answer
    assert answer.body["metadata"]["labels"][names.LABEL_QUEUE] == "default"
    running.delete("pods", "own")


# --- expressions ---


def test_policies_have_no_type_errors(places: Places) -> None:
    """The API server checks the types of what it has compiled. A mutating policy that cannot be compiled is refused."""
    place = places.plain
    refusing = ("jobs", "job-pods", "ordinary-pods", "cron-jobs", "job-statuses", "adopted-jobs", "adopted-cron-jobs")
    ours = {*(f"scavenger-guard-{name}" for name in refusing), "scavenger-adopted-later", "scavenger-not-adopted"}

    def checked() -> list[Object]:
        found = [one for one in place.items("validatingadmissionpolicies") if one["metadata"]["name"] in ours]
        return found if all("typeChecking" in one.get("status", {}) for one in found) else []

    place.wait("the policies to be checked", checked)
    found = {one["metadata"]["name"]: one["status"]["typeChecking"] for one in checked()}
    assert set(found) == ours
    assert {name: told for name, told in found.items() if told} == {}
