"""Quantities of pods: what the API server takes and how it rounds, against `scavenger_api.quantity`."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any, Final

from scavenger_api.quantity import MAX_UNITS, QuantityError, amount, parse_quantity

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl

SUFFIXES: Final = (*"num", "", *"kMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E+2", "e-2", "E-07")
KNOWN: Final = (
    "1.2Gi",
    "0.0001",
    "1e-4",
    ".5",
    "1.",
    "+3",
    " 2Gi ",
    "1." + "0" * 30 + "1",
    "9007199254740993.1",
    "1n",
)
DOUBTFUL: Final = (
    *("", "1 Gi", "1gi", "1K", "1KI", "1mi", "--1", "1e1.5", "1e", "0x10", "1_000", "\u0661", "nan", "1..2", "1.2.3"),
    *("1Gi2", "1iG", "Gi1", "1E+", "1e3Gi", "1kk", "1Kii", "1+3", "2*3", "1,5", "1Gi\n", "\t1", "1\u2009Gi"),
)
DIFFERENT: Final = ("Gi", ".", "m", "1e65", "\u00a01")
"""Refused here, and none that is meant: the API server reads a suffix alone as 0, any number, and other spaces."""


def texts() -> list[str]:
    """Quantities of all kinds above 0, such that their thousandths are no more than Kubernetes counts."""
    chance = random.Random(68)
    found = list(KNOWN)
    while len(found) < 300:
        whole = "0" * chance.randrange(2) + str(chance.randrange(10 ** chance.randrange(1, 18)))
        part = "." + "".join(chance.choices("0123456789", k=chance.randrange(25))) if chance.random() < 0.6 else ""
        text = whole + part + chance.choice(SUFFIXES)
        if 0 < parse_quantity(text) * 1000 < MAX_UNITS:
            found.append(text)
    return found


def pod(name: str, *resources: dict[str, Any]) -> str:
    containers = [{"name": f"c{n}", "image": "i:1", "resources": one} for n, one in enumerate(resources)]
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}
    )


def limited(text: str, less: int) -> dict[str, Any]:
    """Requests of that quantity, limits of what it is rounded up to, less so many bytes and millicores."""
    most = {"cpu": f"{amount('cpu', text) - less}m", "memory": str(amount("memory", text) - less)}
    return {"requests": {"cpu": text, "memory": text}, "limits": most}


def test_quantities_are_rounded_up_as_the_api_server_rounds_them(api_cluster: Kubectl, module_namespace: str) -> None:
    kubectl, wanted = api_cluster.inside(module_namespace), texts()
    command = ("create", "--dry-run=server", "--validate=false", "-o", "name", "-f", "-")
    kubectl.ok(*command, stdin=pod("enough", *(limited(text, 0) for text in wanted)))

    said = kubectl.refused(*command, stdin=pod("less", *(limited(text, 1) for text in wanted)))
    found = set(
        re.findall(r"containers\[(\d+)\]\.resources\.requests: [^\n]*?than or equal to (cpu|memory) limit", said)
    )
    every = {(str(number), resource) for number in range(len(wanted)) for resource in ("cpu", "memory")}
    assert {(wanted[int(number)], resource) for number, resource in every - found} == set()


def test_what_is_refused_the_api_server_refuses(api_cluster: Kubectl, module_namespace: str) -> None:
    kubectl, read = api_cluster.inside(module_namespace), []
    for text in (*DOUBTFUL, *DIFFERENT):
        try:
            read.append((text, parse_quantity(text)))
        except QuantityError:
            continue
    assert read == []

    pods = [pod(f"p{n}", {"requests": {"memory": text}}) for n, text in enumerate((*DOUBTFUL, *DIFFERENT))]
    done = kubectl(
        "create", "--dry-run=server", "--validate=false", "-o", "name", "-f", "-", stdin="\n---\n".join(pods)
    )
    taken = {int(number) for number in re.findall(r"pod/p(\d+)", done.stdout)}
    assert taken == set(range(len(DOUBTFUL), len(DOUBTFUL) + len(DIFFERENT)))
