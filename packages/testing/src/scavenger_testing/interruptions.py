"""Interruptions of programs of demo-apps/gromacs, each at a step that was drawn beforehand."""

from __future__ import annotations

import json
import random
from pathlib import Path

from scavenger_testing.world import World


class Interruptions:
    """Deletes or evicts the pod of a job when its program has come to one of its moments.

    How far a program is, it says in its folder: nothing follows from the time, and on a slow machine all comes later.
    """

    def __init__(self, world: World, work: Path, *, seed: int, between: tuple[int, int], times: int) -> None:
        """`work` has the folders of the jobs. `between`: steps; `times`: moments of each job."""
        self._world = world
        self._work = work
        self._seed = seed
        self._between = between
        self._times = times
        self._done: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many have been, of all jobs."""
        return sum(self._done.values())

    def moments(self, key: str) -> list[int]:
        """The steps at which the job of that key is interrupted."""
        return sorted(random.Random(f"{self._seed} {key}").sample(range(*self._between), self._times))

    def look(self, key: str, job: str) -> bool:
        """Interrupt a job if it is at its next moment; whether it was. `key`: what its moments follow from."""
        done, moments = self._done.get(key, 0), self.moments(key)
        if done == len(moments) or not is_at(self._work / job, start=done + 1, step=moments[done]):
            return False
        for pod in self._world.staying(job):
            self._end(pod["metadata"]["name"], evict=moments[done] % 2 == 0)
        self._done[key] = done + 1
        return True

    def _end(self, pod: str, *, evict: bool) -> None:
        if not evict:
            self._world.kubectl("delete", "pod", pod, "--wait=false")
            return
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        path = f"/api/v1/namespaces/{self._world.namespace}/pods/{pod}/eviction"
        self._world.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(eviction))


def is_at(folder: Path, *, start: int, step: int) -> bool:
    """Whether the program that works there is in its start of that number, has made steps, and has come to that one."""
    try:
        mark = json.loads((folder / "run" / "mark.json").read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(mark["start"] == start and mark["reached"] >= max(step, mark["first"] + 1))
