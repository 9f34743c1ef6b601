"""How the control plane's components are called: pure functions from the state to arguments."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from scavenger_cluster.layout import Layout
from scavenger_cluster.plan import in_url
from scavenger_cluster.process import Program, mark
from scavenger_cluster.scheduler import BURST, PLUGIN, PROGRAMS, QPS
from scavenger_cluster.state import LOOPBACK, ClusterState

API_SERVER = "kube-apiserver"
ETCD = "etcd"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
METRICS_SERVER = "metrics-server"
COREDNS = "coredns"
CONTROL_PLANE = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
COMPONENTS = (*CONTROL_PLANE, KWOK, METRICS_SERVER, COREDNS)
SHORT_NAMES = {
    "apiserver": API_SERVER,
    "kcm": CONTROLLER_MANAGER,
    "controller-manager": CONTROLLER_MANAGER,
    "scheduler": SCHEDULER,
}
GARBAGE_COLLECTION_PERCENT: Final = "400"
"""Go collects garbage when the heap has grown by so much. A small control plane lives on 50 MB, and by default a third
of the API server's CPU time under load goes into collecting it again and again; so it takes some 200 MB and less time.
"""
CLIENT_LIMITS = (f"--kube-api-qps={QPS}", f"--kube-api-burst={BURST}")


def full_name(component: str) -> str:
    """Return the full name for a short one: `apiserver`, `kcm`, `scheduler`."""
    return SHORT_NAMES.get(component, component)


@dataclasses.dataclass(frozen=True)
class Probe:
    """Where a component answers 200 when it is ready."""

    url: str
    authority: Path | None = None


def base_environment(state: ClusterState, layout: Layout, component: str) -> dict[str, str]:
    """Return the whole environment of a component: nothing of the caller's leaks in."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(layout.root),
        "LANG": "C.UTF-8",
        "GOGC": GARBAGE_COLLECTION_PERCENT,
        **mark(state.name, layout.root, component),
    }


def etcd_arguments(state: ClusterState, layout: Layout) -> list[str]:
    """Return the arguments of etcd: one member, TLS on loopback, no fsync (a power cut may lose data)."""
    client = f"https://{LOOPBACK}:{state.ports['etcd']}"
    peer = f"https://{LOOPBACK}:{state.ports['etcd-peer']}"
    certificate, key = layout.pki / "etcd.crt", layout.pki / "etcd.key"
    authority = layout.pki / "etcd-ca.crt"
    return [
        f"--name={state.name}",
        f"--data-dir={layout.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={state.name}={peer}",
        f"--cert-file={certificate}",
        f"--key-file={key}",
        "--client-cert-auth=true",
        f"--trusted-ca-file={authority}",
        f"--peer-cert-file={certificate}",
        f"--peer-key-file={key}",
        "--peer-client-cert-auth=true",
        f"--peer-trusted-ca-file={authority}",
        "--unsafe-no-fsync",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def api_server_arguments(state: ClusterState, layout: Layout) -> list[str]:
    """Return the arguments of kube-apiserver.

    Without real nodes there is nobody to reach it through its Service, so it stays on loopback, where the
    endpoint reconciler would refuse to publish it.
    """
    pki = layout.pki
    real = state.real > 0
    return [
        f"--bind-address={state.bind_address}",
        f"--secure-port={state.ports[API_SERVER]}",
        f"--advertise-address={state.subnets.host if real else LOOPBACK}",
        f"--endpoint-reconciler-type={'lease' if real else 'none'}",
        f"--etcd-servers=https://{LOOPBACK}:{state.ports['etcd']}",
        f"--etcd-cafile={pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={pki / 'kube-apiserver-etcd-client.crt'}",
        f"--etcd-keyfile={pki / 'kube-apiserver-etcd-client.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        f"--kubelet-client-certificate={pki / 'kube-apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kube-apiserver-kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--admission-control-config-file={layout.admission_configuration}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        "--enable-aggregator-routing=true",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--service-cluster-ip-range={state.subnets.services}",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def admission_configuration(clients: Path) -> str:
    """Return the file in which the API server finds the kubeconfig of its calls to webhooks.

    Whether a webhook asks for that certificate is its own decision.
    """
    webhooks = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(clients),
    }
    plugins = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": name, "configuration": webhooks} for name in plugins],
    }
    return json.dumps(configuration, indent=2)


def _manager_arguments(state: ClusterState, layout: Layout, name: str) -> list[str]:
    kubeconfig = layout.component_kubeconfig(name)
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--client-ca-file={layout.pki / 'ca.crt'}",
        f"--requestheader-client-ca-file={layout.pki / 'front-proxy-ca.crt'}",
        f"--tls-cert-file={layout.pki / f'{name}.crt'}",
        f"--tls-private-key-file={layout.pki / f'{name}.key'}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={state.ports[name]}",
        "--leader-elect=false",
        "--profiling=false",
        *CLIENT_LIMITS,
    ]


