"""What the user asks of `up`, and what becomes of it together with what was asked before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scavenger_cluster import network, ports, requirements
from scavenger_cluster.control_plane import full_name
from scavenger_cluster.errors import ClusterError, MissingRequirementError
from scavenger_cluster.layout import Layout
from scavenger_cluster.plan import (
    DEFAULT_PORT_BASE,
    PORTS_PER_CLUSTER,
    SLOTS,
    NodePlan,
    Subnets,
    is_auto,
    parse_nodes,
    ports_from,
)
from scavenger_cluster.scheduler import check_scheduler
from scavenger_cluster.state import ANY_ADDRESS, LOOPBACK, ClusterState, Registry, load_state


@dataclasses.dataclass(frozen=True)
class UpOptions:
    """The options of `up`; None means: as before, or the default the first time.

    `scheduler` is `plugin` (default) or `stock`; `scheduler_args` are the plugin's own, such as nonPreemptibleWait.
    """

    nodes: str | None = None
    fake_cpu: str | None = None
    fake_memory: str | None = None
    fake_pods: int | None = None
    fake_taint: bool | None = None
    port_base: int | None = None
    bind_address: str | None = None
    ipv6: bool | None = None
    scheduler: str | None = None
    scheduler_args: Mapping[str, Any] | None = None
    metrics: bool | None = None
    dns: bool | None = None
    install: bool = True
    arguments: Mapping[str, Sequence[str]] | None = None


def choose_nodes(options: UpOptions, before: ClusterState | None, report: Callable[[str], None]) -> NodePlan:
    """Decide on the nodes, installing what real ones need; `auto` falls back to fake ones with a warning."""
    text = options.nodes
    if text is None:
        if before is not None:
            return before.nodes
        text = "auto"
    obstacles = requirements.obstacles()
    plan = parse_nodes(text, real_possible=not obstacles)
    try:
        if plan.real and obstacles:
            raise MissingRequirementError(f"real nodes are impossible here: {', '.join(obstacles)}")
        if plan.real:
            packages = requirements.missing_node_packages()
            requirements.install(packages, report, allowed=options.install)
    except MissingRequirementError as error:
        if not is_auto(text):
            raise
        obstacles = [str(error)]
        plan = parse_nodes(text, real_possible=False)
    if is_auto(text) and obstacles:
        report(
            f"warning: fake nodes only ({'; '.join(obstacles)}): API, scheduler and controllers are real, "
            "but no container runs; for real nodes run as root with containerd, runc and CNI plugins"
        )
    return plan


def decide(name: str, options: UpOptions, plan: NodePlan, layout: Layout, registry: Registry) -> ClusterState:
    """Return the state `up` has to bring about: what was decided before, with what the options change."""
    state = load_state(layout.state) or _new_state(name, options.port_base, registry)
    _choose_family(state, options.ipv6, plan, new=not layout.state.exists())
    state.real, state.fake = plan.real, plan.fake
    if options.port_base is not None:
        state.ports = ports_from(options.port_base)
    for field in ("fake_cpu", "fake_memory", "fake_pods", "scheduler", "scheduler_args", "metrics", "dns"):
        value = getattr(options, field)
        if value is not None:
            setattr(state, field, value)
    check_scheduler(state.scheduler)
    state.fake_taint = plan.real > 0 if options.fake_taint is None else options.fake_taint
    if state.metrics and not plan.real:
        raise ClusterError("--metrics needs a real node: fake ones have nothing to measure")
    if options.arguments is not None:
        state.arguments = {full_name(key): list(words) for key, words in options.arguments.items()}
    state.bind_address = _bind_address(options.bind_address, state)
    return state


def _choose_family(state: ClusterState, asked: bool | None, plan: NodePlan, *, new: bool) -> None:
    """Keep to IPv6, or to IPv4. Raises ClusterError where that cannot be."""
    if asked is not None and asked != state.ipv6 and not new:
        raise ClusterError("--ipv6: a cluster keeps its addresses; take it down first")
    state.ipv6 = state.ipv6 if asked is None else asked
    if state.ipv6 and (plan.fake or not plan.real):
        raise ClusterError("--ipv6: real nodes only; fake ones have addresses of IPv4")


def _bind_address(asked: str | None, state: ClusterState) -> str:
    """Choose where the API server listens: loopback, or where real nodes can reach it."""
    own = state.subnets.host if state.real else LOOPBACK
    if asked is None:
        return ANY_ADDRESS if state.bind_address == ANY_ADDRESS else own
    possible = (own,) if state.ipv6 else (ANY_ADDRESS, own)
    if state.real and asked not in possible:
        raise ClusterError(f"--bind-address {asked}: with real nodes it has to be {' or '.join(possible)}")
    return asked


def _new_state(name: str, port_base: int | None, registry: Registry) -> ClusterState:
    """Choose the first slot whose addresses and (unless they are given) ports nobody uses."""
    for slot in registry.free_slots(name, network.busy_slots(name, range(SLOTS))):
        base = DEFAULT_PORT_BASE + slot * PORTS_PER_CLUSTER if port_base is None else port_base
        numbers = ports_from(base)
        if port_base is not None or all(ports.is_free(ANY_ADDRESS, port) for port in numbers.values()):
            return ClusterState(name=name, slot=slot, ports=numbers, bind_address=LOOPBACK)
    networks = f"{Subnets(0).nodes} to {Subnets(SLOTS - 1).nodes}"
    raise ClusterError(f"no room for another cluster: all address ranges ({networks}) or ports are in use")


def data_dir_of(name: str, given: Path | None, registry: Registry, default: Path) -> Path:
    """Return a cluster's data folder: the one given, else where the cluster already is, else the default.

    Links are followed, so that there is one way to write it.
    """
    known = registry.data_dir(name)
    if given is not None and known is not None and known.resolve() != given.resolve():
        raise ClusterError(
            f"a cluster named {name} already exists in {known}; choose another --name than that one's, "
            f"or leave out --data-dir {given}"
        )
    return (given or known or default).resolve()
