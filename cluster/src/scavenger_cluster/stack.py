"""What this repository puts on a cluster: definitions, roles, services as processes, images of the demo applications.

    python -m scavenger_cluster.stack up|down|images|prepare [--name NAME] [--nodes NODES]

The services run as processes of this machine under their own service accounts, with the rights of the manifests and no
more; only their Deployments are left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import yaml
from scavenger_kube.errors import ApiError

from scavenger_cluster import admission, images, node_config, requirements, service_images
from scavenger_cluster.build import SNAPSHOT, TOOLS, ensure_tools
from scavenger_cluster.cluster import Cluster
from scavenger_cluster.errors import ClusterError, MissingRequirementError
from scavenger_cluster.services import SYSTEM_NAMESPACE
from scavenger_cluster.shell import run, succeeds
from scavenger_cluster.waiting import READY_SECONDS, wait_for

ROOT: Final = Path(__file__).resolve().parents[3]
MANIFESTS: Final = ROOT / "manifests"
SERVICES: Final = ("admitter", "regulator", "prioritizer", "webhook")
"""In the order they are started: each works without the later ones."""
OPTIONAL: Final = ("board",)
"""Those that are started where somebody asks for them by name."""

TRY: Final = """\
Then try:

  kubectl sj run hello --image none --cpu 1 --memory 64Mi --dry-run -o yaml
  kubectl sj top
  kubectl sj list -A
"""

TRY_REAL: Final = """\
  kubectl apply -f demo-apps/counter/job.yaml
  make images CLUSTER={name} && kubectl apply -f demo-apps/gromacs/job.yaml    # GROMACS, on water
"""
"""With real nodes, from the root of the repository."""

COUNTER: Final = ROOT / "demo-apps" / "counter"
COUNTER_IMAGE: Final = "localhost/scavenger/counter:demo"
SNAPSHOT_IMAGE: Final = "localhost/scavenger/snapshot:demo"
GROMACS_IMAGE: Final = "localhost/scavenger/gromacs:demo"
PROGRAMS: Final = {
    "gromacs": (
        "packages/checkpoint/src/scavenger_checkpoint",
        "demo-apps/water/scavenger_water",
        "demo-apps/gromacs/scavenger_gromacs",
    ),
    "mpi": (
        "packages/checkpoint/src/scavenger_checkpoint",
        "demo-apps/mpi/scavenger_mpi",
        "demo-apps/mpi/heat.py",
    ),
    "openmm": (
        "demo-apps/openmm/requirements.txt",
        "packages/checkpoint/src/scavenger_checkpoint",
        "demo-apps/water/scavenger_water",
        "demo-apps/openmm/scavenger_openmm",
    ),
    "pytorch": (
        "packages/checkpoint/src/scavenger_checkpoint",
        "demo-apps/pytorch/scavenger_pytorch",
        "LICENSE",
    ),
}
"""Further demo applications, and what of this repository their Containerfiles copy, by the same paths."""
NO_IMAGE: Final = "--set=image.registry=localhost"
"""For helm, where a chart wants to know an image and nothing is rendered that has one."""

NO_AUTHORITY: Final = "--set=admission.caBundle=none"
"""For helm, where nothing is rendered that has a caBundle. Without it the chart looks its authority up in a cluster."""

RANKING: Final = (
    ("mutatingadmissionpolicybinding", "scavenger-pods-rank"),
    ("mutatingadmissionpolicy", "scavenger-pods-rank"),
    ("validatingadmissionpolicybinding", "scavenger-pods-warning"),
    ("validatingadmissionpolicy", "scavenger-pods-warning"),
    ("validatingadmissionpolicybinding", "scavenger-classes-warning"),
    ("validatingadmissionpolicy", "scavenger-classes-warning"),
)
"""The policies of `pods.defaulting: policy` and `class`, kind and name; bindings first."""

ADOPT: Final = "--set=global.adopt.enabled=true"
"""For helm, where batch/v1 Jobs of served namespaces are adopted."""

COSTS: Final = ("--set=global.disruptionCosts.pods=true", "--set=global.disruptionCosts.workloads=true")
"""For helm, where other controllers are told what regular pods would lose."""

GUARD_OF_JOBS: Final = ("guard-adopted", "guard-workloads", "guard-pods")
"""Templates of scavenger-base that know which namespaces are served."""

RANKING_JOBS: Final = ("prioritizer", "regulator")
"""Services that may read Jobs where these are adopted."""

ADOPTING: Final = (
    ("mutatingadmissionpolicybinding", "scavenger-adopt-labelled"),
    ("mutatingadmissionpolicybinding", "scavenger-adopt-all"),
    ("mutatingadmissionpolicy", "scavenger-adopt"),
    ("validatingadmissionpolicybinding", "scavenger-not-adopted"),
    ("validatingadmissionpolicy", "scavenger-not-adopted"),
)
"""The policies of `global.adopt.enabled`, kind and name; bindings first."""

FIXED_LEVELS: Final = {
    "SCAVENGER_PERIOD": "6",
    "SCAVENGER_CPU_SAMPLES": "1",
    "SCAVENGER_LEVEL_STEP": "0",
    "SCAVENGER_HISTORY_MIN_SAMPLES": "100000",
}
"""Settings of a regulator that decides every few seconds, by the initial levels, whatever it learns."""


def python_path(program: str) -> str:
    """PYTHONPATH of one of PROGRAMS as a process of this machine, as its image has it: where its packages stand."""
    packages = [ROOT / part for part in PROGRAMS[program] if (ROOT / part).is_dir()]
    return os.pathsep.join(str(package.parent) for package in packages)


def offer(cpu: int, memory: int = 0) -> list[str]:
    """Arguments of a kubelet that offers so many millicores, and MiB of memory (0: all there is), whatever the machine
    has: loads in percent are then the same everywhere, and the control plane has the rest."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    rest = {
        "cpu": (1000 * (os.cpu_count() or 1) - cpu, "m"),
        "memory": (found - memory - node_config.KEPT_FREE if memory else 0, "Mi"),
    }
    reserved = ",".join(f"{resource}={amount}{unit}" for resource, (amount, unit) in rest.items() if amount > 0)
    return [f"--system-reserved={reserved}"] if reserved else []


