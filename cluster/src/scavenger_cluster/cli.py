"""The command line: `scavenger-cluster`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scavenger_kube.errors import ApiError

from scavenger_cluster.build import CLUSTER_TOOLS, TOOLS, ensure_tools
from scavenger_cluster.cluster import Cluster
from scavenger_cluster.control_plane import COMPONENTS
from scavenger_cluster.errors import ClusterError
from scavenger_cluster.plan import DEFAULT_PORT_BASE, PORTS_PER_CLUSTER
from scavenger_cluster.scheduler import PROGRAMS

Arguments = argparse.Namespace


def main(words: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = parser().parse_args(words)
    try:
        arguments.run(arguments)
    except (ClusterError, ApiError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what runs keeps running: `up` completes it, `down` removes it\n")
        return 128 + signal.SIGINT
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe all commands."""
    top = argparse.ArgumentParser(prog="scavenger-cluster", description="A real Kubernetes on this machine.")
    top.add_argument("--name", default=os.environ.get("SCAVENGER_CLUSTER_NAME", "scavenger"), help="of the cluster")
    top.add_argument(
        "--data-dir", type=Path, help="new or empty at first; default: scavenger/<name> in the XDG state folder"
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands.add_parser("up", help="start the cluster, or what of it does not run"))
    down = commands.add_parser("down", help="stop the cluster and remove everything of it")
    down.add_argument("--keep-data", action="store_true", help="keep database, keys and images for the next up")
    down.set_defaults(run=_down)
    commands.add_parser("status", help="show the components").set_defaults(run=_status)
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig").set_defaults(run=_kubeconfig)
    kubectl = commands.add_parser("kubectl", help="run kubectl on the cluster", prefix_chars="\0", add_help=False)
    kubectl.add_argument("words", nargs=argparse.REMAINDER)
    kubectl.set_defaults(run=_kubectl)
    build = commands.add_parser("build", help="build programs ahead of time and print where they are")
    build.add_argument("tools", nargs="*", metavar="TOOL", help=f"default: all for up; known: {', '.join(TOOLS)}")
    build.set_defaults(run=_build)
    load = commands.add_parser("load-image", help="import an image archive into the real nodes")
    load.add_argument("file", type=Path)
    load.set_defaults(run=_load_image)
    _add_build_image(commands.add_parser("build-image", help="build a Containerfile and load the image"))
    _add_component(commands.add_parser("component", help="stop, kill or start one part of the control plane"))
    _add_node(commands.add_parser("node", help="let a node die, or bring it back"))
    _add_service(commands.add_parser("service", help="run our own services against the cluster"))
    return top


def _add_up(up: argparse.ArgumentParser) -> None:
    up.add_argument("--nodes", help="auto[:N] (default auto), none, real[:N], fake[:N], or both: real,fake:20")
    up.add_argument("--fake-cpu", help="CPUs of a fake node (32)")
    up.add_argument("--fake-memory", help="memory of a fake node (128Gi)")
    up.add_argument("--fake-pods", type=int, help="pods a fake node takes (110)")
    up.add_argument(
        "--fake-taint",
        action=argparse.BooleanOptionalAction,
        help="taint new fake nodes kwok.x-k8s.io/node=fake:NoSchedule (default: if there are real ones)",
    )
    up.add_argument(
        "--port-base",
        type=int,
        help=f"the first port (default: {DEFAULT_PORT_BASE}, the next cluster's {PORTS_PER_CLUSTER} higher)",
    )
    up.add_argument(
        "--bind-address",
        help="where the API server listens (default: loopback; with real nodes the node network; or 0.0.0.0)",
    )
    up.add_argument(
        "--ipv6", action=argparse.BooleanOptionalAction, help="IPv6 alone for nodes, Services and pods (real nodes)"
    )
    up.add_argument(
        "--scheduler",
        choices=list(PROGRAMS),
        help="kube-scheduler with the plugin that knows scavenger jobs (default), or as it comes",
    )
    up.add_argument("--metrics", action=argparse.BooleanOptionalAction, help="run metrics-server (real nodes)")
    up.add_argument("--no-install", dest="install", action="store_false", help="never install Debian packages")
    up.add_argument(
        "--dns", action=argparse.BooleanOptionalAction, help="run CoreDNS for the pods of real nodes (default: yes)"
    )
    up.add_argument(
        "--arg",
        action="append",
        metavar="COMPONENT=ARGUMENT",
        help="a further argument for a component, such as kcm=--node-monitor-grace-period=10s; repeatable",
    )
    up.set_defaults(run=_up)


