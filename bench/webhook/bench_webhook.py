"""What the webhook costs: the time of a review at a steady rate, and what creating pods takes with it and without.

The review: the service as a process over TLS, on an API server in memory, at 200 pods a second from an open loop: a
late answer does not hold back the next request, and its time counts from when it should have been sent. The pods: on a
real API server, in blocks that take turns between a namespace with all of ours and one without, so that both meet the
same machine, and beside both one with the guard of scavenger-base alone (`..._over_guard`). First as shipped
(`pod_create_ratio`): the chart finds a default class and nobody who could make a low one, so of ours only the guard
looks at pods. Then what clusters without that have, each with the guard: pods that the webhook would be sent, had they
a low class or none (`..._webhook`), or that a policy would rank (`..._policy`); and then without a default class, where
every pod is sent or ranked (`..._webhook_reviewed`, `..._policy_reviewed`). Last what no policy can cost less than
(`..._least_policy`): none of ours, and one whose only condition is `false`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
from scavenger_api import names
from scavenger_cluster import Cluster, ports, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_testing.certificates import new_authority
from scavenger_testing.fake_api import FakeApi
from scavenger_testing.hostile_bodies import corpus, subject
from scavenger_testing.processes import cpu_seconds, resident_kb
from scavenger_webhook.app import MUTATE_PODS, SUBJECTS
from scavenger_webhook.authority_keeper import AUTHORITY_SECRET
from scavenger_webhook.facts import PRIORITYCLASSES, SECRETS

from bench import Skipped

Figure = dict[str, Any]

RATE: Final = 200
"""Reviews a second."""

SECONDS: Final = 20
HOSTILE_SECONDS: Final = 30
"""Honest reviews beside the hostile ones."""

TURNS: Final = 3
"""So often each hostile body is sent."""

HEADERS: Final = {"Content-Type": "application/json"}
PODS: Final = 2000
"""Created in each namespace."""

BLOCK: Final = 25
"""Small, so that all namespaces meet the same machine: what else it does changes within a second."""

AT_ONCE: Final = 16
NAMESPACE: Final = "scavenger-system"
ALL: Final = "with"
GUARD: Final = "guarded"
NOTHING: Final = "without"
"""What of ours looks at the pods of a namespace; of the guard, that of scavenger-base."""

GOALS: Final = {"": "<= 1.15", "_policy": "<= 1.05", "_policy_over_guard": "<= 1.05"}
"""Of pod_create_ratio: as shipped, with the policy, and of the policy by itself, as the guard is there in any case."""

ORDINARY: Final = names.PRIORITY_CLASS_ORDINARY
NO_CLASS: Final = ""

LEAST: Final = "bench-least"
"""A policy that never applies."""


def _pod(name: str) -> dict[str, Any]:
    """A pod of the size that they have: two containers, volumes, probes, variables."""
    container = {
        "name": "main",
        "image": "registry.example.com/team/app:1.2",
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(20)],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
        "volumeMounts": [{"name": f"v{n}", "mountPath": f"/data/{n}"} for n in range(4)],
    }
    volumes = [{"name": f"v{n}", "emptyDir": {}} for n in range(4)]
    # Of no scheduler: what is measured is the API server.
    spec = {"containers": [container, {**container, "name": "side"}], "volumes": volumes, "schedulerName": "nobody"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec}


def _review(number: int) -> bytes:
    pod = _pod(f"p{number}")
    pod["spec"]["priority"] = 0
    request = {
        "uid": f"uid-{number}",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "researcher"},
        "object": pod,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


# --- one review ---


@dataclass(frozen=True)
class Running:
    """The service as a process of its own: its pid, where it answers, and the authority of its certificate."""

    pid: int
    url: str
    authority: str


@asynccontextmanager
async def _service() -> AsyncIterator[Running]:
    async with FakeApi() as api:
        authority = new_authority(datetime.now(UTC))
        pair = {"ca.crt": authority.certificate, "ca.key": authority.key}
        data = {name: base64.b64encode(value).decode() for name, value in pair.items()}
        api.put(SECRETS, {"metadata": {"name": AUTHORITY_SECRET, "namespace": NAMESPACE}, "data": data})
        api.put(PRIORITYCLASSES, {"metadata": {"name": ORDINARY}, "value": 0})
        with tempfile.TemporaryDirectory() as folder:
            config = api.write_kubeconfig(Path(folder))
            port, health = ports.any_free_port(), ports.any_free_port()
            flags = [f"--kubeconfig={config}", f"--port={port}", f"--health-port={health}", "--tls-names=127.0.0.1"]
            flags += ["--address=127.0.0.1", "--log-level=warning", "--shutdown-delay=0"]
            process = await asyncio.create_subprocess_exec(sys.executable, "-m", "scavenger_webhook", *flags)
            try:
                await _ready(f"http://127.0.0.1:{health}/readyz")
                yield Running(process.pid, f"https://127.0.0.1:{port}", authority.certificate.decode())
            finally:
                process.terminate()
                await process.wait()


async def _reviews(seconds: int) -> list[Figure]:
    async with _service() as service:
        before = cpu_seconds(service.pid)
        times = await _load(service, seconds)
        rss, after = resident_kb(service.pid) / 1000, cpu_seconds(service.pid)
    cuts = statistics.quantiles(times, n=100)
    return [
        _figure("webhook.review.p99_ms", cuts[98] * 1000, "ms", "<= 10"),
        _figure("webhook.review.p50_ms", cuts[49] * 1000, "ms"),
        _figure("webhook.review.rss_mb", rss, "MB"),
        _figure("webhook.review.cpu_ms", (after - before) * 1000 / len(times), "ms"),
    ]


async def _load(service: Running, seconds: int) -> list[float]:
    """Times from when each request was due to its whole answer."""
    url = service.url + MUTATE_PODS
    bodies = [_review(number) for number in range(50)]
    times: list[float] = []
    context = ssl.create_default_context(cadata=service.authority)
    async with aiohttp.ClientSession(headers=HEADERS) as session:

        async def one(number: int, due: float) -> None:
            async with session.post(url, data=bodies[number % len(bodies)], ssl=context) as answer:
                body = await answer.read()
                assert answer.status == 200, body
            times.append(time.perf_counter() - due)

        await asyncio.gather(*(one(n, time.perf_counter()) for n in range(20)))  # connections, and warm caches
        times.clear()
        began = time.perf_counter()
        tasks = []
        for number in range(RATE * seconds):
            due = began + number / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(one(number, due)))
        await asyncio.gather(*tasks)
    return times


# --- bodies of somebody who means harm ---


async def _hostile() -> list[Figure]:
    """What the worst of many hostile bodies costs the service in time, all together in memory, and honest reviews
    meanwhile in time."""
    bodies = list(corpus())
    async with _service() as service:
        await _load(service, 2)
        before = resident_kb(service.pid)
        honest = asyncio.create_task(_load(service, HOSTILE_SECONDS))
        # In a thread: what making and sending them takes is not to be in the time of the others.
        seconds, what = await asyncio.to_thread(asyncio.run, _send(service, bodies))
        times = await honest
        grown = resident_kb(service.pid) - before
    return [
        _figure(f"webhook.hostile_body.seconds ({what})", seconds, "s", "<= 0.1"),
        _figure("webhook.hostile_body.rss_mb_growth", grown / 1000, "MB", "<= 20"),
        _figure("webhook.hostile_body.honest_p99_ms", statistics.quantiles(times, n=100)[98] * 1000, "ms", "<= 50"),
    ]


async def _send(service: Running, bodies: list[tuple[str, bytes]]) -> tuple[float, str]:
    """One after the other, in turns; the longest time to an answer, and to what. Of each body the shortest of its times
    counts: what else the machine does makes one longer. CPU time of the service would be less of an answer: its clock
    ticks every 10 ms, and others are served."""
    paths = {kind: path for path, kind in SUBJECTS.items()}
    shortest: dict[tuple[str, int], float] = {}
    context = ssl.create_default_context(cadata=service.authority)
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        for number, (what, body) in [*enumerate(bodies)] * TURNS:
            began = time.perf_counter()
            with suppress(aiohttp.ClientError):  # an answer before the whole body was read
                async with session.post(service.url + paths[subject(what)], data=body, ssl=context) as answer:
                    await answer.read()
                    assert answer.status in (200, 400, 413), (what, answer.status)
            seconds = time.perf_counter() - began
            shortest[what, number] = min(seconds, shortest.get((what, number), seconds))
    return max((seconds, what) for (what, _), seconds in shortest.items())


async def _ready(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(600):
            with suppress(aiohttp.ClientError):
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
    raise RuntimeError("the webhook did not become ready within a minute")


# --- many pods ---


def _pods(count: int) -> list[Figure]:
    cluster = Cluster("bench-webhook", report=lambda line: None)
    try:
        try:
            cluster.up("none")
        except Exception as error:
            raise Skipped(f"no cluster here: {error}") from error
        stack.install(cluster)
        stack.start(cluster, ["webhook"], {"SCAVENGER_LOG_LEVEL": "warning"})
        for namespace in (ALL, GUARD, NOTHING):
            cluster.kubectl("create", "namespace", namespace)
        if (way := stack.ranks_pods(cluster)) != "class":
            raise RuntimeError(f"as shipped, pods are ranked by {way} here, which is not what was to be measured")
        stack.rank_by_class(cluster)
        took = {"": _in_turns(cluster, count, "shipped")}
        took |= _looked_at(cluster, count, "webhook", stack.rank_by_webhook)
        memory = resident_kb(cluster.service("webhook").pid) / 1000
        took |= _looked_at(cluster, count, "policy", stack.rank_by_policy)
        _least_policy(cluster)
        took["_least_policy"] = _in_turns(cluster, count, "least")
    finally:
        cluster.down()
    figures = [figure for suffix, blocks in took.items() for figure in _compared(blocks, suffix, count)]
    return [*figures, _figure("webhook.pod_create_rss_mb", memory, "MB")]


Took = dict[str, list[tuple[float, float]]]
"""By namespace, seconds and CPU seconds of each block."""


def _looked_at(cluster: Cluster, count: int, way: str, rank: Callable[[Cluster], None]) -> dict[str, Took]:
    """Each pod is looked at: with the default class, then without it."""
    rank(cluster)
    took = {f"_{way}": _in_turns(cluster, count, way)}
    _default_class(cluster, there=False)
    took[f"_{way}_reviewed"] = _in_turns(cluster, count, f"{way}-reviewed", unranked=NO_CLASS)
    _default_class(cluster, there=True)
    return took


def _least_policy(cluster: Cluster) -> None:
    """Instead of ours, a policy that looks at created pods and has nothing to say: what it costs is the look."""
    bindings = "validatingadmissionpolicybindings,mutatingadmissionpolicybindings"
    for kinds in (bindings, "mutatingwebhookconfigurations"):
        cluster.kubectl("delete", kinds, "--all")
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "never", "expression": "false"}],
        "validations": [{"expression": "true"}],
    }
    binding = {"policyName": LEAST, "validationActions": ["Deny"]}
    for kind, body in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        path = f"/apis/admissionregistration.k8s.io/v1/{_plural(kind)}/{LEAST}"
        meta = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": LEAST}}
        cluster.client.apply(path, {**meta, "spec": body})


def _plural(kind: str) -> str:
    return kind.lower().removesuffix("y") + "ies" if kind.endswith("y") else f"{kind.lower()}s"


def _default_class(cluster: Cluster, *, there: bool) -> None:
    patch = json.dumps({"globalDefault": there})
    cluster.kubectl("patch", "priorityclass", ORDINARY, "--type=merge", f"-p={patch}")


def _in_turns(cluster: Cluster, count: int, prefix: str, unranked: str = ORDINARY) -> Took:
    """unranked: the PriorityClass of a pod that nothing of ours ranks."""
    _spare(cluster, [GUARD, NOTHING], "app.kubernetes.io/component!=guard")
    _spare(cluster, [NOTHING], "app.kubernetes.io/component=guard")
    return asyncio.run(_take_turns(cluster, count, prefix, {ALL: ORDINARY, GUARD: unranked, NOTHING: unranked}))


def _compared(took: Took, suffix: str, count: int) -> list[Figure]:
    """What the blocks with all of ours cost over those without, and over those with the guard alone."""
    return [
        *_ratios(took, NOTHING, suffix),
        *_ratios(took, GUARD, f"{suffix}_over_guard"),
        _figure(f"webhook.pods_per_second{suffix}", count / sum(seconds for seconds, _ in took[ALL]), "1/s"),
    ]


def _ratios(took: Took, beside: str, suffix: str) -> list[Figure]:
    """Of the times the median of pairs counts: what else the machine does makes some longer. Of CPU time, whose clock
    ticks every 10 ms, the sum."""
    ratio = statistics.median(ours / theirs for (ours, _), (theirs, _) in zip(took[ALL], took[beside], strict=True))
    cpu = [sum(used for _, used in took[namespace]) for namespace in (ALL, beside)]
    return [
        _figure(f"webhook.pod_create_ratio{suffix}", ratio, "ratio", GOALS.get(suffix)),
        _figure(f"webhook.pod_create_cpu_ratio{suffix}", cpu[0] / cpu[1], "ratio"),
    ]


def _spare(cluster: Cluster, namespaces: list[str], selector: str) -> None:
    """Keep namespaces out of the webhook and the policies with such labels, as if they were not installed."""
    for name in _named(cluster, "mutatingwebhookconfigurations", selector):
        exclude = [
            {"op": "add", "path": "/webhooks/0/namespaceSelector/matchExpressions/0/values/-", "value": namespace}
            for namespace in namespaces
        ]
        cluster.kubectl("patch", name, "--type=json", f"-p={json.dumps(exclude)}")
    others = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": namespaces}]}
    patch = json.dumps({"spec": {"matchResources": {"namespaceSelector": others}}})
    for name in _named(cluster, "validatingadmissionpolicybindings,mutatingadmissionpolicybindings", selector):
        cluster.kubectl("patch", name, "--type=merge", f"-p={patch}")


def _named(cluster: Cluster, kinds: str, selector: str) -> list[str]:
    return cluster.kubectl("get", kinds, f"--selector={selector}", "-o", "name").split()


async def _take_turns(cluster: Cluster, count: int, prefix: str, expected: dict[str, str]) -> Took:
    """Seconds for `count` pods in each namespace, and CPU seconds of API server and webhook; block by block, whoever
    begins changing each time. expected: the PriorityClass that shows that each is treated as it is meant to be.
    """
    pids = [next(c.pid for c in cluster.status() if c.name == "kube-apiserver"), cluster.service("webhook").pid]

    def cpu() -> float:
        return sum(cpu_seconds(pid) for pid in pids if pid is not None)

    config = str(cluster.kubeconfig)
    async with await ApiClient.connect(kubeconfig=config, max_concurrency=AT_ONCE) as client:

        async def create(namespace: str, name: str) -> Any:
            body = await client.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=_pod(f"{prefix}-{name}"))
            return json.loads(body)["spec"].get("priorityClassName", NO_CLASS)

        await _until(create, expected)
        took: Took = {namespace: [] for namespace in expected}
        for block in range(0, count, BLOCK):
            turn = block // BLOCK % len(expected)
            for namespace in [*list(expected)[turn:], *list(expected)[:turn]]:
                began, used = time.perf_counter(), cpu()
                found = await asyncio.gather(*(create(namespace, f"p{block + n}") for n in range(BLOCK)))
                took[namespace].append((time.perf_counter() - began, cpu() - used))
                assert set(found) == {expected[namespace]}, "not what was to be compared"
    return took


async def _until(create: Callable[[str, str], Awaitable[str]], expected: dict[str, str]) -> None:
    """Until the service accounts are there, and the API server has seen classes and configurations."""
    for attempt in range(600):
        with suppress(ApiError):
            if {namespace: await create(namespace, f"t{attempt}") for namespace in expected} == expected:
                return
        await asyncio.sleep(0.1)
    raise RuntimeError("pods did not get the expected PriorityClass within a minute")


def _figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": goal}


def run(seconds: int = SECONDS, pods: int = PODS) -> list[Figure]:
    """The figures of this benchmark."""
    logging.disable(logging.CRITICAL)  # the fake server's complaints about clients that leave
    try:
        return [*asyncio.run(_reviews(seconds)), *asyncio.run(_hostile()), *_pods(pods)]
    finally:
        logging.disable(logging.NOTSET)