def existing_services(names: Sequence[str] = SERVICES) -> list[str]:
    """The services of this checkout that have roles to run under and a program to run."""
    return [
        name
        for name in names
        if (MANIFESTS / name / "rbac.yaml").is_file() and find_spec(f"scavenger_{name}.__main__") is not None
    ]


def install(cluster: Cluster, root: Path = ROOT) -> None:
    """Apply the CRDs, and when they are served the namespace, the PriorityClasses, the guard, the default queue and
    every service's roles. root: of the checkout whose manifests these are."""
    for part in ("crds", "base", *existing_services((*SERVICES, *OPTIONAL))):
        install_part(cluster, part, root)


def install_part(cluster: Cluster, part: str, root: Path = ROOT) -> None:
    """Apply what one chart has but for its workload: of a service, its roles and its ConfigMap of last words.

    Args:
        cluster: to change.
        part: `crds`, `base` or the name of a service.
        root: of the checkout whose manifests these are.
    """
    folder = root / "manifests" / part
    files = [str(folder / f"{name}.yaml") for name in ("rbac", "last-words")]
    chosen = (
        ["-k", str(folder)] if part in ("crds", "base") else [f"-f{file}" for file in files if Path(file).is_file()]
    )
    cluster.kubectl("apply", "--server-side", "--force-conflicts", *chosen)
    if part == "crds":
        wait_for("the definitions to be served", lambda: serves_definitions(cluster), timeout=READY_SECONDS)
    elif part == "webhook":
        admission.make_authority(cluster)


def serves_definitions(cluster: Cluster) -> bool:
    """Whether the API server serves our kinds, and tells of them. For a moment after a definition is Established it may
    still say that there is no such kind."""
    return succeeds([*cluster.kubectl_command, "get", "scavengerjobs,scavengerqueues"])


def lift_guard(cluster: Cluster, *policies: str) -> None:
    """Let anybody write what policies of the guard keep to the services, for trials that write it themselves. Without
    names, all policies of the guard."""
    names = [f"scavenger-guard-{name}" for name in policies]
    kind = "validatingadmissionpolicybindings"
    cluster.kubectl("delete", kind, *(names or ["--selector", "app.kubernetes.io/component=guard"]))


def allow_reclaimed(cluster: Cluster) -> None:
    """The regulator's roles and policies as its chart has them with `reclaimed.enabled`; manifests/ have it off."""
    text = reclaimed_rules(cluster.report)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)


