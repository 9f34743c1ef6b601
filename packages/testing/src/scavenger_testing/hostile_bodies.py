"""Admission requests of a client that wants the webhook to be slow, or out of memory: few bytes that become many
objects, many errors, or long searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

_REVIEW: Final = (
    '{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","resource":{{"group":"{group}",'
    '"version":"v1","resource":"{resource}"}},"namespace":"lab","name":"x","operation":"CREATE",'
    '"userInfo":{{"username":"researcher"}},"object":{{"metadata":{{"name":"x","namespace":"lab"{meta}}},"spec":{spec}}}}}}}'
)
_JOB: Final = (
    '"image":"{image}","interruptionAfter":"{after}","resources":{{"requests":{{"cpu":"{cpu}","memory":"1Gi"}}}}'
)


_EMPTY: Final = '""'
_MARK: Final = '"!"'
_TOLERATION: Final = '{"key":0}'
_MOUNT: Final = '{"mountPath":"/a"}'
_OPENING: Final = '{"a":'
_SURROGATE: Final = r"\ud800"


def _review(resource: str, spec: str, *, meta: str = "") -> bytes:
    group = "scavenger.dev" if resource == "scavengerjobs" else ""
    return _REVIEW.format(group=group, resource=resource, spec=spec, meta=meta).encode()


def _job(more: str = "", *, meta: str = "", image: str = "x", after: str = "30m", cpu: str = "1") -> bytes:
    return _review("scavengerjobs", "{" + _JOB.format(image=image, after=after, cpu=cpu) + more + "}", meta=meta)


def _list(item: str, size: int) -> str:
    return "[" + ",".join([item] * (size // (len(item) + 1))) + "]"


def _keys(item: str, size: int) -> str:
    return "{" + ",".join(f'"{n}":{item}' for n in range(size // (len(item) + 9))) + "}"


FAMILIES: Final[Mapping[str, Callable[[int], bytes]]] = {
    "variables that are empty": lambda n: _job(f',"env":{_list("{}", n)}'),
    "variables that are numbers": lambda n: _job(f',"env":{_list("0", n)}'),
    "arguments that are numbers": lambda n: _job(f',"args":{_list("0", n)}'),
    "arguments that are empty": lambda n: _job(f',"args":{_list(_EMPTY, n)}'),
    "one long argument": lambda n: _job(f',"args":["{"a," * (n // 2)}"]'),
    "fields that nobody knows": lambda n: _job(f',"more":{_keys("0", n)}'),
    "a long key": lambda n: _job(f',"nodeSelector":{{"{"a" * n}!/x":"y"}}'),
    "a long key with many parts": lambda n: _job(f',"nodeSelector":{{"{"a-" * (n // 2)}!/x":"y"}}'),
    "a long value": lambda n: _job(f',"nodeSelector":{{"x":"{"a." * (n // 2)}!"}}'),
    "many bad selectors": lambda n: _job(f',"nodeSelector":{_keys(_MARK, n)}'),
    "many bad tolerations": lambda n: _job(f',"tolerations":{_list(_TOLERATION, n)}'),
    "many mounts of one folder": lambda n: _job(f',"persistentVolumeClaims":{_list(_MOUNT, n)}'),
    "a path that goes up": lambda n: _job(
        f',"persistentVolumeClaims":[{{"name":"x","mountPath":"/{"../" * (n // 3)}"}}]'
    ),
    "a long image": lambda n: _job(image="a/" * (n // 2) + "!"),
    "a long image without slashes": lambda n: _job(image="a-" * (n // 2) + "!"),
    "a long quantity": lambda n: _job(cpu="1" * n),
    "a long word for a quantity": lambda n: _job(cpu="x" * n),
    "a long exponent": lambda n: _job(cpu="1e" + "9" * n),
    "a long fraction": lambda n: _job(cpu="0." + "0" * n + "1"),
    "a long duration": lambda n: _job(after="9" * n),
    "a duration of many parts": lambda n: _job(after="1h" * (n // 2)),
    "a long number": lambda n: _job(f',"parallelism":{"9" * n}'),
    "deep lists": lambda n: _job(f',"more":{"[" * (n // 2)}{"]" * (n // 2)}'),
    "deep objects": lambda n: _job(f',"more":{_OPENING * (n // 6)}1{"}" * (n // 6)}'),
    "many labels": lambda n: _job(meta=f',"labels":{_keys("0", n)}'),
    "finalizers that are numbers": lambda n: _job(meta=f',"finalizers":{_list("0", n)}'),
    "owners that are empty": lambda n: _job(meta=f',"ownerReferences":{_list("{}", n)}'),
    "halves of characters": lambda n: _job(f',"args":["{_SURROGATE}{"a" * n}"]'),
    "a pod of many containers": lambda n: _review("pods", f'{{"containers":{_list("{}", n)}}}'),
    "a quota of many resources": lambda n: _review("resourcequotas", f'{{"hard":{_keys("0", n)}}}'),
    "a quota of many scopes": lambda n: _review(
        "resourcequotas", f'{{"scopeSelector":{{"matchExpressions":{_list("{}", n)}}}}}'
    ),
    "a quota of one scope with many classes": lambda n: _review(
        "resourcequotas",
        f'{{"scopeSelector":{{"matchExpressions":[{{"scopeName":"PriorityClass","values":{_list("0", n)}}}]}}}}',
    ),
    "no end of lists": lambda n: b"[" * n,
    "no end of objects": lambda n: (_OPENING * (n // 5)).encode(),
}
"""By what is in them: how a body of about so many bytes is made."""


def subject(what: str) -> str:
    """Which kind a family is a review of, as the webhook names it (`SUBJECTS`)."""
    return "pods" if "pod" in what else "resourcequotas" if "quota" in what else "scavengerjobs.scavenger.dev"


SIZES: Final = (2**10, 2**13, 2**16, 2**18, 2**20, 7 * 2**20 - 4096)


def corpus() -> Iterator[tuple[str, bytes]]:
    """About 200 of them, up to the size that is read at all: what is in it and its size, and the body."""
    for what, body in FAMILIES.items():
        for size in SIZES:
            yield f"{what}, {size} bytes", body(size)
