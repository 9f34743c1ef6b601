"""The picture of this moment."""

from __future__ import annotations

from scavenger_api.levels import LevelsView
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_api.names import ADMITTER
from scavenger_api.times import format_time
from scavenger_domain.last_word import as_of

from scavenger_board.core.findings import finding_rows
from scavenger_board.core.jobs import job_rows, meanings
from scavenger_board.core.levels import admission_row, levels_row, pool_rows
from scavenger_board.core.nodes import node_rows, pools_of_nodes, scavenger_shares
from scavenger_board.core.picture import Picture
from scavenger_board.core.queues import lines, queue_rows
from scavenger_board.core.services import service_rows
from scavenger_board.core.snapshot import Snapshot
from scavenger_board.core.timeline import timeline


def picture_now(snapshot: Snapshot, *, levels_about: str) -> Picture:
    """What a snapshot shows. levels_about: as of `timeline`."""
    view = LevelsView.of(snapshot.levels, snapshot.now)
    services = service_rows(snapshot.now, snapshot.pods, snapshot.leases)
    line = lines(snapshot.jobs, snapshot.queues)
    pools = pools_of_nodes(snapshot.nodes, view.levels)
    shares = scavenger_shares(snapshot.nodes, snapshot.pods, pools)
    jobs = job_rows(snapshot.now, snapshot.jobs, snapshot.pods, snapshot.queues)
    return Picture(
        time=format_time(snapshot.now),
        past=False,
        levels=levels_row(view, shares.get(DEFAULT_POOL, {})),
        admission=admission_row(view, services),
        services=services,
        nodes=node_rows(snapshot.nodes, snapshot.pods, snapshot.used, pools),
        queues=queue_rows(snapshot.queues, line),
        jobs=jobs,
        timeline=timeline(snapshot.jobs, snapshot.events, levels_about=levels_about),
        waiting_pods=sum(pod.waits for pod in snapshot.pods),
        unknown=[*_unwatched(snapshot), *_unfollowed(snapshot), *_unmeasured(snapshot)],
        findings=finding_rows(snapshot, view, services),
        meanings=meanings(jobs),
        pools=pool_rows(view, shares, pools),
    )


def _unwatched(snapshot: Snapshot) -> list[str]:
    """Where the admitter does not look, jobs are as it left them."""
    text = as_of("the admitter", snapshot.leases.get(ADMITTER), snapshot.now) if snapshot.jobs else ""
    return [f"Jobs are {text}."] if text else []


def _unfollowed(snapshot: Snapshot) -> list[str]:
    return [f"The board cannot watch {what}, so it shows old data of them." for what in sorted(snapshot.unfollowed)]


def _unmeasured(snapshot: Snapshot) -> list[str]:
    if snapshot.used is not None:
        return []
    return ["The cluster has no metrics API, so nodes show requests, not use. Install metrics-server."]