def reclaimed_rules(report: Callable[[str], None]) -> str:
    """These roles and policies, as YAML. `report`: told when helm has to be built first."""
    options = (NO_IMAGE, "--set=reclaimed.enabled=true")
    return rendered("scavenger-regulator", report, *options, templates=("rbac", "policies"))


def allow_snapshots(cluster: Cluster) -> None:
    """The admitter's roles as its chart has them with `settings.snapshotImage`; manifests/ have none."""
    options = (NO_IMAGE, f"--set=settings.snapshotImage={SNAPSHOT_IMAGE}")
    text = rendered("scavenger-admitter", cluster.report, *options, templates=("rbac",))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)


def adopt_jobs(cluster: Cluster, *options: str) -> None:
    """Have batch/v1 Jobs of served namespaces adopted, and let those who rank running jobs read them: as the charts
    have it with `global.adopt.enabled`.

    manifests/ have it off. `options`: of helm. Undone by `adopt_no_jobs`.
    """
    words = (NO_IMAGE, ADOPT, "--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", *options)
    policy = rendered("scavenger-admitter", cluster.report, *words, templates=("adopt",))
    roles = (
        rendered(f"scavenger-{name}", cluster.report, NO_IMAGE, ADOPT, templates=("rbac",)) for name in RANKING_JOBS
    )
    text = "\n---\n".join([_guard_of_served(cluster, *options), policy, *roles])
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)


def _guard_of_served(cluster: Cluster, *options: str) -> str:
    """The policies that know which namespaces are served, as YAML."""
    return rendered("scavenger-base", cluster.report, ADOPT, *options, templates=GUARD_OF_JOBS)


def tell_costs(cluster: Cluster) -> None:
    """Let the prioritizer tell other controllers what regular pods would lose, as the charts have it with
    `global.disruptionCosts`. manifests/ have it off. Undone by `tell_no_costs`."""
    guard = rendered("scavenger-base", cluster.report, *COSTS, templates=("guard-pods", "guard-costs"))
    roles = rendered("scavenger-prioritizer", cluster.report, NO_IMAGE, *COSTS, templates=("rbac",))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=f"{guard}\n---\n{roles}")


def tell_no_costs(cluster: Cluster) -> None:
    """As manifests/ have it."""
    for file in ("base/guard-pods.yaml", "prioritizer/rbac.yaml"):
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS / file))


def adopt_jobs_by_webhook(cluster: Cluster, *options: str) -> None:
    """The same by the webhook, which must be running, in the place of the policy. Undone by `rank_by_webhook` and
    `adopt_no_jobs`."""
    _delete(cluster, ADOPTING[:3])
    words = (NO_IMAGE, NO_AUTHORITY, ADOPT, f"--set=admission.clientCA={_ANY_CLIENT_CA}", *options)
    configurations = rendered("scavenger-webhook", cluster.report, *words, templates=("configurations",))
    admission.apply(cluster, f"{_guard_of_served(cluster, *options)}\n---\n{configurations}")


_ANY_CLIENT_CA: Final = "-----BEGIN CERTIFICATE-----"
"""The webhook is told which clients may ask it by its environment (`admission.environment`)."""


def _delete(cluster: Cluster, objects: Iterable[tuple[str, str]]) -> None:
    for kind, name in objects:
        cluster.kubectl("delete", kind, name, "--ignore-not-found")


def adopt_no_jobs(cluster: Cluster) -> None:
    """As manifests/ have it."""
    _delete(cluster, ADOPTING)
    for name in GUARD_OF_JOBS:
        file = str(MANIFESTS / "base" / f"{name}.yaml")
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", file)
    for name in RANKING_JOBS:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS / name / "rbac.yaml"))


def rank_by_policy(cluster: Cluster, *options: str) -> None:
    """Have the API server rank ordinary pods by a policy, as the webhook's chart has it with `pods.defaulting: policy`;
    manifests/ have them sent to the webhook. `options`: of helm. Undone by `rank_by_webhook`.
    """
    _rank_by(cluster, "policy", *options)


def rank_by_class(cluster: Cluster) -> None:
    """Have nobody look at ordinary pods, as with `pods.defaulting: class`. Undone by `rank_by_webhook`."""
    _rank_by(cluster, "class")


