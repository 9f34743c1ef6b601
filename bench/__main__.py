"""Runs the benchmarks, prints a table, writes bench.json: a list of {name, value, unit, goal}.

    python -m bench                     everything
    python -m bench informer queue      what begins with one of these names

Figures are figures: a goal that is missed is shown and never fails the run. A benchmark that cannot run here (no root,
no cluster) says why and the others go on; one that breaks makes the exit code 1, after the others have run.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

# not defined here: run as a program, this module is another one than the `bench.__main__` that others would import
from bench import Skipped

Figure = dict[str, Any]

BENCHMARKS: Final = {
    "bench.runtime.bench_informer": ("informer.decode",),
    "bench.runtime.bench_queue": ("queue",),
    "bench.admitter.bench_plan": ("admission.full_cycle", "admission.one_arrival"),
    "bench.admitter.bench_arrays": ("arrays.100000", "arrays.cycle"),
    "bench.admitter.bench_arrays_cluster": ("arrays.2000", "arrays.apiserver", "arrays.admitter", "arrays.event"),
    "bench.admitter.bench_scale": ("scale.plan", "scale.event_loop_block_ms"),
    "bench.admitter.bench_memory": ("scale.rss",),
    "bench.admitter.bench_takeover": ("scale.takeover",),
    "bench.admitter.bench_usage": (
        "sizes.cycle",
        "sizes.event_loop",
        "sizes.round",
        "sizes.recommendation",
    ),
    "bench.admitter.bench_adopt": ("adopt",),
    "bench.admitter.bench_cluster": ("jobs2000", "admitter", "gang.cancel"),
    "bench.regulator.bench_regulator": ("regulator",),
    "bench.regulator.bench_learnt": ("loop.learnt",),
    "bench.regulator.bench_margin": ("regulator.margin",),
    "bench.regulator.bench_harvest": (
        "reclaimed.harvest",
        "reclaimed.over",
        "reclaimed.victims",
        "reclaimed.writes",
        "reclaimed.2011",
    ),
    "bench.regulator.bench_full": ("gain.harvest",),
    "bench.regulator.bench_harvest_cluster": ("reclaimed.cluster",),
    "bench.reclaimed.bench_cpu": (
        "reclaimed.ordinary",
        "reclaimed.harvested",
        "reclaimed.yield",
        "reclaimed.http",
        "reclaimed.no_cpu_request",
        "reclaimed.besteffort",
    ),
    "bench.reclaimed.bench_memory": ("reclaimed.memory",),
    "bench.reclaimed.bench_ledger": ("ledger",),
    "bench.prioritizer.bench_prioritizer": ("prioritizer",),
    "bench.services.bench_giveway": ("giveway",),
    "bench.services.bench_writes": ("writes",),
    "bench.services.bench_steady": ("steady",),
    "bench.services.bench_board": ("board",),
    "bench.services.bench_chaos": ("chaos",),
    "bench.services.bench_neighbours": ("neighbours",),
    "bench.tenants.bench_tenants": ("tenants.peak_mb", "tenants.probe_seconds", "tenants.b_starts"),
    "bench.tenants.bench_costs": (
        "tenants.admitter_mb",
        "tenants.neighbour_starts",
        "tenants.gets_per_waiting_job",
        "tenants.etcd_mb",
    ),
    "bench.scheduler.bench_choice": ("scheduler.loss_over_optimum",),
    "bench.scheduler.bench_burst": ("scheduler.decision_5000_nodes",),
    "bench.scheduler.bench_gang": ("scheduler.gang_victims",),
    "bench.scheduler.bench_throughput": ("scheduler.throughput", "scheduler.cpu_per_pod"),
    "bench.scheduler.bench_preemption": ("scheduler.preempt",),
    "bench.science.bench_grid": ("science.grid",),
    "bench.science.bench_science": ("science.gromacs", "science.tuner"),
    "bench.snapshot.bench_snapshot": ("snapshot",),
    "bench.webhook.bench_webhook": ("webhook",),
    "bench.webhook.bench_guard": ("guard",),
    "bench.simulator.bench_simulator": ("simulator.day",),
    "bench.simulator.bench_replay": ("simulator.replay",),
    "bench.simulator.bench_proof": (
        "loop.jobs_done_ratio_to_plain",
        "loop.work_ratio_to_plain",
        "loop.waited_4h_ratio_to_plain",
        "loop.lost_ratio_to",
        "loop.displaced_ratio_to_youngest_first",
        "loop.ordinary_wait",
        "loop.node_periods_above_upper",
        "gain.badput",
    ),
    "bench.simulator.bench_classes": ("loop.class_writes_per_hour", "loop.budget_writes_per_hour"),
    "bench.simulator.bench_share": ("share",),
    "bench.simulator.bench_gpus": ("loop.gpu_hours_lost",),
    "bench.simulator.bench_starved": ("loop.starved",),
    "bench.simulator.bench_orders": ("loop.order",),
    "bench.simulator.bench_kept_room": ("loop.kept_room",),
    "bench.simulator.bench_sizes": ("loop.sizes",),
    "bench.simulator.bench_requests": ("sizes",),
    "bench.simulator.bench_wrong_starts": ("loop.wrong_starts",),
    "bench.simulator.bench_loop": ("loop",),
    "bench.cli.bench_cli": ("cli",),
    "bench.setup.bench_setup": ("setup.cold", "setup.warm"),
    "bench.setup.bench_first_job": ("setup.first_job",),
}
"""Module with a `run() -> list[Figure]`, and what the names of its figures begin with."""

RESULT: Final = Path("bench.json")


def wanted(only: list[str]) -> list[str]:
    """The benchmarks with figures that begin with one of `only`. Of several that share the beginning of a name, the one
    with the longest."""
    found = set()
    for name in only or [""]:
        fits = {p: m for m, prefixes in BENCHMARKS.items() for p in prefixes if p.startswith(name)}
        longest = max(
            (p for prefixes in BENCHMARKS.values() for p in prefixes if name.startswith(p)), key=len, default=""
        )
        found |= set(fits.values()) or {m for m, prefixes in BENCHMARKS.items() if longest in prefixes}
    return [module for module in BENCHMARKS if module in found]


def verdict(figure: Figure) -> str:
    """`met` or `missed` for a figure with a goal such as `<= 0.5`; empty without one."""
    goal = figure.get("goal")
    if not goal:
        return ""
    sign, bound = str(goal).split()
    met = figure["value"] <= float(bound) if sign == "<=" else figure["value"] >= float(bound)
    return "met" if met else "missed"


def show(figures: list[Figure]) -> None:
    """Prints the table."""
    width = max((len(f["name"]) for f in figures), default=10)
    for f in figures:
        print(f"{f['name']:<{width}}  {f['value']:>14,.4g} {f['unit']:<8} {f.get('goal') or '':<12} {verdict(f)}")


def main(only: list[str]) -> int:
    """Runs what is wanted; 1 when a benchmark broke, 2 when nothing is called so."""
    modules = wanted(only)
    if not modules:
        print(f"no benchmark begins with {' or '.join(only)}; there are: {', '.join(sum(BENCHMARKS.values(), ()))}")
        return 2
    figures: list[Figure] = []
    broken = False
    for module in modules:
        started = time.monotonic()
        print(f"running {module} …", file=sys.stderr, flush=True)
        try:
            figures += importlib.import_module(module).run()
        except Skipped as reason:
            print(f"  skipped: {reason}", file=sys.stderr)
        except Exception:
            traceback.print_exc()
            broken = True
        print(f"  {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    figures = [f for f in figures if not only or any(f["name"].startswith(o) for o in only)]
    show(figures)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
