"""What works for a Job and costs an interruptible one its work: warnings of `lint`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from scavenger_api.main_container import main_index

from scavenger_cli.manifests import Manifest

_SHELL: Final = re.compile(r"(.*/)?(ba|da|a|z|k)?sh")
_SEVERAL: Final = re.compile(r"[;\n]|&&|\|\|")
"""Between commands: a shell that has one alone becomes it."""
_INSTALLS: Final = re.compile(r"\b(pip3? install|apt(-get)? (-\S+ )*install|apk add|conda install|mamba install)\b")
_LASTING: Final = ("persistentVolumeClaim", "nfs", "csi", "ephemeral", "hostPath", "glusterfs", "cephfs", "iscsi", "fc")
"""Kinds of volumes that a later pod can find again."""


def habit_warnings(job: Manifest) -> Iterator[str]:
    """What a program should do otherwise where it is to survive interruptions.

    job: one that the API server would take.
    """
    spec = job["spec"]
    field, program = _program(spec)
    words = [*(program.get("command") or ()), *(program.get("args") or ())]
    script = _script(words)
    if script is not None:
        parts = [part.strip() for part in _SEVERAL.split(script) if part.strip()]
        if len(parts) > 1 and not parts[-1].startswith("exec "):
            yield f"{field}: the shell gets SIGTERM, and the program does not; write exec before the program"
    if any(_INSTALLS.search(word) for word in words):
        yield f"{field}: it installs packages at every start; build an image that has them"
    if not _lasting(spec):
        where = "spec.persistentVolumeClaims" if "template" not in spec else "spec.template.spec.volumes"
        yield f"{where}: no volume outlives a pod: a run begins at the start unless the program saves elsewhere"


def _program(spec: Manifest) -> tuple[str, Manifest]:
    """The container that is the program, and where its command stands."""
    if "template" not in spec:
        return "spec.command", spec
    containers: list[Manifest] = spec["template"]["spec"]["containers"]
    at = main_index([one["name"] for one in containers], spec.get("mainContainer"))
    return f"spec.template.spec.containers[{at}].command", containers[at]


def _script(words: list[str]) -> str | None:
    """What a shell is told by `-c`; None where the program is no shell."""
    if not words or not _SHELL.fullmatch(words[0]):
        return None
    return next((after for word, after in pairwise(words) if re.fullmatch(r"-\w*c", word)), None)


def _lasting(spec: Manifest) -> bool:
    if "template" not in spec:
        return bool(spec.get("persistentVolumeClaims"))
    return any(kind in volume for volume in spec["template"]["spec"].get("volumes") or () for kind in _LASTING)
