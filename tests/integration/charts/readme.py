"""What README.md and the pages it leads to have an administrator and a researcher paste."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import yaml
from scavenger_cluster import Cluster, stack
from scavenger_testing import pages
from scavenger_testing.prometheus import command
from scavenger_testing.waiting import wait

from tests.integration.dashboards.prometheus import Prometheus, scraping

from .conftest import ROOT, SYSTEM, get
from .shell import Shell

README, DOCS = ROOT / "README.md", ROOT / "docs"
PANEL = "Jobs"
"""Of the dashboard for researchers: how many jobs of a queue are in each phase."""
COUNTING = ["run", "--dir=/state", "--seconds=2", "--steps=20"]
SERVICES = ("admitter", "regulator", "prioritizer", "board")


def installs_and_interrupts_a_job(cluster: Cluster, shell: Shell) -> None:
    """The quickstart, word by word, in namespace research."""
    install, run = pages.blocks(README, "## Quickstart")
    shell.paste(install)
    cluster.kubectl("create", "namespace", "research")
    shell.paste("kubectl config set-context --current --namespace=research")
    shell.paste(run)
    (look,) = pages.commands(README, ("kubectl",), "## Quickstart")[2:]
    wait("it to be interrupted and to run again", lambda: columns(shell.paste(look.script)) == {"Running", "1"})
    logs = "kubectl logs --selector=scavenger.dev/job=counter"
    wait("it to continue from its checkpoint", lambda: "event=resumed" in shell.paste(logs))
    shell.paste("kubectl delete sj/counter pvc/counter configmap/counter")


def columns(table: str) -> set[str]:
    """Phase and interruptions of the one job that `kubectl get sj` shows."""
    heads, row = (line.split() for line in table.splitlines())
    return {row[heads.index("STATUS")], row[heads.index("INTERRUPTED")]}


def writes_a_job(cluster: Cluster, shell: Shell, folder: Path, wait_phase: Callable[[str, str], None]) -> None:
    """The claim and the job of the page, with a program that there is, of a size that fits; and the commands below."""
    (text,) = pages.blocks(DOCS / "jobs.md", "## Write a job", "yaml")
    claim, job = yaml.safe_load_all(text)
    job["spec"] |= {"image": stack.COUNTER_IMAGE, "args": COUNTING, "parallelism": 2}
    job["spec"]["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}
    (folder / "simulation.yaml").write_text(yaml.safe_dump_all([claim, job]))
    apply, *looks = pages.commands(DOCS / "jobs.md", ("kubectl",), "## Write a job")
    shell.paste(apply.script, folder=folder)
    wait_phase("simulation", "Completed")
    said = [shell.paste(look.script).split()[0] for look in looks]
    assert said == ["NAME", "completed"], said


def uses_the_command_line(shell: Shell) -> None:
    """`kubectl sj`, which the tests have installed; what it opens in a browser is looked at elsewhere."""
    run, *looks, board = pages.commands(DOCS / "cli.md", ("kubectl",), "## In short")
    shell.paste(
        run.script,
        ("--cpu 1 --memory 1Gi", "--cpu 50m --memory 64Mi"),
        ("python pi.py", "python -c 'print(3.14)'"),
    )
    said = [shell.paste(look.script) for look in looks]
    assert "3.14" in said[1], said
    assert said[2].startswith("Cluster "), said
    assert board.script.startswith("kubectl sj board --open")


def shows_it_on_a_dashboard(cluster: Cluster, shell: Shell, prometheus: Path, folder: Path) -> None:
    """The query of a panel, as Grafana would find it, put to a Prometheus that scrapes the services."""
    (upgrade,) = pages.blocks(DOCS / "monitoring.md", "## Dashboards")
    shell.paste(upgrade)
    maps = get(cluster, "configmaps", "-n", SYSTEM, "-l", "grafana_dashboard=1")["items"]
    files = {name: json.loads(text) for one in maps for name, text in one["data"].items()}
    assert len(files) == 3
    (panel,) = (one for one in files["scavenger-researcher.json"]["panels"] if one["title"] == PANEL)
    (target,) = panel["targets"]
    targets = {f"scavenger-{service}": addresses(cluster, f"scavenger-{service}") for service in SERVICES}
    jobs = [{"job_name": name, "static_configs": [{"targets": pods}]} for name, pods in targets.items()]
    words, url = command(prometheus, {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}, folder)
    with scraping(words, url, folder, sum(map(len, targets.values()))) as found:
        wait("the panel to show both jobs", lambda: shown(found, target["expr"]) == {"Completed": 2.0})


def addresses(cluster: Cluster, service: str) -> list[str]:
    """Where the pods of a service show their metrics, as the page says."""
    pods = get(cluster, "pods", "-n", SYSTEM, "-l", f"app.kubernetes.io/name={service}")["items"]
    return [f"{pod['status']['podIP']}:8080" for pod in pods]


def shown(prometheus: Prometheus, expression: str) -> dict[str, float]:
    """The series that are not 0, by phase."""
    found = prometheus.query(expression, queue="default")
    return {labels["phase"]: value for labels, value in found if value}
