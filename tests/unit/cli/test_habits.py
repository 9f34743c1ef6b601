"""Warnings of `lint` about what an interruption would cost."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_cli.lint.habits import habit_warnings

SIZE = {"requests": {"cpu": "1", "memory": "1Gi"}}
CLAIM = {"persistentVolumeClaims": [{"name": "state", "mountPath": "/state"}]}


def flat(*command: str, **spec: Any) -> list[str]:
    return list(
        habit_warnings({"spec": {"image": "app:1", "resources": SIZE, "command": list(command), **CLAIM, **spec}})
    )


def templated(volumes: list[dict[str, Any]], *command: str) -> list[str]:
    beside = {"name": "ship", "image": "ship:1", "command": ["sh", "-c", "a; b"], "resources": SIZE}
    main = {"name": "sim", "image": "app:1", "command": list(command), "resources": SIZE}
    template = {"spec": {"containers": [beside, main], "volumes": volumes}}
    return list(habit_warnings({"spec": {"template": template, "mainContainer": "sim"}}))


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        (("python", "sim.py"), False),
        (("sh", "-c", "python sim.py"), False),
        (("sh", "-c", "cd /work && python sim.py"), True),
        (("/bin/bash", "-ec", "cd /work\npython sim.py\n"), True),
        (("bash", "-c", "cd /work; exec python sim.py"), False),
        (("bash", "/work/run.sh"), False),
        (("sh",), False),
    ],
)
def test_a_shell_that_keeps_the_signal_to_itself(command: tuple[str, ...], warned: bool) -> None:
    found = flat(*command)
    assert [line.partition(":")[0] for line in found] == (["spec.command"] if warned else [])
    assert all("write exec before the program" in line for line in found)


@pytest.mark.parametrize("text", ["pip install x", "apt-get -y install x", "apk add x", "conda install x"])
def test_packages_that_are_installed_at_every_start(text: str) -> None:
    found = flat("sh", "-c", f"{text} && exec python sim.py")
    assert len(found) == 1
    assert "build an image that has them" in found[0]


def test_nothing_to_come_back_to() -> None:
    assert "no volume outlives a pod" in flat("python", persistentVolumeClaims=None)[0]
    assert templated([{"name": "tmp", "emptyDir": {}}], "python")[0].startswith("spec.template.spec.volumes: no volume")
    assert templated([{"name": "state", "persistentVolumeClaim": {"claimName": "state"}}], "python") == []


def test_the_program_of_a_template_is_the_main_container() -> None:
    found = templated([{"name": "state", "nfs": {"server": "s", "path": "/"}}], "sh", "-c", "a; b")
    assert [line.partition(":")[0] for line in found] == ["spec.template.spec.containers[1].command"]
