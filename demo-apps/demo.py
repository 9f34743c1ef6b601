"""The story of scavenger jobs on a real cluster, told by the commands that a user would type.

    make demo                          on a Kubernetes of its own on this machine, which it takes down again
    make demo CLUSTER=current          on the cluster of the current kubectl context; it asks first
    python demo-apps/demo.py [--keep] [--name NAME] [--nodes fake:1]

helm installs every chart, `kubectl sj run` submits the jobs of two teams, they share, give way, come back from their
checkpoints and finish. Exit code 0 means that every step was seen to happen.
"""

from __future__ import annotations

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import demo_current
import demo_loop
import demo_own
import demo_picture
import demo_story
from demo_install import Services
from demo_stage import ROOT, DemoError, Stage, console, say
from rich.markup import escape
from scavenger_cluster import cache
from scavenger_cluster.errors import ClusterError
from scavenger_kube.endpoint import KubeconfigError
from scavenger_kube.errors import ApiError

PICTURE = ROOT / "dist" / "demo-board.png"

NEXT_ON_YOURS = "next: `make up` keeps such a cluster, for docs/tutorial.md; docs/install.md installs it on yours"
NEXT_HERE = "next: docs/install.md installs it here for good, and docs/move-a-job.md makes a ScavengerJob of a Job"

Place = AbstractContextManager[tuple[Stage, Services]]


def main(words: list[str] | None = None) -> int:
    """Run the demo; 0 when all of it was seen to happen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster, and what is on it, and say how to use it"
    )
    own = parser.add_argument_group("on a cluster of its own")
    own.add_argument("--name", default="demo", help="name of the embedded cluster (default: demo)")
    # One node of one core: the story is about capacity that is not free.
    own.add_argument("--nodes", default="auto:1", help="one node, real:1 or fake:1 (default: what is possible)")
    current = parser.add_argument_group("on the cluster of the current kubectl context")
    current.add_argument("--current", action="store_true", help="play it there, and leave nothing of it")
    current.add_argument("--registry", default="", help="where its nodes find the images (default: loaded into them)")
    current.add_argument("--yes", action="store_true", help="do not ask")
    arguments = parser.parse_args(words)
    if arguments.current:
        place: Place = demo_current.cluster(arguments.registry, yes=arguments.yes, keep=arguments.keep)
    else:
        place = demo_own.cluster(arguments.name, arguments.nodes, keep=arguments.keep)
    # Also of what runs in the background, where SIGINT is ignored otherwise.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return perform(place, install=not arguments.current)


def end(number: int, _: object) -> None:
    """A signal ends the demo after it has cleared up."""
    raise KeyboardInterrupt(signal.Signals(number).name)


def perform(place: Place, *, install: bool) -> int:
    """Tell the story there, and say how it ended; the exit code."""
    try:
        with ThreadPoolExecutor(1) as pool, place as (stage, services):
            saved = story(stage, services, install=install)
            left = pool.submit(cache.describe)  # seconds of looking, while the cluster goes
    except demo_current.DeclinedError as declined:
        say(str(declined))
        return 0
    except KeyboardInterrupt:
        say("interrupted", "red")
        return 130
    except (DemoError, ClusterError, KubeconfigError, ApiError) as error:
        say(f"the demo FAILED: {escape(str(error))}", "bold red")
        return 1
    say("the whole story was seen to happen", "bold green")
    if saved:
        say(f"the board, as it was at the end: {saved}", "green")
    if install:
        say(left.result())
    say(NEXT_ON_YOURS if install else NEXT_HERE)
    return 0


def story(stage: Stage, services: Services, *, install: bool) -> Path | None:
    """All of it, on a cluster without these components; where the picture of the board is, if there is one.

    install: a browser, where there is none.
    """
    try:
        services.install(stage)
        demo_story.prepare(stage)
        demo_story.fill(stage)
        demo_story.share(stage)
        demo_story.measure(stage, services)
        sweep = demo_story.reclaim(stage)
        demo_story.displace(stage)  # meanwhile the regulator learns, and makes offers
        demo_loop.tell(stage, sweep=sweep)
        with ThreadPoolExecutor(1) as pool:
            interrupted = pool.submit(demo_story.interrupt, stage)
            saved = demo_picture.save(stage, services, PICTURE, install=install)  # while the last jobs run
            interrupted.result()
        demo_story.finish(stage)
        return saved
    except (DemoError, ApiError) as error:
        say(f"FAILED: {escape(str(error))}", "bold red")  # before anything is taken down
        console.print(stage.describe(), markup=False)
        raise


if __name__ == "__main__":
    sys.exit(main())