def _add_build_image(build: argparse.ArgumentParser) -> None:
    build.add_argument("image", help="name of the image")
    build.add_argument("context", type=Path)
    build.add_argument("--file", type=Path, help="default: Containerfile in the context")
    build.add_argument("--build-arg", action="append", default=[], metavar="KEY=VALUE")
    build.add_argument("--volume", action="append", default=[], metavar="HOST:PATH:OPTIONS", help="for the build only")
    build.add_argument("--no-install", dest="install", action="store_false", help="never install Debian packages")
    build.set_defaults(run=_build_image)


def _add_component(component: argparse.ArgumentParser) -> None:
    component.add_argument("action", choices=["stop", "kill", "start"])
    component.add_argument("component", help=f"{', '.join(COMPONENTS)}; short: apiserver, kcm, scheduler")
    component.set_defaults(run=_component)


def _add_node(node: argparse.ArgumentParser) -> None:
    node.add_argument("action", choices=["stop", "start"])
    node.add_argument("node")
    node.set_defaults(run=_node)


def _add_service(service: argparse.ArgumentParser) -> None:
    service.add_argument("action", choices=["start", "stop", "kill", "status", "logs"])
    service.add_argument("service", metavar="NAME", help="admitter runs `python -m scavenger_admitter`, and so on")
    service.add_argument("--instance", type=int, default=1, help="a second replica is --instance 2")
    service.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="environment; repeatable")
    service.add_argument("--wait-ready", action="store_true", help="wait for /readyz instead of /healthz")
    service.add_argument("--timeout", type=float, default=60, help="seconds to wait for the probe")
    service.add_argument("--no-restart", dest="restart", action="store_false", help="when it ends, leave it so")
    service.add_argument("--exec", nargs=argparse.REMAINDER, help="a command to run instead; the last option")
    service.set_defaults(run=_service)


def _cluster(arguments: Arguments) -> Cluster:
    return Cluster(arguments.name, arguments.data_dir, report=_reporter())


def _reporter() -> Callable[[str], None]:
    started = time.monotonic()

    def report(line: str) -> None:
        sys.stderr.write(f"{time.monotonic() - started:6.1f} s  {line}\n")
        sys.stderr.flush()

    return report


def _write(text: object) -> None:
    sys.stdout.write(f"{text}\n")


def _up(arguments: Arguments) -> None:
    cluster = _cluster(arguments)
    names = ("nodes", "fake_cpu", "fake_memory", "fake_pods", "fake_taint", "port_base", "bind_address", "ipv6")
    options = {name: getattr(arguments, name) for name in (*names, "scheduler", "metrics", "dns", "install")}
    cluster.up(**options, arguments=_per_component(arguments.arg))
    _write(f"export KUBECONFIG={cluster.kubeconfig}")


def _down(arguments: Arguments) -> None:
    _cluster(arguments).down(keep_data=arguments.keep_data)