def controller_manager_arguments(state: ClusterState, layout: Layout) -> list[str]:
    """Return the arguments of kube-controller-manager; each controller acts under its own service account."""
    return [
        *_manager_arguments(state, layout, CONTROLLER_MANAGER),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={layout.pki / 'ca.crt'}",
        f"--cluster-signing-key-file={layout.pki / 'ca.key'}",
        "--allocate-node-cidrs=false",
        f"--cluster-name={state.name}",
    ]


def scheduler_arguments(state: ClusterState, layout: Layout) -> list[str]:
    """Return the arguments of kube-scheduler, with the plugin or without."""
    arguments = _manager_arguments(state, layout, SCHEDULER)
    return [*arguments, f"--config={layout.config / 'kube-scheduler.yaml'}"] if state.scheduler == PLUGIN else arguments


def kwok_arguments(state: ClusterState, layout: Layout) -> list[str]:
    """Return the arguments of kwok, which plays the kubelets of the fake nodes and of no others."""
    return [
        f"--kubeconfig={layout.component_kubeconfig(KWOK)}",
        f"--config={layout.config / 'kwok.yaml'}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--cidr={state.subnets.fake_pods}",
        f"--node-ip={LOOPBACK}",
        f"--node-port={state.ports[KWOK]}",
        f"--server-address={LOOPBACK}:{state.ports[KWOK]}",
        "--node-lease-duration-seconds=40",
        "--v=warn",
    ]


def metrics_server_arguments(state: ClusterState, layout: Layout) -> list[str]:
    """Return the arguments of metrics-server, which runs on the machine and asks real kubelets only."""
    kubeconfig = layout.component_kubeconfig(METRICS_SERVER)
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={state.subnets.host}",
        f"--secure-port={state.ports[METRICS_SERVER]}",
        f"--tls-cert-file={layout.pki / 'metrics-server.crt'}",
        f"--tls-private-key-file={layout.pki / 'metrics-server.key'}",
        f"--kubelet-certificate-authority={layout.pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=8s",
        "--node-selector=!kwok.x-k8s.io/node",
    ]


def coredns_arguments(state: ClusterState, layout: Layout) -> list[str]:
    """Return the arguments of CoreDNS, for which everything is in its configuration file."""
    return [f"-conf={layout.config / 'coredns.conf'}"]


_ARGUMENTS = {
    ETCD: etcd_arguments,
    API_SERVER: api_server_arguments,
    CONTROLLER_MANAGER: controller_manager_arguments,
    SCHEDULER: scheduler_arguments,
    KWOK: kwok_arguments,
    METRICS_SERVER: metrics_server_arguments,
    COREDNS: coredns_arguments,
}


def tool_of(component: str, state: ClusterState) -> str:
    """Return the name of the program that a component is; the scheduler is one of two."""
    return PROGRAMS[state.scheduler] if component == SCHEDULER else component


def program(name: str, state: ClusterState, layout: Layout, tools: Mapping[str, Path]) -> Program:
    """Return a component of the control plane, ready to be started, with the user's own arguments last."""
    extra: Sequence[str] = state.arguments.get(name, ())
    argv = (str(tools[tool_of(name, state)]), *_ARGUMENTS[name](state, layout), *extra)
    read = [*layout.config.glob(f"{name}.*"), layout.pki / f"{name}.crt"]
    inputs = tuple(sorted(path for path in read if path.exists()))
    return Program(name, argv, base_environment(state, layout, name), inputs=inputs)


def probe(name: str, state: ClusterState, layout: Layout) -> Probe:
    """Return where to ask a component whether it is ready."""
    authority = layout.pki / "ca.crt"
    port = state.ports[name]
    local = f"{LOOPBACK}:{port}"
    return {
        API_SERVER: Probe(f"{state.server}/readyz", authority),
        CONTROLLER_MANAGER: Probe(f"https://{local}/healthz", authority),
        SCHEDULER: Probe(f"https://{local}/readyz", authority),
        KWOK: Probe(f"http://{local}/healthz"),
        METRICS_SERVER: Probe(f"https://{in_url(state.subnets.host)}:{port}/readyz", authority),
        COREDNS: Probe(f"http://{LOOPBACK}:{state.ports['coredns-ready']}/ready"),
        ETCD: Probe(f"tcp://{local}"),
    }[name]