def _rank_by(cluster: Cluster, way: str, *options: str) -> None:
    """By a way that sends no pods, in the place of all others."""
    chart = "scavenger-webhook"
    # It is about pods only: quotas are an option.
    cluster.kubectl("delete", "mutatingwebhookconfiguration", chart, "--ignore-not-found")
    words = (NO_IMAGE, NO_AUTHORITY, f"--set=pods.defaulting={way}", *options)
    admission.apply(cluster, rendered(chart, cluster.report, *words, templates=(f"pods-{way}",)))
    for kind, name in RANKING:
        if (way == "class") != (name == "scavenger-classes-warning"):
            cluster.kubectl("delete", kind, name, "--ignore-not-found")


def ranks_pods(cluster: Cluster) -> str:
    """Who ranks ordinary pods by the chart's own choice (`pods.defaulting: auto`) on this cluster as it is now: class,
    policy or webhook. Raises CommandError with what helm says."""
    here = (f"--kubeconfig={cluster.kubeconfig}", "--dry-run=server", "--is-upgrade")
    text = rendered("scavenger-webhook", cluster.report, NO_IMAGE, NO_AUTHORITY, *here)
    kinds = {document["kind"] for document in yaml.safe_load_all(text) if document}
    ways = {"MutatingWebhookConfiguration": "webhook", "MutatingAdmissionPolicy": "policy"}
    return next((way for kind, way in ways.items() if kind in kinds), "class")


def rendered(chart: str, report: Callable[[str], None], *options: str, templates: Sequence[str] = ()) -> str:
    """What a chart says, as YAML. `report`: told when helm has to be built first. `options`: of `helm template`.
    `templates`: only these. Raises CommandError with what helm says."""
    helm = ensure_tools(["helm"], report)["helm"]
    files = [f"--show-only=templates/{name}.yaml" for name in templates]
    where = (chart, ROOT / "charts" / chart, f"--namespace={SYSTEM_NAMESPACE}")
    return run([helm, "template", *where, *options, *files])


def rank_by_webhook(cluster: Cluster) -> None:
    """Have ordinary pods sent to the webhook again, which must be running."""
    _delete(cluster, RANKING)
    admission.activate(cluster, MANIFESTS / "webhook")


def start(
    cluster: Cluster,
    names: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
    root: Path = ROOT,
) -> None:
    """Start services and wait until each is ready. One that runs otherwise is stopped first.

    Args:
        cluster: where they run.
        names: of the services; None: all that exist.
        settings: environment of all.
        root: of the checkout whose code runs, with the dependencies of this one.
    """
    chosen = names if names is not None else existing_services()
    code = {} if root == ROOT else {"PYTHONPATH": os.pathsep.join(str(path) for path in _packages(root))}
    environments = {name: {**_defaults(cluster, name), **code, **(settings or {})} for name in chosen}
    for name, environment in environments.items():  # all at once: what they load takes seconds, and nobody waits
        cluster.service_start(name, environment=environment, wait=None)
    for name, environment in environments.items():
        cluster.service_start(name, environment=environment, wait="readyz")
        if name == "webhook":
            admission.activate(cluster, root / "manifests" / name)


def _packages(root: Path) -> list[Path]:
    """The folders of a checkout in which Python finds the services."""
    return sorted(path for folder in ("packages", "services") for path in (root / folder).glob("*/src"))


def _defaults(cluster: Cluster, name: str) -> dict[str, str]:
    """What a service must be told about this cluster."""
    if name == "regulator" and not cluster.state.metrics:
        return {"SCAVENGER_SOURCE": "requests"}  # without metrics it would be blind, and nothing would start
    if name == "webhook":
        return admission.environment(cluster)
    if name == "board":
        return {"SCAVENGER_PORT": "0"}  # a free one, as there may be several clusters: its log says which
    return {}


@contextmanager
def images_meanwhile(report: Callable[[str], None], *services: str) -> Iterator[None]:
    """Make the image of the counter demo, and of services, while the body does something else, such as to compile.

    The first time Debian's packages are fetched and unpacked for it, which leaves a core idle. Where images cannot be
    used, for want of real nodes or of packages, none is made. Raises what either raises.
    """
    if not images_possible(report):
        yield
        return

    def make() -> None:
        images.build_image(COUNTER_IMAGE, COUNTER, report)
        for service in services:
            service_images.archive(service, report)

    with ThreadPoolExecutor(1) as pool:
        made: Future[None] = pool.submit(make)
        yield
        made.result()


