"""The network of the real nodes.

Every node is a network namespace; a further one holds the bridge between them, so that no firewall rule of
the machine (Docker's, say) ever sees their traffic. The machine itself gets one interface, with an address in
the node network and a route to every node's pods. Deleting the namespaces takes everything with it, routes
included.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
from pathlib import Path

from scavenger_cluster.errors import CommandError
from scavenger_cluster.plan import Subnets, link_name, namespace
from scavenger_cluster.shell import run

SWITCH = "switch"
BRIDGE = "bridge"
NETNS_DIR = Path("/run/netns")


def ensure_network(cluster: str, subnets: Subnets) -> None:
    """Make the switch and the machine's own link to it; nothing changes where they are already there."""
    switch = namespace(cluster, SWITCH)
    link = link_name(cluster)
    if _make_namespace(switch):
        run(["ip", "-n", switch, "link", "add", BRIDGE, "type", "bridge"])
    run(["ip", "-n", switch, "link", "set", BRIDGE, "up"])
    if not Path(f"/sys/class/net/{link}").exists():
        run(["ip", "link", "add", link, "type", "veth", "peer", "name", "machine", "netns", switch])
        run(["ip", "link", "set", link, "alias", f"scavenger cluster {cluster}"])
    run(["ip", "-n", switch, "link", "set", "machine", "master", BRIDGE, "up"])
    run(["ip", "address", "replace", f"{subnets.host}{subnets.prefix}", "dev", link, *_at_once(subnets)])
    run(["ip", "link", "set", link, "up"])


def ensure_node_network(cluster: str, subnets: Subnets, number: int, count: int) -> None:
    """Make the namespace of real node `number` of `count`, with routes to the pods of all the others."""
    node = f"node{number}"
    own, switch = namespace(cluster, node), namespace(cluster, SWITCH)
    if _make_namespace(own):
        run(["ip", "-n", own, "link", "set", "lo", "up"])
    if not _has_link(own, "eth0"):
        run(["ip", "-n", own, "link", "add", "eth0", "type", "veth", "peer", "name", node, "netns", switch])
    run(["ip", "-n", switch, "link", "set", node, "master", BRIDGE, "up"])
    run(
        [
            "ip",
            "-n",
            own,
            "address",
            "replace",
            f"{subnets.node(number)}{subnets.prefix}",
            "dev",
            "eth0",
            *_at_once(subnets),
        ]
    )
    run(["ip", "-n", own, "link", "set", "eth0", "up"])
    _route(["-n", own], "default", subnets.host)
    forwarding = "ipv6/conf/all/forwarding" if subnets.ipv6 else "ipv4/ip_forward"
    run(["nsenter", f"--net={NETNS_DIR / own}", "sh", "-c", f"echo 1 > /proc/sys/net/{forwarding}"])
    for other in range(1, count + 1):
        if other != number:
            _route(["-n", own], subnets.node_pods(other), subnets.node(other))
    _route([], subnets.node_pods(number), subnets.node(number))
    if number == 1:
        # kube-proxy of the first node serves the machine too, so that ClusterIPs work from there.
        _route([], subnets.services, subnets.node(1))


def remove_node_network(cluster: str, subnets: Subnets, number: int) -> None:
    """Remove one node's namespace and the machine's route to its pods."""
    with contextlib.suppress(CommandError):
        run(["ip", *_family(subnets.pods), "route", "del", subnets.node_pods(number)])
    _remove_namespace(namespace(cluster, f"node{number}"))


def remove_network(cluster: str) -> None:
    """Remove every namespace, interface and route of a cluster; fine if there are none."""
    for name in namespaces(cluster):
        _remove_namespace(name)
    link = link_name(cluster)
    if Path(f"/sys/class/net/{link}").exists():
        with contextlib.suppress(CommandError):  # deleting the namespaces deletes it too, a little later
            run(["ip", "link", "del", link])
    if NETNS_DIR.is_dir() and not any(NETNS_DIR.iterdir()):
        # `ip netns add` mounts this folder and never unmounts it; it does so again when it has to.
        with contextlib.suppress(CommandError, OSError):
            if NETNS_DIR.is_mount():
                run(["umount", NETNS_DIR])
            NETNS_DIR.rmdir()


def namespaces(cluster: str, folder: Path = NETNS_DIR) -> list[str]:
    """List the network namespaces of a cluster."""
    prefix = namespace(cluster, "")
    parts = (SWITCH, *(f"node{number}" for number in range(1, 201)))
    names = {prefix + part for part in parts}
    return sorted(entry.name for entry in folder.iterdir() if entry.name in names) if folder.is_dir() else []


def busy_slots(cluster: str, slots: range) -> list[int]:
    """Return the slots whose addresses this machine already uses for something that is not this cluster."""
    try:
        routes = json.loads(run(["ip", "-json", "route", "show", "table", "all"]) or "[]")
    except CommandError:
        return []
    taken = networks(routes, ignore=link_name(cluster))
    return [slot for slot in slots if any(_overlaps(slot, network) for network in taken)]


def networks(routes: list[dict[str, str]], *, ignore: str) -> list[ipaddress.IPv4Network]:
    """Return the networks in `ip -json route`, except those of one interface and the default route."""
    found = []
    for route in routes:
        with contextlib.suppress(ValueError, KeyError):
            network = ipaddress.IPv4Network(route["dst"])
            if route.get("dev") != ignore and network.prefixlen > 8:
                found.append(network)
    return found


def _overlaps(slot: int, network: ipaddress.IPv4Network) -> bool:
    subnets = Subnets(slot)
    return any(network.overlaps(ipaddress.IPv4Network(own)) for own in (subnets.nodes, subnets.services, subnets.pods))


def _at_once(subnets: Subnets) -> list[str]:
    """Words for an address that may be used at once: otherwise the kernel looks for a second whether another has it."""
    return ["nodad"] if subnets.ipv6 else []


def _family(address: str) -> list[str]:
    return ["-6"] if ":" in address else []


def _route(where: list[str], network: str, via: str) -> None:
    run(["ip", *_family(via), *where, "route", "replace", network, "via", via])


def _make_namespace(name: str) -> bool:
    if (NETNS_DIR / name).exists():
        return False
    run(["ip", "netns", "add", name])
    return True


def _remove_namespace(name: str) -> None:
    with contextlib.suppress(CommandError):
        run(["ip", "netns", "del", name])


def _has_link(where: str, link: str) -> bool:
    return any(entry["ifname"] == link for entry in json.loads(run(["ip", "-n", where, "-json", "link"])))
