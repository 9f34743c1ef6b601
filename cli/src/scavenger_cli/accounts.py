"""What of each node is reserved, really used, offered and taken again, and free. Pure.

Reserved but unused is what scavenging is about: a node can be full for all that request, and idle all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scavenger_api.names import LABEL_JOB, LEVELS_RESOURCES
from scavenger_api.quantity import amount, format_amount
from scavenger_api.reclaimed import RECLAIMED
from scavenger_domain.accounts import Account
from scavenger_kube.kinds import Node, Pod

from scavenger_cli.room import used_by_node


@dataclass(frozen=True, slots=True)
class NodeAccounts:
    """One node: an account per resource that has a level, its pods, and those of scavenger jobs among them."""

    name: str
    accounts: Mapping[str, Account]
    pods: int
    scavenger_pods: int


def node_accounts(
    nodes: Sequence[Node], pods: Sequence[Pod], measured: Mapping[str, Mapping[str, str]] | None
) -> list[NodeAccounts]:
    """The nodes, fullest first. measured: quantities by node and resource, as the metrics API has them.

    Raises QuantityError for what is not a quantity, which the API server lets no client write.
    """
    requested = used_by_node(pods)
    counts: dict[str, list[int]] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.ended:
            count = counts.setdefault(pod.spec.node_name, [0, 0])
            count[0] += 1
            count[1] += LABEL_JOB in pod.metadata.labels
    found = []
    for node in nodes:
        name = node.metadata.name
        accounts = {
            resource: _account(resource, node, requested.get(name, {}), (measured or {}).get(name, {}))
            for resource in LEVELS_RESOURCES
        }
        found.append(NodeAccounts(name, accounts, *counts.get(name, (0, 0))))
    return sorted(found, key=lambda one: (-one.accounts["cpu"].load, one.name))


def _account(resource: str, node: Node, requested: Mapping[str, int], measured: Mapping[str, str]) -> Account:
    extended, unit = RECLAIMED[resource]
    allocatable = node.status.allocatable
    return Account(
        allocatable=amount(resource, allocatable.get(resource, 0)),
        reserved=requested.get(resource, 0),
        used=amount(resource, measured[resource]) if resource in measured else None,
        offered=amount(extended, allocatable.get(extended, 0)) * unit,
        taken=requested.get(extended, 0) * unit,
    )


def accounts_data(nodes: Sequence[NodeAccounts]) -> list[dict[str, Any]]:
    """The same for programs: Kubernetes quantities, null for what is not measured."""
    return [
        {
            "name": node.name,
            "pods": node.pods,
            "scavengerPods": node.scavenger_pods,
            **{name: _data(name, account) for name, account in node.accounts.items()},
        }
        for node in nodes
    ]


def _data(resource: str, account: Account) -> dict[str, Any]:
    figures = {
        "allocatable": account.allocatable,
        "reserved": account.reserved,
        "used": account.used,
        "free": account.free,
    }
    spelled: dict[str, Any] = {
        name: None if value is None else format_amount(resource, value) for name, value in figures.items()
    }
    offer = {"offered": account.offered, "taken": account.taken}
    spelled["reclaimed"] = {name: format_amount(resource, value) for name, value in offer.items()}
    return spelled