def images_possible(report: Callable[[str], None]) -> bool:
    """Whether there can be real nodes and images here, after the packages for both have been installed."""
    if requirements.obstacles():
        return False
    packages = [*requirements.missing_node_packages(), *requirements.missing_image_packages()]
    try:
        requirements.install(packages, report, allowed=True)  # one after the other: apt-get has one lock
    except MissingRequirementError:  # whether it matters, `up` decides, and says so
        return False
    return True


def prepare(report: Callable[[str], None]) -> None:
    """Get all that takes minutes the first time and is cached from then on: packages, programs, images."""
    with images_meanwhile(report, *service_images.ALL):
        ensure_tools(TOOLS, report)


def build_images(cluster: Cluster) -> str:
    """Build the image of the counter demo on the local base and load it into the real nodes; returns its name."""
    return cluster.build_image(COUNTER_IMAGE, COUNTER)


def build_snapshot_image(cluster: Cluster) -> str:
    """Build the image of `snap` and load it into the real nodes; returns its name."""
    binary = ensure_tools([SNAPSHOT.name], cluster.report)[SNAPSHOT.name]
    # The folder of a program in the cache has nothing else.
    return cluster.build_image(SNAPSHOT_IMAGE, binary.parent, containerfile=ROOT / "snapshot" / "Containerfile")


def build_gromacs_image(cluster: Cluster) -> str:
    """Build the image of GROMACS and its wrapper, and load it into the real nodes; returns its name."""
    return build_program_image(cluster, "gromacs")


def build_program_image(cluster: Cluster, name: str) -> str:
    """Build the image of one of PROGRAMS and load it into the real nodes; returns its name.

    The first time Debian's packages are fetched for it. Its context is the root of the repository, of which it sees
    what it copies: nothing else is a reason to build it again.
    """
    with program_context(name) as context:
        containerfile = ROOT / "demo-apps" / name / "Containerfile"
        return cluster.build_image(f"localhost/scavenger/{name}:demo", context, containerfile=containerfile)


@contextmanager
def program_context(name: str) -> Iterator[Path]:
    """A folder with what the Containerfile of one of PROGRAMS copies, and nothing else; it goes afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"scavenger-{name}-") as folder:
        for part in PROGRAMS[name]:
            target = Path(folder) / part
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / part, target)
        yield Path(folder)


def up(cluster: Cluster, nodes: str) -> None:
    """Bring up a cluster with everything of this repository, and say how to use it."""
    with images_meanwhile(cluster.report):
        cluster.up(nodes)
    install(cluster)
    if cluster.state.metrics:  # what is really used is known, so that it can be said what is reserved and idle
        allow_reclaimed(cluster)
    start(cluster, settings={"SCAVENGER_RECLAIMED": str(cluster.state.metrics).lower()})
    if cluster.state.real:
        build_images(cluster)


def down(cluster: Cluster) -> None:
    """End the services and the cluster, and leave nothing behind."""
    cluster.down()


def main(words: list[str] | None = None) -> int:
    """The command line; 1 with one line of what went wrong and what to do."""
    parser = argparse.ArgumentParser(prog="python -m scavenger_cluster.stack", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "images", "prepare"))
    parser.add_argument("--name", default="scavenger", help="name of the cluster (default: scavenger)")
    parser.add_argument("--nodes", default="auto", help="as in `scavenger-cluster up` (default: auto)")
    arguments = parser.parse_args(words)
    cluster = Cluster(arguments.name, report=lambda line: print(line, flush=True))  # noqa: T201
    try:
        if arguments.command == "prepare":
            prepare(cluster.report)
        elif arguments.command == "up":
            up(cluster, arguments.nodes)
            sys.stdout.write(f"\nReady. Paste these lines:\n\n{paste_line(cluster)}\n{path_line(cluster)}\n\n{TRY}")
            if cluster.state.real:
                sys.stdout.write(TRY_REAL.format(name=cluster.name))
        elif arguments.command == "down":
            down(cluster)
        else:
            build_images(cluster)
            build_gromacs_image(cluster)
    except (ClusterError, ApiError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def paste_line(cluster: Cluster) -> str:
    """The shell line that points kubectl (and puts the one built here on PATH, where there is none) at the cluster."""
    return f"export KUBECONFIG={cluster.kubeconfig}"


def path_line(cluster: Cluster) -> str:
    """The shell line by which kubectl finds its plugin `kubectl sj`, and the shell the kubectl built here."""
    return f"export PATH={Path(sys.executable).parent}:$PATH:{Path(cluster.kubectl_command[0]).parent}"


if __name__ == "__main__":
    sys.exit(main())
