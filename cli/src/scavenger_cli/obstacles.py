"""What stands between a job in line and its start, most stubborn first. Pure.

The order is the admitter's (design section 4.2): what never passes by itself, then what holds everybody back, then what
holds this job back now, then its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from scavenger_api import names
from scavenger_api.levels import LevelsView, Visibility

from scavenger_cli.facts import Cause, Facts
from scavenger_cli.objects import Job, Queue
from scavenger_cli.room import Room
from scavenger_cli.words import age, percent, plural, quantities, short_amount, span, spell

SILENT_AFTER: Final = timedelta(seconds=60)
"""An admitter renews its Lease every few seconds; after this long nobody leads."""

START_FAILURE: Final = "the start did not come off"
"""How the admitter begins the message of a start that was taken back."""

MAKING_ROOM: Final = "starts as soon as the pods are gone"
"""What the admitter says to a job for which others have been interrupted (reclaim)."""

_MISSING_PLATFORM: Final = "InstallationIncomplete"


class Obstacle(NamedTuple):
    """One reason why the job does not start now; `text` continues the sentence `NAME waits: …`."""

    cause: Cause
    text: str
    remedies: tuple[str, ...]


def command(job: Job, verb: str, *options: str) -> str:
    """A command about this job that can be pasted as it is."""
    words = ["kubectl sj", verb, job.name, *options]
    return " ".join([*words, f"-n {job.namespace}"] if job.namespace else words)


def obstacles(facts: Facts) -> Iterator[Obstacle]:
    """Everything that is in the way, the decisive one first."""
    for look in _LOOKS:
        yield from look(facts)


def _admitter(facts: Facts) -> Iterator[Obstacle]:
    if not facts.admitter_known:
        return
    if facts.admitter_seen is None and not facts.job.phase:
        yield Obstacle(
            Cause.ADMITTER_SILENT,
            "no admitter runs in this cluster, so nothing is ever started",
            ("install it: helm install scavenger-admitter charts/scavenger-admitter -n scavenger-system",),
        )
    elif facts.admitter_seen is not None and facts.now - facts.admitter_seen > SILENT_AFTER:
        yield Obstacle(
            Cause.ADMITTER_SILENT,
            f"the admitter has given no sign of life for {age(facts.admitter_seen, facts.now)}",
            ("ask an administrator to look: kubectl -n scavenger-system logs deploy/scavenger-admitter",),
        )


def _queue(facts: Facts) -> Iterator[Obstacle]:
    if facts.queues is None:
        return
    name = facts.job.spec.queue
    queue = facts.queue
    move = "move the job: " + command(facts.job, "move", f"--queue {names.DEFAULT_QUEUE}")
    if queue is None:
        if name != names.DEFAULT_QUEUE:
            create = f"create the queue: kubectl sj queue create {name} --weight 1"
            yield Obstacle(Cause.QUEUE_MISSING, f"there is no queue {name}", (move, create))
    elif queue.state == "Closed":
        reopen = f"open it: kubectl sj queue open {name}"
        yield Obstacle(Cause.QUEUE_CLOSED, f"its queue {name} is closed", (reopen, move))
    elif queue.state == "Releasing":
        yield Obstacle(Cause.QUEUE_RELEASING, f"its queue {name} is being deleted, and its jobs with it", (move,))


def _held_back(facts: Facts) -> Iterator[Obstacle]:
    message = facts.job.status.message
    if facts.job.reason("Admitted") == "HeldBack" or message.startswith("held back by"):
        stuck = [pod for pod in facts.pods if not pod.ended and pod.metadata.deletion_timestamp]
        remedies = tuple(
            f"when node {pod.spec.node_name} is switched off for good: kubectl delete node {pod.spec.node_name}"
            for pod in stuck[:1]
            if pod.spec.node_name
        )
        yield Obstacle(Cause.HELD_BACK, message or "a pod of its last run has not ended", remedies)


def _nowhere(facts: Facts) -> Iterator[Obstacle]:
    """What no waiting helps against."""
    room, spec = facts.room, facts.job.spec
    if room is None:
        return
    selector = ", ".join(f"{name}={value}" for name, value in sorted(spec.node_selector.items()))
    pod, count = spell(spec.requests), spec.parallelism
    if room.nodes == 0:
        yield Obstacle(Cause.NO_NODE, "the cluster has no node", ("add a node",))
    elif room.selected == 0:
        yield Obstacle(
            Cause.NO_SELECTOR_MATCH,
            f"none of the {room.nodes} nodes has the labels of spec.nodeSelector ({selector})",
            ("submit it again with another nodeSelector", f"label a node: kubectl label node NODE {selector}"),
        )
    elif room.tolerated == 0:
        yield Obstacle(
            Cause.TAINT_NOT_TOLERATED,
            f"every node it may run on has a taint that it does not tolerate ({', '.join(room.taints)})",
            ("submit it again with spec.tolerations for it",),
        )
    elif room.empty_places == 0:
        largest = spell(_asked(room, facts, empty=True))
        yield Obstacle(
            Cause.LARGER_THAN_ANY_NODE,
            f"a pod of it needs {pod}; the largest node has {largest}",
            ("submit it again with lower resources.requests", "add a larger node"),
        )
    elif room.empty_places < count:
        yield Obstacle(
            Cause.LARGER_THAN_CLUSTER,
            f"its {count} pods of {pod} each would not fit even if all nodes were empty; there is room for "
            f"{plural(room.empty_places, 'pod')}",
            (f"submit it again with parallelism {room.empty_places} or less", "add nodes"),
        )


def _not_offered(facts: Facts) -> Iterator[Obstacle]:
    """No waiting helps against a regulator that publishes nothing either."""
    room = facts.room
    if facts.job.spec.reclaimed and room is not None and room.open > 0 and room.offering == 0:
        yield Obstacle(
            Cause.NO_RECLAIMED_CAPACITY,
            f"no node offers reclaimed capacity, of the {plural(room.open, 'node')} it may use",
            (
                "wait, where the nodes are only busy now: kubectl sj top nodes shows what they offer",
                "ask an administrator: the regulator publishes it when started with --reclaimed",
            ),
        )


def _levels(facts: Facts) -> Iterator[Obstacle]:
    view = facts.levels
    if view is None or view.admit:
        return
    regulator = "ask an administrator to look: kubectl -n scavenger-system logs deploy/scavenger-regulator"
    if view.visibility is Visibility.STALE:
        text = f"the load of the cluster is not known, so nothing new starts: {view.reason}"
        yield Obstacle(Cause.LEVELS_STALE, text, (regulator,))
    elif view.visibility is Visibility.BLIND:
        text = f"the regulator is blind, so nothing new starts: {view.reason}"
        yield Obstacle(Cause.BLIND, text, (regulator, "kubectl top nodes shows whether the metrics API answers"))
    else:
        yield Obstacle(
            Cause.ADMIT_FALSE,
            "the regulator lets nothing new start for now",
            ("wait: it starts when the load has fallen", "kubectl sj levels shows the load"),
        )


def _start_failed(facts: Facts) -> Iterator[Obstacle]:
    message = facts.job.status.message
    if not message.startswith(START_FAILURE):
        return
    remedy = "wait: it is tried again by itself, after a delay that grows with every failed start"
    first = ("ask an administrator to complete the installation",) if _incomplete(facts) else ()
    yield Obstacle(Cause.START_FAILED, f"its last {message.removeprefix('the ')}", (*first, remedy))


def _incomplete(facts: Facts) -> bool:
    return facts.job.reason("Admitted") == _MISSING_PLATFORM


def _quota(facts: Facts) -> Iterator[Obstacle]:
    queue = facts.queue
    if queue is None:
        return
    quota, allocated = quantities(queue.spec.quota), quantities(queue.status.allocated)
    for name, needed in total_requests(facts).items():
        if name in quota and allocated.get(name, 0) + needed > quota[name]:
            limit = short_amount(name, quota[name])
            yield Obstacle(
                Cause.QUEUE_QUOTA,
                f"it needs {short_amount(name, needed)} {name}, and queue {queue.metadata.name} uses "
                f"{short_amount(name, allocated.get(name, 0))} of its quota of {limit}",
                ("wait until a job of the queue ends", "ask an administrator for a larger quota"),
            )
            return


def _closed_nodes(facts: Facts) -> Iterator[Obstacle]:
    room = facts.room
    if room is not None and room.tolerated > 0 and room.open == 0:
        yield Obstacle(
            Cause.NODES_CLOSED,
            f"{_each(room.tolerated)} it may run on is not ready, cordoned or at a level of its own",
            ("kubectl get nodes shows which are cordoned; kubectl uncordon NODE opens one",),
        )


def _each(number: int) -> str:
    return "the only node" if number == 1 else f"each of the {number} nodes"


def _level(facts: Facts) -> Iterator[Obstacle]:
    for name, load in loads(facts).items():
        if load.with_job >= load.admission:
            what = "requests" if load.by_requests else "load"
            yield Obstacle(
                Cause.ADMISSION_LEVEL,
                f"the cluster's {name} {what} would be {percent(load.with_job)} with it, and new jobs start only below "
                f"{percent(load.admission)}",
                (
                    "wait: it starts when ordinary workloads or other jobs have freed enough",
                    *_smaller(facts, name, load),
                ),
            )
            return


def _smaller(facts: Facts, resource: str, load: Load) -> tuple[str, ...]:
    """How much the job could ask for and start now."""
    if load.allocatable is None:
        return ()
    left = int((load.admission - load.now) / 100 * load.allocatable)
    if left <= 0:
        return ()
    return (f"a job of less than {short_amount(resource, left)} {resource} in all would be under the level",)


def _no_place(facts: Facts) -> Iterator[Obstacle]:
    room, spec = facts.room, facts.job.spec
    if room is None or room.open == 0 or room.places >= spec.parallelism:
        return
    if spec.reclaimed:
        yield from _no_offer(facts, room)
        return
    asked = spell(spec.requests)
    if spec.parallelism > 1 and room.places > 0:
        yield Obstacle(
            Cause.NO_PLACE,
            f"its {spec.parallelism} pods of {asked} each start together, and there is room for {room.places} now",
            (
                "wait: it starts when ordinary workloads or other jobs have freed enough",
                f"submitted with parallelism {room.places} it would fit now",
            ),
        )
        return
    largest = spell(_asked(room, facts))
    yield Obstacle(
        Cause.NO_PLACE,
        f"no node has {asked} free; the largest free place is {largest}",
        (
            "wait: it starts when ordinary workloads or other jobs have freed enough",
            f"pods of {largest} or less would fit now" if room.places == 0 and _some(room) else "",
        ),
    )


def _no_offer(facts: Facts, room: Room) -> Iterator[Obstacle]:
    """Some node offers reclaimed capacity, and not enough of it."""
    spec = facts.job.spec
    if room.offering == 0:
        return
    asked, largest = spell(spec.requests), spell(_asked(room, facts))
    together = (
        f"its {spec.parallelism} pods of {asked} each start together, and what is offered holds {room.places} now"
    )
    alone = f"no node offers enough reclaimed capacity: it needs {asked}, and the largest offer left is {largest}"
    fits = f"pods of {largest} or less would fit now" if room.places == 0 and _some(room) else ""
    some = f"submitted with parallelism {room.places} it would fit now" if room.places else fits
    yield Obstacle(
        Cause.NO_RECLAIMED_CAPACITY,
        together if spec.parallelism > 1 and room.places > 0 else alone,
        ("wait: it starts when more of what others have requested is idle", some),
    )


def _some(room: Room) -> bool:
    return room.largest_free is not None and all(v > 0 for v in room.largest_free.amounts.values())


def _asked(room: Room, facts: Facts, *, empty: bool = False) -> dict[str, int]:
    place = room.largest_node if empty else room.largest_free
    amounts = place.amounts if place is not None else {}
    return {name: amounts.get(name, 0) for name in facts.job.spec.requests}


def _making_room(facts: Facts) -> Iterator[Obstacle]:
    message = facts.job.status.message
    if MAKING_ROOM in message:
        yield Obstacle(
            Cause.MAKING_ROOM,
            f"jobs of queues over their share are leaving for it ({message})",
            ("wait: it starts when their pods have ended, within their grace period",),
        )


def _share(facts: Facts) -> Iterator[Obstacle]:
    queue = facts.queue
    over = over_share(queue, total_requests(facts)) if queue is not None else None
    if queue is None or over is None:
        return
    name, allocated, deserved = over
    yield Obstacle(
        Cause.OVER_SHARE,
        f"with it, queue {queue.metadata.name} would use {short_amount(name, allocated)} {name}, and it deserves "
        f"{short_amount(name, deserved)}: queues under their share go first",
        ("wait: it starts when the others need no more", "kubectl sj queue list shows all shares"),
    )


def over_share(queue: Queue, more: Mapping[str, int] | None = None) -> tuple[str, int, int] | None:
    """The resource of which a queue would use more than its share: name, use with `more`, deserved. None for none."""
    allocated, deserved = quantities(queue.status.allocated), quantities(queue.status.deserved)
    wanted = more or {}
    use = [(name, allocated.get(name, 0) + wanted.get(name, 0), share) for name, share in deserved.items()]
    over = [one for one in use if one[1] > one[2]]
    return max(over, key=lambda one: one[1] / one[2] if one[2] else float("inf"), default=None)


_LOOKS: Final[tuple[Callable[[Facts], Iterator[Obstacle]], ...]] = (
    _admitter,
    _queue,
    _held_back,
    _nowhere,
    _not_offered,
    _levels,
    _making_room,
    _start_failed,
    _quota,
    _closed_nodes,
    _level,
    _no_place,
    _share,
)


# --- figures that more than one sentence needs ------------------------------------------------------------------


class Load(NamedTuple):
    """A resource against its level, in percent of what the counted nodes can allocate.

    now: as measured, and what scavenger pods that started since ask for. with_job: as the admitter counts it, the
    candidate included. by_requests: nobody measures real use. allocatable: of the counted nodes, None where they may
    not be read.
    """

    now: float
    with_job: float
    admission: float
    by_requests: bool
    allocatable: int | None


def loads(facts: Facts) -> dict[str, Load]:
    """Every resource that has an admission level."""
    view = facts.levels
    if view is None:
        return {}
    wanted = total_requests(facts)
    found = {}
    for name in names.LEVELS_RESOURCES:
        load = _load(view, name, wanted.get(name, 0), facts.room)
        if load is not None:
            found[name] = load
    return found


def _load(view: LevelsView, name: str, wanted: int, room: Room | None) -> Load | None:
    admission = view.admission(name)
    use = room.load.get(name) if room is not None else None
    if admission is None:
        return None
    if view.on_requests:
        return Load(use.percent(), use.percent(wanted), admission, True, use.allocatable) if use is not None else None
    now = view.load(name)
    if now is None:
        return None
    if room is None or use is None or not use.allocatable:
        return Load(now, now, admission, False, None)
    now += 100.0 * room.unseen.get(name, 0) / use.allocatable
    return Load(now, now + 100.0 * wanted / use.allocatable, admission, False, use.allocatable)


def total_requests(facts: Facts) -> dict[str, int]:
    """What the whole gang asks for."""
    spec = facts.job.spec
    return {name: value * spec.parallelism for name, value in spec.requests.items()}


def waits_since(facts: Facts, queued: datetime | None) -> str:
    """How long it has been in line: ` for 5m`."""
    return f" for {span((facts.now - queued).total_seconds())}" if queued is not None else ""
