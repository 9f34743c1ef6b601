"""Load against the levels, as bars: nodes, queues, jobs. Pure: a view in, rich renderables out, right at 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from scavenger_api.levels import LevelsView, PublishedLevels, Visibility
from scavenger_api.names import LEVELS_RESOURCES
from scavenger_api.quantity import readable_amounts
from scavenger_api.states import Phase
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.accounts import Account
from scavenger_domain.plain_text import plain
from scavenger_kube.kinds import Node, Pod

from scavenger_cli import objects
from scavenger_cli.accounts import node_accounts
from scavenger_cli.lists import KIND, by_name, displayed_phase, gang_amounts
from scavenger_cli.objects import Job, Queue, QueueCounts
from scavenger_cli.output import PHASE_STYLES
from scavenger_cli.room import Use, load_by_requests
from scavenger_cli.sources import both_kinds
from scavenger_cli.usage import usage_of, usage_shares
from scavenger_cli.words import age, bar, cpu_time, percent, plural, short_amount

ADMISSION_MARK: Final = "┃"
LIMIT: Final = 10
"""Rows of a section, unless told otherwise."""
STATES: Final = {
    "Filling": "idle capacity is being filled",
    "Speculative": "more than was meant to be filled is in use",
    "Evicting": "jobs are being evicted until the load has come down",
    "Blind": "nothing is known of the load, so nothing starts and nothing is evicted",
}


@dataclass(frozen=True)
class View:
    """What `top` shows. None: not permitted, or (node_use) not measured. weights: of resources, in what jobs
    have not saved. limit: rows of a section. as_of: a sentence on how old statuses are; empty while they are kept."""

    now: datetime
    levels: LevelsView | None = None
    nodes: Sequence[Node] | None = None
    pods: Sequence[Pod] | None = None
    node_use: Mapping[str, Mapping[str, str]] | None = None
    queues: Sequence[Queue] | None = None
    jobs: Sequence[Job] | None = None
    weights: Weights = DEFAULT_WEIGHTS
    limit: int = LIMIT
    as_of: str = ""


def outdated(text: str) -> list[RenderableType]:
    """The line that says how old statuses are."""
    return [Text(text, style="bold red")] if text else []


def cluster_section(view: View, width: int) -> list[RenderableType]:
    """The levels and the load, a bar per resource."""
    if view.levels is None:
        return [Text("Cluster: you may not read the levels (ConfigMap scavenger-levels).", style="yellow")]
    use = load_by_requests(view.nodes or (), view.pods or ()) if view.nodes is not None else {}
    lines: list[RenderableType] = [_headline(view.levels, view.now)]
    cells = max(10, width - 50)
    for name in LEVELS_RESOURCES:
        line = _resource_line(name, view.levels, use.get(name), cells)
        if line is not None:
            lines.append(line)
    return [*lines, *(_headline(pool, view.now, f"Pool {name}") for name, pool in view.levels.pools.items())]


def _headline(view: LevelsView, now: datetime, title: str = "Cluster") -> Text:
    levels = view.levels
    if view.visibility is Visibility.ABSENT or levels is None:
        return Text("Cluster  no regulator: jobs start on requests, under fixed levels", style="bold")
    if view.visibility is not Visibility.FRESH:
        return Text(f"{title}  {view.visibility.value}: {view.reason}", style="bold red")
    admits = "new jobs may start" if levels.admit else "no new jobs"
    return Text(f"{title}  {levels.state}, {admits}, measured {age(levels.observed_at, now)} ago", style="bold")


def _resource_line(name: str, view: LevelsView, use: Use | None, cells: int) -> Text | None:
    load = view.load(name)
    if load is None and use is not None:
        load = use.percent()
    if load is None:
        return None
    admission, upper = view.admission(name), view.levels.upper(name) if view.levels is not None else None
    marks = {level / 100: ADMISSION_MARK for level in (admission, upper) if level is not None}
    style = "red" if upper is not None and load >= upper else "green"
    if admission is not None and load >= admission and style != "red":
        style = "yellow"
    text = Text(f"  {name:<7}")
    text.append(bar(load / 100, cells, marks), style=style)
    text.append(f" {percent(load):>7}")
    text.append(f"  start < {percent(admission)}" if admission is not None else "", style="bright_black")
    text.append(f", evict > {percent(upper)}" if upper is not None else "", style="bright_black")
    return text


def _table(*headers: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=False)
    for header in headers:
        # A name is cut rather than broken: rows of two lines cannot be compared at a glance.
        table.add_column(header, justify="right" if header in right else "left", no_wrap=True, overflow="ellipsis")
    return table


def _more(hidden: int, noun: str, remedy: str = " (--limit)") -> list[RenderableType]:
    return [Text(f"… and {plural(hidden, noun)} more{remedy}", style="bright_black")] if hidden > 0 else []


def _share_bar(fraction: float, width: int) -> Text:
    style = "red" if fraction > 1 else "yellow" if fraction >= 0.9 else "green"
    text = Text(bar(fraction, width), style=style)
    return text.append(f" {percent(100 * fraction):>6}" if fraction < 10 else "  >999 %", style="default")


def node_section(view: View, width: int) -> list[RenderableType]:
    """A line per node, fullest first."""
    if view.nodes is None or view.pods is None:
        return [Text("Nodes: you may not list nodes and pods of all namespaces.", style="yellow")]
    rows = node_accounts(view.nodes, view.pods, view.node_use)
    measured = "real use" if view.node_use else "requests"
    cells = max(6, (width - 56) // 2)
    table = _table("NODE", f"CPU ({measured})", "MEMORY", "PODS", "SCAVENGER", right=("PODS", "SCAVENGER"))
    for row in rows[: view.limit]:
        cpu, memory = (_share_bar(row.accounts[name].load, cells) for name in LEVELS_RESOURCES)
        table.add_row(row.name, cpu, memory, str(row.pods), str(row.scavenger_pods))
    return [table, *_more(len(rows) - view.limit, "node")]


def reserved_section(view: View, width: int, *, wide: bool) -> list[RenderableType]:
    """Two lines per node, fullest first: what is reserved, really used, offered and taken again, and free."""
    if view.nodes is None or view.pods is None:
        return [Text("Nodes: you may not list nodes and pods of all namespaces.", style="yellow")]
    nodes = node_accounts(view.nodes, view.pods, view.node_use)
    load = "LOAD" if view.node_use else "LOAD (requests)"
    figures = ("RESERVED", "USED", "RECLAIMED", "FREE")
    more = ("ALLOCATABLE", "PODS", "SCAVENGER") if wide else ()
    table = _table("NODE", "", load, *figures, *more, right=(*figures, *more))
    table.columns[0].no_wrap = False  # rich narrows what may be wrapped before it cuts any other column
    cells = max(6, 8 + (width - 80 - 31 * wide) // 2)  # what is left is for names
    for node in nodes[: view.limit]:
        counts = (str(node.pods), str(node.scavenger_pods))
        for name, account in node.accounts.items():
            first = name == LEVELS_RESOURCES[0]
            wider = (short_amount(name, account.allocatable), *(counts if first else ("", ""))) if wide else ()
            table.add_row(
                Text(node.name if first else "", no_wrap=True, overflow="ellipsis"),
                name,
                _share_bar(account.load, cells),
                short_amount(name, account.reserved),
                "-" if account.used is None else short_amount(name, account.used),
                _reclaimed(name, account),
                short_amount(name, account.free),
                *wider,
            )
    return [table, *_more(len(nodes) - view.limit, "node")]


def _reclaimed(resource: str, account: Account) -> Text:
    """What is taken of what is offered; in yellow where jobs hold more than is offered now."""
    if not account.offered and not account.taken:
        return Text("-")
    words = f"{short_amount(resource, account.taken)}/{short_amount(resource, account.offered)}"
    return Text(words, style="yellow" if account.taken > account.offered else "")


def queue_section(view: View, width: int) -> list[RenderableType]:
    """A line per queue: CPU in use against what it deserves now."""
    if view.queues is None:
        return [Text("Queues: you may not list them.", style="yellow")]
    if not view.queues:
        return [Text("Queues  none but default, of weight 1", style="bold")]
    table = _table("QUEUE", "STATE", "WEIGHT", "CPU OF ITS SHARE", "USED", "RUNNING", "WAITING")
    for column in table.columns[2:3] + table.columns[4:]:
        column.justify = "right"
    cells = max(6, width - 74)
    for queue in sorted(view.queues, key=lambda q: q.metadata.name)[: view.limit]:
        allocated, deserved = readable_amounts(queue.status.allocated), readable_amounts(queue.status.deserved)
        used, share = allocated.get("cpu", 0), deserved.get("cpu", 0)
        counts = queue.status.jobs or QueueCounts()
        table.add_row(
            queue.metadata.name,
            Text(queue.state, style=PHASE_STYLES.get(queue.state, "")),
            str(queue.spec.weight),
            _share_bar(used / share, cells) if share else Text("-"),
            short_amount("cpu", used) + (f"/{short_amount('cpu', share)}" if share else ""),
            str(counts.running + counts.starting),
            str(counts.waiting + counts.interrupted),
        )
    return [table, *_more(len(view.queues) - view.limit, "queue")]


def job_section(view: View, namespace: str | None) -> list[RenderableType]:
    """Running jobs, most CPU first: what each requests, uses of its CPU at p95, and would lose."""
    if view.jobs is None:
        return [Text("Jobs: you may not list them; name a namespace with -n.", style="yellow")]
    active = [job for job in view.jobs if job.phase in (Phase.RUNNING, Phase.STARTING)]
    waiting = sum(job.phase in (*objects.QUEUED, "") for job in view.jobs)
    active.sort(key=lambda job: (-job.requests.get("cpu", 0) * job.pods, job.metadata.key))
    kinds = (KIND,) if both_kinds(view.jobs) else ()
    rows = active[: view.limit]
    uses = ("USED",) if any(map(usage_of, rows)) else ()
    headers = ("JOB", *kinds, "QUEUE", "STATUS", "CPU", *uses, "MEMORY", "RUNTIME", "UNSAVED", "CLASS")
    table = _table(*headers, right=("CPU", "USED", "MEMORY", "RUNTIME", "UNSAVED"))
    for job in rows:
        cpu, memory = gang_amounts(job)
        table.add_row(
            job.name if namespace else job.metadata.key,
            *((job.kind_of,) if kinds else ()),
            job.spec.queue,
            Text(displayed_phase(job), style=PHASE_STYLES.get(job.phase, "")),
            cpu,
            *((usage_shares(job)[0],) if uses else ()),
            memory,
            age(job.started_at, view.now),
            cpu_time(job.unsaved(view.now, view.weights)) if job.has_risk else "",
            job.preemption_class.replace("non-preemptible", "non-preempt."),
        )
    where = f" in namespace {namespace}" if namespace else ""
    return [
        Text(f"Jobs{where}  {len(active)} on nodes, {waiting} queued", style="bold"),
        *([table] if active else []),
        *_more(len(active) - view.limit, "job"),
    ]


def render(
    view: View, sections: Sequence[str], width: int, *, namespace: str | None = None, wide: bool = False
) -> Group:
    """The screen: the cluster, and the sections asked for of nodes, queues and jobs. Nodes alone are shown in full.

    namespace: of the jobs; None for those of all.
    """
    alone = tuple(sections) == ("nodes",)
    made = {
        "nodes": lambda: reserved_section(view, width, wide=wide) if alone else node_section(view, width),
        "queues": lambda: queue_section(view, width),
        "jobs": lambda: job_section(view, namespace),
    }
    parts = [*outdated(view.as_of), *cluster_section(view, width)]
    for name in sections:
        parts += [Text(""), *made[name]()]
    return Group(*parts)


def _progress(job: Job, now: datetime) -> list[str]:
    """Age of the last checkpoint, and work unsaved and kept, in CPU time."""
    unsaved = cpu_time(job.unsaved(now)) if job.has_risk else ""
    return [age(job.status.last_checkpoint_timestamp, now), unsaved, cpu_time(job.status.useful_cpu_seconds)]


PROGRESS_WIDTH = 110
"""Columns of a terminal."""


def jobs_screen(
    jobs: Sequence[Job], now: datetime, rows: int, width: int, *, namespaces: bool, as_of: str = ""
) -> Group:
    """The live table of `watch`: jobs on nodes first, then queued jobs, then the finished.

    as_of: as of `View`. rows: lines that fit; what does not fit is counted. width: with PROGRESS_WIDTH the table also
    has the age of the last checkpoint, the work that an interruption would cost, and the work that is kept.
    """
    order = (Phase.RUNNING, Phase.STARTING, Phase.INTERRUPTED, Phase.WAITING, "", Phase.SUSPENDED)
    rank = {phase: i for i, phase in enumerate(order)}
    shown = sorted(by_name(jobs), key=lambda job: rank.get(job.phase, len(order)))
    progress = ["CHECKPOINT", "UNSAVED", "USEFUL"] if width >= PROGRESS_WIDTH else []
    kinds = [KIND] if both_kinds(jobs) else []
    headers = ["NAME", *kinds, "QUEUE", "STATUS", "INTERR.", "RUNTIME", *progress, "AGE", "MESSAGE"]
    right = ("INTERR.", "RUNTIME", *progress, "AGE")
    table = _table(*(["NAMESPACE", *headers] if namespaces else headers), right=right)
    table.columns[-1].no_wrap = False  # rich narrows what may be wrapped before it cuts any other column
    room = max(1, rows - 3 - bool(as_of))
    for job in shown[:room]:
        cells: list[RenderableType] = [Text(job.namespace)] if namespaces else []
        phase = displayed_phase(job)
        cells += [
            Text(job.name),
            *((Text(job.kind_of),) if kinds else ()),
            Text(job.spec.queue),
            Text(phase, style=PHASE_STYLES.get(phase, "")),
            Text(str(job.status.interrupted_count)),
            Text(age(job.started_at, now)),
            *(map(Text, _progress(job, now)) if progress else ()),
            Text(age(job.metadata.creation_timestamp, now)),
            Text(plain(job.status.message.replace("\n", " ")), no_wrap=True, overflow="ellipsis"),
        ]
        table.add_row(*cells)
    counts = {phase: sum(displayed_phase(job) == phase for job in jobs) for phase in objects.PHASES}
    summary = ", ".join(f"{count} {phase.lower()}" for phase, count in counts.items() if count) or "no jobs"
    return Group(*outdated(as_of), Text(summary, style="bold"), table, *_more(len(shown) - room, "job", ""))


def levels_screen(view: LevelsView, now: datetime, width: int) -> Group:
    """`levels`: the state in words, and a scale per resource."""
    screens = [Group(Text(""), _of_levels(pool, now, width, f"Pool {name}")) for name, pool in view.pools.items()]
    return Group(_of_levels(view, now, width), *screens)


def _of_levels(view: LevelsView, now: datetime, width: int, title: str = "Cluster") -> Group:
    levels = view.levels
    parts: list[RenderableType] = [_headline(view, now, title)]
    if levels is None or view.visibility is not Visibility.FRESH:
        if view.visibility is Visibility.ABSENT:
            text = (
                f"Jobs start while requests are below {percent(view.admission('cpu') or 0)} of what nodes can allocate;"
            )
            parts += [Text(text), Text("scavenger-regulator, once installed, measures the real load.")]
        return Group(*parts)
    known = STATES.get(levels.state.value, "") if levels.admit or not view.closed else view.closed
    parts.append(Text(known[:1].upper() + known[1:] + _ends(view, now) + "."))
    facts = [f"{percent(levels.preemptible_percentage or 0)} of the running jobs are preemptible"]
    facts += [f"reserve {percent(levels.reserve)}"] if levels.reserve is not None else []
    facts.append(f"measured every {levels.period_seconds:g} s")
    parts.append(Text("; ".join(facts) + "."))
    if levels.message and levels.message != known:
        parts.append(Text(plain(levels.message)))
    for name in levels.resources:
        parts += [Text(""), *_scale(name, levels, width)]
    return Group(*parts)


def _ends(view: LevelsView, now: datetime) -> str:
    """How long from now a cool-down lasts."""
    end = view.cooldown_until
    return f", {age(now, end)} from now" if end is not None and end > now else ""


def _scale(name: str, levels: PublishedLevels, width: int) -> list[Text]:
    """The load as a bar, and the levels under their places on it."""
    found = levels.resources[name]
    cells = max(20, width - 22)
    marks = {level / 100: ADMISSION_MARK for level in (found.lower, found.admission, found.upper)}
    style = "red" if found.load >= found.upper else "yellow" if found.load >= found.admission else "green"
    first = Text(f"{name:<8}")
    first.append(bar(found.load / 100, cells, marks), style=style).append(f" {percent(found.load):>8}")
    words = f"lower {percent(found.lower)}, admission {percent(found.admission)}, upper {percent(found.upper)}"
    lines = [first, Text(" " * 8 + words, style="bright_black")]
    if found.mean is not None and found.stdev is not None:
        text = f"regular load {percent(found.mean)} on average, standard deviation {percent(found.stdev)}"
        lines.append(Text(" " * 8 + text, style="bright_black"))
    return lines
