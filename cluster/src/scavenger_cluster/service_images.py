"""Images of the services, as their charts name them with `image.registry=localhost`: built once for the same sources.

`services/build-image.sh` prepares what goes into one, which takes seconds; so what decides whether an image is built
again is what that reads, and not what it makes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from scavenger_cluster import images, requirements
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.cluster import Cluster
from scavenger_cluster.errors import MissingRequirementError
from scavenger_cluster.shell import run

ROOT: Final = Path(__file__).resolve().parents[3]
IN_PYTHON: Final = ("admitter", "regulator", "prioritizer", "webhook", "board")
SCHEDULER: Final = "scheduler"
ALL: Final = (*IN_PYTHON, SCHEDULER)
PACKAGES: Final = ("api", "checkpoint", "domain", "kube", "runtime")
"""Those that services/build-image.sh takes from this checkout, beside the service itself."""


def version() -> str:
    """That of the checkout, which is the tag of all its images."""
    found = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def name_of(service: str, registry: str = "localhost") -> str:
    """The image of a service in a registry, as its chart asks for it."""
    return f"{registry}/scavenger/{service}:{version()}"


def archive(service: str, report: images.Report) -> Path:
    """The image of a service as an archive, built where there is none of these sources yet."""
    requirements.check_image_building()
    if service == SCHEDULER:
        program = ensure_tools(["scavenger-scheduler"], report)["scavenger-scheduler"]
        containerfile = ROOT / "services" / service / "Containerfile"
        return images.build_image(name_of(service), program.parent, report, containerfile=containerfile)
    folder, context = ROOT / "services" / service, ROOT / "dist" / "image" / service
    sources = images.Sources(sources_of(service), ROOT, partial(_prepare, service))
    containerfile = folder / "Containerfile"
    return images.build_image(name_of(service), context, report, containerfile=containerfile, sources=sources)


def sources_of(service: str) -> tuple[Path, ...]:
    """All that decides what is in the image of a service in Python."""
    files = (ROOT / "services" / "build-image.sh", ROOT / "pyproject.toml", ROOT / "uv.lock")
    folders = (*(ROOT / "packages" / name for name in PACKAGES), ROOT / "services" / service)
    return (*files, *(path for folder in folders for path in (folder / "pyproject.toml", folder / "src")))


def _prepare(service: str) -> None:
    """Write the context, for the Python of the local base, which is Debian's."""
    script = ROOT / "services" / "build-image.sh"
    run([script, service], env=os.environ | {"BUILDER": "none", "PYTHON_VERSION": "3.11"}, timeout=600)


def load(cluster: Cluster, services: Iterable[str] = ALL) -> None:
    """Have these images in every real node."""
    for service in services:
        cluster.load_image(archive(service, cluster.report))


def build(report: images.Report, services: Iterable[str] = ALL) -> None:
    """Build them for later. Raises MissingRequirementError where the machine lacks what it takes."""
    lacking = requirements.missing_image_packages()
    if lacking:
        raise MissingRequirementError(f"{' and '.join(lacking)} missing: apt-get install {' '.join(lacking)}")
    for service in services:
        archive(service, report)