def _status(arguments: Arguments) -> None:
    cluster = _cluster(arguments)
    state = cluster.state
    table = Table("COMPONENT", "PID", "STATE", "UPTIME", "RESTARTS", "URL", "LOG", box=None)
    for part in cluster.status():
        uptime = f"{part.uptime:.0f} s" if part.pid else ""
        restarts = "" if part.restarts is None else str(part.restarts)
        table.add_row(part.name, str(part.pid or ""), part.state, uptime, restarts, part.url, str(part.log))
    where = f"{state.nodes} at {state.server}, scheduler {state.scheduler}, data in {cluster.data_dir}"
    _write(f"cluster {cluster.name}: {where}")
    width = None if sys.stdout.isatty() else 240
    Console(width=width, highlight=False).print(table)


def _kubeconfig(arguments: Arguments) -> None:
    cluster = _cluster(arguments)
    _ = cluster.state  # a cluster that does not exist has no kubeconfig either
    _write(cluster.kubeconfig)


def _kubectl(arguments: Arguments) -> None:
    cluster = _cluster(arguments)
    _ = cluster.state
    os.execv(cluster.kubectl_command[0], [*cluster.kubectl_command, *arguments.words])


def _build(arguments: Arguments) -> None:
    names = arguments.tools or [tool.name for tool in CLUSTER_TOOLS]
    for path in ensure_tools(names, _reporter()).values():
        _write(path)


def _load_image(arguments: Arguments) -> None:
    for name in _cluster(arguments).load_image(arguments.file):
        _write(name)


def _build_image(arguments: Arguments) -> None:
    name = _cluster(arguments).build_image(
        arguments.image,
        arguments.context,
        containerfile=arguments.file,
        arguments=_pairs(arguments.build_arg),
        buildah_options=[f"--volume={volume}" for volume in arguments.volume],
        install=arguments.install,
    )
    _write(name)


def _component(arguments: Arguments) -> None:
    cluster = _cluster(arguments)
    actions = {
        "stop": cluster.component_stop,
        "kill": cluster.component_kill,
        "start": cluster.component_start,
    }
    actions[arguments.action](arguments.component)


def _node(arguments: Arguments) -> None:
    cluster = _cluster(arguments)
    {"stop": cluster.node_stop, "start": cluster.node_start}[arguments.action](arguments.node)


def _service(arguments: Arguments) -> None:
    actions = {
        "start": _service_start,
        "stop": lambda given: _cluster(given).service_stop(given.service, instance=given.instance),
        "kill": lambda given: _cluster(given).service_kill(given.service, instance=given.instance),
        "status": _service_status,
        "logs": _service_logs,
    }
    actions[arguments.action](arguments)


def _service_start(arguments: Arguments) -> None:
    _write_service(
        _cluster(arguments).service_start(
            arguments.service,
            instance=arguments.instance,
            environment=_pairs(arguments.set),
            command=_command(arguments.exec),
            wait="readyz" if arguments.wait_ready else "healthz",
            timeout=arguments.timeout,
            restart=arguments.restart,
        )
    )


def _service_status(arguments: Arguments) -> None:
    _write_service(_cluster(arguments).service(arguments.service, instance=arguments.instance))


def _service_logs(arguments: Arguments) -> None:
    sys.stdout.write(_cluster(arguments).service_logs(arguments.service, instance=arguments.instance))


def _write_service(service: object) -> None:
    for name in ("name", "instance", "pid", "restarts", "url", "log"):
        _write(f"{name}: {getattr(service, name)}")


def _command(words: list[str] | None) -> list[str] | None:
    if not words:
        return None
    program = shutil.which(words[0])
    if program is None:
        raise ClusterError(f"--exec {words[0]}: no such program")
    return [str(Path(program).absolute()), *words[1:]]


def _pairs(words: list[str]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise ClusterError(f"{word}: expected KEY=VALUE")
    return dict(word.split("=", 1) for word in words)


def _per_component(words: list[str] | None) -> dict[str, list[str]] | None:
    if words is None:
        return None
    found: dict[str, list[str]] = {}
    for word in words:
        for component, argument in _pairs([word]).items():
            found.setdefault(component, []).append(argument)
    return found
