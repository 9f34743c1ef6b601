"""The configuration files of a real node: pure functions from the state to text."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from scavenger_cluster.layout import Layout
from scavenger_cluster.state import ANY_ADDRESS, ClusterState

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "localhost/scavenger/pause:1"

# The node's own /run, /var/lib and /var/log, and the values the kubelet wants to see in /proc/sys, all in a
# mount namespace that vanishes with the node's last process. The data folder is put back in case one of them
# hides it. What grows or must be kept is on disk, at the usual places: paths of sockets may not be long.
HOLDER_SCRIPT = """
set -e
data=$1; node=$2; ready=$3; group=$4
mount --make-rprivate /
exec 9<"$data"

# Of the control groups only the node's own are to be seen: they become the root of every hierarchy.
cgroups=/sys/fs/cgroup
if [ -e "$cgroups/cgroup.controllers" ]; then
  mkdir -p "$cgroups$group/system"
  echo 0 > "$cgroups$group/system/cgroup.procs"  # a group with processes cannot hand controllers down
  mount --bind "$cgroups$group" /mnt
else
  mount -t tmpfs -o mode=755 scavenger /mnt
  for hierarchy in "$cgroups"/*; do
    seen=/mnt/${hierarchy##*/}
    if [ -L "$hierarchy" ]; then
      cp -P "$hierarchy" "$seen"
    elif [ -d "$hierarchy" ]; then
      mkdir "$seen"
      mount --bind "$hierarchy$group" "$seen"
    fi
  done
fi
umount --recursive --lazy "$cgroups"
mount --rbind /mnt "$cgroups"
umount --recursive --lazy /mnt

for folder in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 scavenger "$folder"; done
mkdir -p "$data"
mount --no-canonicalize --bind /proc/self/fd/9 "$data"
exec 9<&-
mkdir -p /run/netns /run/lock /run/sysctl /var/lib/cni
for folder in lib/kubelet lib/containerd log; do
  mkdir -p "$node/$folder" "/var/$folder"
  mount --bind "$node/$folder" "/var/$folder"
done
mkdir -p /var/log/pods /var/log/containers
set_seen() {
  [ -e "/proc/sys/$1" ] || return 0
  file=/run/sysctl/$(echo "$1" | tr / .)
  echo "$2" > "$file"
  mount --bind "$file" "/proc/sys/$1"
}
set_seen vm/overcommit_memory 1
set_seen vm/panic_on_oom 0
set_seen kernel/panic 10
set_seen kernel/panic_on_oops 1
set_seen kernel/keys/root_maxkeys 1000000
set_seen kernel/keys/root_maxbytes 25000000
mount --make-rshared /
touch "$ready"
exec sleep infinity
"""

KEPT_FREE: Final = 100
"""MiB of memory that the kubelet offers to nobody: with less left it evicts."""


def containerd_config(*, cni_config: str, cni_plugins: str, registries: str, restrict_oom: bool) -> str:
    """Return containerd's configuration.

    Args:
        cni_config: folder with the configuration of the pod network.
        cni_plugins: folder with the programs of the pod network.
        registries: folder with a `hosts.toml` for each registry; containerd reads it at each pull.
        restrict_oom: without CAP_SYS_RESOURCE nobody may lower an OOM score, and runc would fail on trying.
    """
    configuration, plugins = json.dumps(cni_config), json.dumps(cni_plugins)
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "/run/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = {str(restrict_oom).lower()}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {plugins}
    conf_dir = {configuration}
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {json.dumps(registries)}
"""


def registry_hosts(address: str) -> str:
    """Return the `hosts.toml` of a registry whose images containerd pulls from HOST:PORT instead, without TLS."""
    return f"""server = "http://{address}"

[host."http://{address}"]
  capabilities = ["pull", "resolve"]
"""


def cni_config(pods: str) -> str:
    """Return the pod network: all pods are routed, none bridged, so kube-proxy works without br_netfilter."""
    plugins: list[dict[str, Any]] = [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": "/var/lib/cni/networks",
                "ranges": [[{"subnet": pods}]],
                "routes": [{"dst": "::/0" if ":" in pods else "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "scavenger", "plugins": plugins}, indent=2)


def kubelet_config(state: ClusterState, layout: Layout, node: str) -> str:
    """Return the kubelet's configuration. Images are never collected: they cannot be pulled again."""
    certificate = layout.pki / f"kubelet-{node}"
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "::" if state.ipv6 else ANY_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{certificate}.crt",
        "tlsPrivateKeyFile": f"{certificate}.key",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",  # of the node's own cgroup namespace
        "failCgroupV1": False,
        "failSwapOn": False,
        "protectKernelDefaults": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [state.subnets.dns_service] if state.has_dns else [],
        "resolvConf": "",
        "hairpinMode": "none",
        "maxPods": 110,
        "podLogsDir": "/var/log/pods",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": f"{KEPT_FREE}Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "makeIPTablesUtilChains": False,
        "registerNode": True,
        "serializeImagePulls": False,
        "staticPodPath": "",
    }
    return yaml.safe_dump(config, sort_keys=False)


def kube_proxy_config(state: ClusterState, layout: Layout, node: str) -> str:
    """Return kube-proxy's configuration; conntrack limits cannot be set in a network namespace."""
    config: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node,
        "clusterCIDR": state.subnets.pods,
        "detectLocalMode": "ClusterCIDR",
        "clientConnection": {"kubeconfig": str(layout.component_kubeconfig("kube-proxy"))},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
            "udpTimeout": "0s",
            "udpStreamTimeout": "0s",
        },
    }
    return yaml.safe_dump(config, sort_keys=False)
