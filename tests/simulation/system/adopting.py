"""The system among others, where Jobs of users are adopted: they are submitted beside ScavengerJobs, and everything
happens to them as well.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any, Final

from scavenger_api import names
from scavenger_api.indexes import parse_indexes
from scavenger_kube.resources import JOBS, PODS
from scavenger_testing import FakeApi
from scavenger_testing.clock import START
from scavenger_testing.virtual_loop import LoopClock

from tests.simulation.system import kubelet
from tests.simulation.system.adopted import as_array, drawn, held_true, is_adopted, is_enough, is_gang, ledger_of
from tests.simulation.system.history import COUNTED_WITHIN, JOBS_AT_MOST, OFFICE, _controller, _job, _namespace
from tests.simulation.system.ledger import Life, Way
from tests.simulation.system.world import World
from tests.unit.admitter.harness import NS, Object

HALF: Final = 0.5
"""So often something is about an adopted Job, where there is one."""
NEVER_LESS: Final = ("failed", "succeeded")
ENDS: Final = ("SuccessCriteriaMet", "FailureTarget", "Complete", "Failed")


class Adopting(World):
    """A cluster in which administrators have Jobs adopted."""

    adopts = True
    first: tuple[str, ...] = ("c", "d")
    """Jobs that there are from the beginning."""

    def __init__(self, api: FakeApi, clock: LoopClock, seed: int) -> None:
        super().__init__(api, clock, seed)
        self.restarted: Counter[str] = Counter()
        """How often programs were started again in their pods, by the uid of their Job."""

    def set_up(self) -> None:
        super().set_up()
        for name in self.first:
            self.submit_adopted(name, NS)

    def stand_by(self, **settings: Any) -> None:
        super().stand_by(**{"adopt": True, **settings})

    # --- what there is ------------------------------------------------------------------------------

    def adopted(self) -> list[Object]:
        """The Jobs of users, as they are stored."""
        return [job for job in self.api.stored(JOBS) if is_adopted(job)]

    def batches(self) -> list[Object]:
        return [job for job in super().batches() if not is_adopted(job)]

    def phases(self) -> dict[str, str]:
        own = {_job(job): str(as_array(job)["status"].get("phase", "")) for job in self.adopted()}
        return {**super().phases(), **own}

    def status(self, name: str) -> dict[str, Any]:
        mine = next((job for job in self.adopted() if _job(job) == name), None)
        return super().status(name) if mine is None else dict(as_array(mine)["status"])

    # --- what happens -------------------------------------------------------------------------------

    def submit_array(self) -> None:
        """A user submits an array, or a Job."""
        if self.random.random() < HALF:
            super().submit_array()
        elif self.jobs() < JOBS_AT_MOST:
            self.submit_adopted(f"j{len(self.happened)}", self.random.choice((NS, NS, OFFICE)))

    def submit_one(self) -> None:
        if self.random.random() < HALF:
            super().submit_one()
        elif self.jobs() < JOBS_AT_MOST:
            self.submit_adopted(f"j{len(self.happened)}", self.random.choice((NS, NS, OFFICE)))

    def submit_adopted(self, name: str, namespace: str) -> None:
        """A user submits a Job, which is adopted."""
        job = drawn(self.random, name, namespace=namespace, uid=str(uuid.uuid4()), created=self.stamp())
        self.api.put(JOBS, job)

    def injected_into(self, pod: Object) -> Object:
        """A pod of a Job that has a container which does not end never ends, here as under the Job controller."""
        return pod if names.LABEL_KIND in pod["metadata"].get("labels", {}) else super().injected_into(pod)

    def _one(self) -> Object | None:
        """A Job of a user that something is about, or none."""
        there = [job for job in self.adopted() if "deletionTimestamp" not in job["metadata"]]
        return self.pick(there) if there and self.random.random() < HALF else None

    def suspend(self) -> None:
        if (job := self._one()) is None:
            super().suspend()
        else:
            self._suspend(job, suspended=self.random.random() < HALF)

    async def suspend_one(self) -> None:
        if (job := self._one()) is None:
            await super().suspend_one()
            return
        self._suspend(job, suspended=True)
        if self.random.random() < HALF:
            await self.turn(self.random.choice((0.2, 1.0, 3.0)))
            self._suspend(job, suspended=False)

    def fails(self, pod: Object, code: int, reason: str = "") -> None:
        """With OnFailure its kubelet starts the program again, and the pod has not ended."""
        if pod["spec"].get("restartPolicy") != "OnFailure":
            super().fails(pod, code, reason)
            return
        self.restarted[_controller(pod)] += 1
        self._status(pod, containerStatuses=kubelet.starts_again(pod, code, self.clock.now(), reason))

    def end_in_place(self, pod: Object) -> None:
        """With OnFailure that is a restart like any other, unless the kubelet says that the program was lost."""
        if pod["spec"].get("restartPolicy") == "OnFailure":
            self.restarted[_controller(pod)] += 1
        else:
            super().end_in_place(pod)

    def may_have_failed(self, job: Object) -> bool:
        limit = max(1, job["spec"].get("backoffLimit", 0))
        return super().may_have_failed(job) or self.restarted[job["metadata"]["uid"]] >= limit

    def batch_of(self, job: Object) -> Object | None:
        return job if is_adopted(job) else super().batch_of(job)

    def edit_spec(self, job: Object, **fields: Any) -> None:
        if not is_adopted(job):
            super().edit_spec(job, **fields)
        elif self.api.get(JOBS, _namespace(job), _job(job)) is not None:
            self.api.edit(JOBS, _namespace(job), _job(job), lambda one: one["spec"].update(fields))

    def edit_array(self) -> None:
        """A user lets fewer or more pods of a Job run at a time."""
        if (job := self._one()) is None:
            super().edit_array()
        elif not is_gang(job):  # admission refuses another size
            self.aim(job)
            self.edit_spec(job, parallelism=self.random.choice((1, 2, 3)))

    def delete_one(self) -> None:
        if (job := self._one()) is None:
            super().delete_one()
        elif self.random.random() < HALF:
            self.remove_job(job)
        else:  # what clients do that name no propagation policy
            self.trouble.removed.add(job["metadata"]["uid"])
            self.orphan_pods(job)

    def remove_job(self, job: Object) -> None:
        if is_adopted(job):
            self.trouble.removed.add(job["metadata"]["uid"])
        super().remove_job(job)

    def recover(self) -> None:
        super().recover()
        for job in self.adopted():
            if job["spec"].get("suspend"):
                self._suspend(job, suspended=False)

    # --- what holds ---------------------------------------------------------------------------------

    def hold_now(self) -> None:
        super().hold_now()
        now = self.clock.now()
        for job in self.adopted():
            self.hold_status(as_array(job), now - COUNTED_WITHIN if self._is_free(now) else START)

    def check_others(self) -> None:
        """No status goes back, an interruption is no failure, and a Job that is Complete has done all of its work."""
        for job in self.api.list(JOBS):
            if not is_adopted(job):
                continue
            seen = as_array(job)
            self.ledger.judge(seen, self.clock.now())
            self._check_work(job)
            if not self.clocks_stepped:
                self.check_books(seen)
        self._check_course()
        self._check_orphans()

    def _check_orphans(self) -> None:
        """Pods that belong to nobody have nothing of ours any more that would hold them."""
        for pod in self.api.list(PODS):
            meta = pod["metadata"]
            if not meta.get("ownerReferences") and self.owners.get(meta["uid"]) in self.trouble.removed:
                marks = [key for key in meta.get("labels", {}) if key.startswith(f"{names.GROUP}/")]
                marks += meta.get("finalizers", ())
                assert not marks, f"an orphan has marks of a scavenger job: {pod}"

    def _check_work(self, job: Object) -> None:
        """Each index has a pod that was left alone to its end, and is counted once."""
        status, spec, uid = job["status"], job["spec"], job["metadata"]["uid"]
        if is_gang(job):
            self._check_gang(job)
            return
        lives = list(self.ledger.truths[uid].lives)
        done = {life.task for life in lives if Way.COMPLETED in self.ledger.ways_of_task(life, uid)}
        counted, where = status.get("succeeded", 0), f"{_job(job)}: {status}: {lives}"
        if spec["completionMode"] == "Indexed":
            indexes = parse_indexes(status.get("completedIndexes", ""))
            assert indexes.bit_count() == counted, where
            assert all(task in done for task in range(spec["completions"]) if indexes >> task & 1), where
            lost = parse_indexes(status.get("failedIndexes", ""))
            failed = {life.task for life in lives if Way.FAILED in self.ledger.ways_of_task(life, uid)}
            assert all(task in failed for task in range(spec["completions"]) if lost >> task & 1), where
        if "completions" not in spec and "Complete" in held_true(job):
            self._check_workers(lives, uid, where)
        failures = sum(Way.FAILED in self.ledger.ways_of_task(life, uid) for life in lives)
        assert failures or not status.get("failed", 0), f"failed, and no program has: {where}"
        if "Complete" in held_true(job):
            whole = "completions" in spec and not is_enough(job)
            assert counted == spec["completions"] if whole else counted >= 1, where
            assert not status.get("active", 0) + status.get("terminating", 0), where

    def _check_gang(self, job: Object) -> None:
        """All of its indexes are counted, once, when its pods were left alone to their ends, and none before that."""
        status, size, over = job["status"], job["spec"]["completions"], "Complete" in held_true(job)
        counted = (status.get("succeeded", 0), parse_indexes(status.get("completedIndexes", "")).bit_count())
        assert counted == ((size, size) if over else (0, 0)), f"{_job(job)}: {status}"
        assert not over or not status.get("active", 0) + status.get("terminating", 0), f"{_job(job)}: {status}"
        if over:
            self.check_runs(as_array(job))

    def _check_workers(self, lives: list[Life], uid: str, where: str) -> None:
        """A worker of a queue that others interrupted came back, as its item may have been in hand; unless its user has
        suspended the queue, or wanted fewer workers."""
        truth = self.ledger.truths[uid]
        if truth.suspensions or len({width for _, width in truth.widths}) > 1:
            return
        last = {life.task: life for life in sorted(lives, key=lambda one: one.created)}
        lost = [one for one in last.values() if self.ledger.ways_of_task(one, uid) == {Way.INTERRUPTED}]
        assert not lost, f"workers were interrupted and did not come back: {lost}: {where}"

    def _check_course(self) -> None:
        """Of all statuses that Jobs have had."""
        before: dict[str, Object] = {}
        for entry in self.api.written(JOBS):
            job = entry.new
            if job is None:
                gone = entry.old
                assert gone is None or not is_adopted(gone) or gone["metadata"]["uid"] in self.trouble.removed, gone
                continue
            if not is_adopted(job) or not job.get("status"):
                continue
            uid, status = job["metadata"]["uid"], job["status"]
            old, before[uid] = before.get(uid, {}), job
            was = old.get("status", {})
            for field in NEVER_LESS:
                assert status.get(field, 0) >= was.get(field, 0), f"{field} goes back: {was}: {status}"
            for field in ("completedIndexes", "failedIndexes"):
                now, known = (parse_indexes(one.get(field, "")) for one in (status, was))
                assert now & known == known, f"an index is taken back: {was}: {status}"
            ended = held_true(old).keys() & set(ENDS) if old else set()
            assert ended <= held_true(job).keys(), f"an end is taken back: {was}: {status}"
            listed = status.get("conditions", ())
            if ledger_of(job) is not None:
                last = listed[-1]
                assert (last["type"], last["status"]) == (names.CONDITION_LEDGER, "False"), status
