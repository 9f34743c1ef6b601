"""A release in a registry of this machine, and a node that pulls from there what charts and pages name."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scavenger_cluster import Cluster, images, requirements, service_images, stack
from scavenger_cluster.state import LOOPBACK
from scavenger_testing import registry

from tools import cli_file, publish
from tools.release import Release, charts

REGISTRY_OF_THE_PAGES = "registry.example.com"
DOCKER_HUB = "docker.io"
AS_COUNTER = ("library/python:3.12-slim", "library/python:3.12", stack.COUNTER_IMAGE.removeprefix("localhost/"))
"""What pages and tests name, and the counter's image plays: it is Debian's Python and one file. All of it is pulled: a
kubelet that has pulled an image by one name does not take the same one, loaded by another name, for its own."""


@contextmanager
def published(cluster: Cluster) -> Iterator[str]:
    """Publish the components, the counter and the charts of this checkout to a registry on loopback; yield its address.

    Nodes reach that registry at the address of their network, and take it for the registry of the pages and for Docker
    Hub as well. So what a page names is pulled by the name that the page gives it.
    """
    requirements.install(requirements.missing_image_packages(), cluster.report, allowed=True)
    host = cluster.state.subnets.host
    with tempfile.TemporaryDirectory(prefix="scavenger-published-") as name:  # pytest would keep three of them
        folder = Path(name)
        with registry.serving(folder, LOOPBACK, host) as port:
            address = f"{LOOPBACK}:{port}"
            for known in (address, REGISTRY_OF_THE_PAGES, DOCKER_HUB, "localhost"):
                cluster.pull_from(known, f"{host}:{port}")
            _release(cluster, folder / "dist")
            assert publish.main([address, f"--dist={folder / 'dist'}"]) == 0
            counter = f"docker://{address}/scavenger/counter:{service_images.version()}"
            copy = ("skopeo", "copy", "--quiet", "--src-tls-verify=false", "--dest-tls-verify=false", counter)
            for image in AS_COUNTER:
                subprocess.run([*copy, f"docker://{address}/{image}"], check=True)
            yield address


def _release(cluster: Cluster, dist: Path) -> None:
    """What `make publish` takes, by the names that `make release` gives; the images are those that other tests load."""
    version = service_images.version()
    archives = {name: service_images.archive(name, cluster.report) for name in service_images.IN_PYTHON}
    archives["counter"] = images.build_image(stack.COUNTER_IMAGE, stack.COUNTER, cluster.report)
    (dist / "images").mkdir(parents=True)
    for name, archive in archives.items():
        file = f"scavenger-{name}-{version}-linux-{cli_file.architecture()}.oci.tar"
        (dist / "images" / file).symlink_to(archive)
    (dist / "charts").mkdir()
    charts(Release(version, epoch=0), dist / "charts")
