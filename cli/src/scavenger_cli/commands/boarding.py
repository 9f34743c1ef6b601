"""board: the page for cluster administrators, by a port-forward to its pod. It needs the right to forward a port."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from scavenger_api import names
from scavenger_kube.kinds import ObjectMeta, PodStatus, Struct, condition

from scavenger_cli import paths
from scavenger_cli.access import Access, cluster_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.objects import decode_items
from scavenger_cli.output import say

PORT: Final = 8090
"""Of the page, in its pod and here, unless told otherwise."""

SELECTOR: Final = f"app.kubernetes.io/name={names.BOARD}"
INSTALL: Final = (
    "install it: helm upgrade --install scavenger-board charts/scavenger-board -n scavenger-system "
    "--set global.image.registry=REGISTRY; where it runs in another namespace, add --system-namespace NAME"
)

FLAGS: Final = {
    "context": "--context",
    "kubeconfig": "--kubeconfig",
    "cluster": "--cluster",
    "server": "--server",
    "token": "--token",
    "act_as": "--as",
    "act_as_group": "--as-group",
    "act_as_uid": "--as-uid",
    "certificate_authority": "--certificate-authority",
    "insecure_skip_tls_verify": "--insecure-skip-tls-verify",
    "tls_server_name": "--tls-server-name",
}
"""Global flags that kubectl takes by the same names."""

_FORWARDING: Final = re.compile(r"Forwarding from (?:127\.0\.0\.1|\[::1\]):(\d+) ->")


class EnvVar(Struct, frozen=True, gc=False, rename="camel"):
    """A variable of a container's environment."""

    name: str = ""
    value: str = ""


class Container(Struct, frozen=True, gc=False, rename="camel"):
    """A container, as far as it is told how to serve."""

    env: tuple[EnvVar, ...] = ()


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a pod of the board."""

    containers: tuple[Container, ...] = ()


class Pod(Struct, frozen=True, gc=False, rename="camel"):
    """A pod of the board."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def serves(self) -> bool:
        """Whether it is ready, and stays."""
        ready = condition(self.status.conditions, "Ready")
        return ready is not None and ready.status == "True" and self.metadata.deletion_timestamp is None

    @property
    def settings(self) -> dict[str, str]:
        """What it is told by its environment."""
        return {one.name: one.value for container in self.spec.containers for one in container.env}


@cluster_command
def board(
    access: Access,
    port: Annotated[int, typer.Option("--port", help="Local port; 0 takes a free one.", min=0, max=65535)] = PORT,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Show the board, a page about the cluster.

    The board shows load, nodes, queues, why jobs wait, and which jobs left for which pods. The command forwards a port
    to the board's pod by kubectl, prints the address, and runs until Ctrl-C.

    \b
    Examples:
      kubectl sj board --open
      kubectl sj board --port 0 --context production
    """
    program = shutil.which("kubectl")
    if program is None:
        raise CliError("kubectl is not on the PATH", "it is what forwards the port: install it")
    pod = find(access)
    settings = pod.settings
    scheme = "https" if settings.get("SCAVENGER_ACCESS") == "token" else "http"
    remote = settings.get("SCAVENGER_PORT") or str(PORT)
    target = [f"--namespace={pod.metadata.namespace}", f"pod/{pod.metadata.name}", f"{port or ''}:{remote}"]
    code = forward([program, *global_flags(access.flags), "port-forward", *target], scheme, open_)
    if code:
        raise typer.Exit(code if code > 0 else ExitCode.ERROR)


def find(access: Access) -> Pod:
    """A pod of the board that serves. Raises CliError where there is none."""
    found = decode_items(access.client.get(paths.pods(access.system_namespace), {"labelSelector": SELECTOR}), Pod)
    serving = next((pod for pod in found if pod.serves), None)
    if serving is not None:
        return serving
    if found:
        where = found[0].metadata
        look = f"kubectl -n {where.namespace} describe pod {where.name}"
        raise CliError("no pod of the board is ready", f"look why: {look}")
    raise CliError(f"there is no pod of the board in namespace {access.system_namespace}", INSTALL, ExitCode.NOT_FOUND)


def global_flags(flags: Mapping[str, Any]) -> list[str]:
    """The global flags that were given, as kubectl takes them."""
    words = []
    for name, flag in FLAGS.items():
        value = flags.get(name)
        if value is True:
            words.append(flag)
        elif value:
            words += [f"{flag}={one}" for one in (value if isinstance(value, list | tuple) else [value])]
    return words


def forward(command: Sequence[str], scheme: str, open_: bool) -> int:
    """Run the port-forward until it ends or the user ends it; its exit code. Says the address as soon as it stands."""
    import subprocess
    import webbrowser

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = ""
        try:
            for line in process.stdout:  # to its end: it writes a line for each connection
                found = _FORWARDING.match(line)
                if found is not None and not url:
                    url = f"{scheme}://localhost:{found[1]}/"
                    say(f"The board: {url}   (Ctrl-C ends it)")
                    sys.stdout.flush()  # a program may read it as well
                    if open_:
                        webbrowser.open(url)
            return process.wait()
        finally:
            process.terminate()
