"""Everything of a release, in dist/: wheels, charts, the command line as one file, SBOMs, images, and their checksums.

    uv run --group release python -m tools.release [--only PART ...] [--base IMAGE] [--base-url URL]

Made again from the same commit, by the same Python, buildah and base image, it is the same to the byte: all times are
that of the commit (SOURCE_DATE_EPOCH, where it is set), owners and modes are fixed, entries sorted. Where a part cannot
be made on this machine, the others are: the last lines say what was left out and why. tools/sign.py signs it: each
signature is another one.

Exit code 1 when something failed, 2 when something was left out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import yaml
from scavenger_cluster import images, requirements
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.errors import ClusterError, MissingRequirementError

from tools import cli_file, oci, packing, sbom, sign, version
from tools.sign import DIST, SUMS

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("wheels", "charts", "cli", "sbom", "images")
NOT_SHIPPED: Final = frozenset({"scavenger-testing"})
IN_PYTHON: Final = ("admitter", "regulator", "prioritizer", "webhook", "board", "tuner")
"""Images of which services/build-image.sh prepares the context."""
DEBIAN_PYTHON: Final = "3.11"
"""Of the local base, which is Debian's."""


@dataclass(frozen=True)
class Release:
    """What is released. epoch: the time of all files, seconds since 1970. base: image under those in Python, "" for the
    local one. base_url: where the archive of the command line will be published, "" where that is not known.
    other_images: a folder with images for other architectures, None for none."""

    version: str
    epoch: int
    base: str = ""
    base_url: str = ""
    other_images: Path | None = None


@dataclass
class Result:
    """What came of the parts. left_out, failed: part and reason."""

    made: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def code(self) -> int:
        """The exit code of the process."""
        return 1 if self.failed else 2 if self.left_out else 0


Part = Callable[[Path], None]
"""Writes the files of a part into a folder. Raises MissingRequirementError where the machine lacks what it takes."""


def say(line: str) -> None:
    """Tell how far it is, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(*words: str | Path, **variables: str) -> None:
    """Run a program in the checkout. MissingRequirementError where there is none, CalledProcessError where it fails."""
    try:
        subprocess.run(words, check=True, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise MissingRequirementError(f"{error.filename} is not installed") from error


# --- parts ---


def wheels(release: Release, into: Path) -> None:
    """A wheel of every package, but for what only tests need, and one of the whole command line."""
    for file in sorted(ROOT.glob("*/pyproject.toml")) + sorted(ROOT.glob("*/*/pyproject.toml")):
        name = tomllib.loads(file.read_text())["project"]["name"]
        if name not in NOT_SHIPPED:
            say(f"  {name}")
            words = ("build", "--quiet", "--wheel", "--no-create-gitignore", f"--out-dir={into}", file.parent)
            run(ROOT / "tools" / "uv", *words, SOURCE_DATE_EPOCH=str(release.epoch))


def charts(release: Release, into: Path) -> None:
    """The charts as a registry and `helm install` take them; what the library has is in each.

    A chart names its image by the digest of the image in dist/, and the architectures that there are of it.
    """
    helm = ensure_tools(["helm"], say)["helm"]
    images = {one.name: one for one in oci.images(into.parent)}
    by_tag = set()
    for about in sorted(ROOT.glob("charts/*/Chart.yaml")):
        if yaml.safe_load(about.read_text())["type"] == "library":
            continue
        say(f"  {about.parent.name}")
        with tempfile.TemporaryDirectory() as folder:
            copied = shutil.copytree(about.parent, Path(folder) / about.parent.name)
            for inside in sorted(copied.rglob("Chart.yaml")):
                component = inside.parent.name.removeprefix("scavenger-")
                image = images.get(f"scavenger/{component}:{release.version}")
                if image is not None:
                    pin(inside, image)
                elif component in (*IN_PYTHON, *sbom.IN_GO):
                    by_tag.add(component)
            run(helm, "package", copied, f"--destination={folder}")
            (packed,) = Path(folder).glob("*.tgz")
            packing.repack(packed, into / packed.name, release.epoch)
    if by_tag:
        say(f"  by tag, as dist/images has no image of it: {', '.join(sorted(by_tag))}")


def pin(about: Path, image: oci.Artifact) -> None:
    """Write into a Chart.yaml which image the chart is for."""
    notes = {oci.IMAGE_DIGEST: image.digest, oci.IMAGE_ARCHITECTURES: ",".join(image.architectures)}
    text = about.read_text()
    lines = "".join(f'  {name}: "{value}"\n' for name, value in notes.items())
    about.write_text(text.replace("\nannotations:\n", f"\nannotations:\n{lines}", 1))


def cli(release: Release, into: Path) -> None:
    """`kubectl sj` as one file, and an archive of it; with a URL, also the manifest for krew."""
    cli_file.write(into, release.base_url or None)
    if not release.base_url:
        say("  no manifest for krew: it names where the archive is published (BASE_URL=…)")


def sboms(release: Release, into: Path) -> None:
    """What is in each image, and in the command line."""
    for component in sbom.COMPONENTS:
        say(f"  {component}")
        sbom.write(component, into)


def image(component: str, release: Release, into: Path) -> None:
    """An image as an OCI archive, built from nothing but its base."""
    requirements.check_image_building()
    lacking = requirements.missing_image_packages()
    if lacking:
        raise MissingRequirementError(f"{' and '.join(lacking)} missing: apt-get install {' '.join(lacking)}")
    if component in IN_PYTHON:
        given = {} if release.base else {"PYTHON_VERSION": DEBIAN_PYTHON}
        run(ROOT / "services" / "build-image.sh", component, BUILDER="none", **given)
    name = f"localhost/scavenger/{component}:{'demo' if component == 'counter' else release.version}"
    target = into / f"scavenger-{component}-{release.version}-linux-{cli_file.architecture()}.oci.tar"
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "image.tar"
        context, containerfile = context_of(component, Path(folder) / "context")
        base, epoch = release.base or None, release.epoch
        images.write_archive(name, context, archive, say, containerfile=containerfile, base=base, timestamp=epoch)
        packing.repack(archive, target, epoch)


def images_of_others(release: Release, into: Path) -> None:
    """Images of this version that machines of other architectures have made. OSError where there are none."""
    folder = release.other_images or into
    found = sorted(folder.glob(f"scavenger-*-{release.version}-linux-*.oci.tar"))
    others = [file for file in found if not file.name.endswith(f"-linux-{cli_file.architecture()}.oci.tar")]
    if not others:
        raise OSError(f"{folder} has no image of {release.version} for another architecture")
    for file in others:
        shutil.copy(file, into)


def context_of(component: str, empty: Path) -> tuple[Path, Path]:
    """The folder that an image is built from, and its Containerfile. empty: for the one program of an image that has no
    more, which everybody may read and run, whatever the umask here."""
    if component in IN_PYTHON:
        prepared = DIST / "image" / component
        return prepared, prepared / "Containerfile"
    if component in sbom.IN_GO:
        home, name = sbom.IN_GO[component], f"scavenger-{component}"
        program = ensure_tools([name], say)[name]
    else:
        home = ROOT / "demo-apps" / "counter"
        program = home / "counter.py"
    empty.mkdir()
    shutil.copy(program, empty)
    (empty / program.name).chmod(0o755)
    return empty, home / "Containerfile"


def parts_of(release: Release) -> dict[str, Part]:
    """All parts, in the order they are made; images/… are one each."""
    pictures: dict[str, Part] = {
        f"images/{name}": partial(image, name, release) for name in (*IN_PYTHON, *sbom.IN_GO, "counter")
    }
    if release.other_images is not None:
        pictures["images/others"] = partial(images_of_others, release)
    return pictures | {
        "wheels": partial(wheels, release),
        "charts": partial(charts, release),  # after the images, which they name by digest
        "cli": partial(cli, release),
        "sbom": partial(sboms, release),
    }


# --- all of it ---


def chosen(parts: Mapping[str, Part], only: Sequence[str]) -> dict[str, Part]:
    """The parts of these names; `images` is all of them. ValueError for a name that there is not."""
    unknown = [name for name in only if not any(name in (part, part.partition("/")[0]) for part in parts)]
    if unknown:
        raise ValueError(f"there is no part {', '.join(unknown)}; there are: {', '.join(parts)}")
    return {part: make for part, make in parts.items() if not only or part in only or part.partition("/")[0] in only}


def make_parts(parts: Mapping[str, Part], dist: Path) -> Result:
    """Make them one after the other, whatever becomes of the others, each folder from nothing."""
    result = Result()
    for folder in {part.partition("/")[0] for part in parts}:
        shutil.rmtree(dist / folder, ignore_errors=True)
    for part, make in parts.items():
        into = dist / part.partition("/")[0]
        into.mkdir(parents=True, exist_ok=True)
        before = set(into.iterdir())
        say(f"{part} …")
        began = time.monotonic()
        try:
            make(into)
        except MissingRequirementError as error:
            result.left_out[part] = str(error)
            say(f"{part}: left out: {error}")
        except (ClusterError, OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
            result.failed[part] = f"{error}\n{getattr(error, 'stderr', '') or ''}".strip()
            say(f"{part}: FAILED")
        files = sorted(set(into.iterdir()) - before)
        if part in result.left_out or part in result.failed:
            remove(files)
            continue
        result.made += files
        size = sum(file.stat().st_size for file in files) / 1e6
        say(f"{part}: {len(files)} files, {size:.1f} MB, {time.monotonic() - began:.0f} s")
    return result


def remove(half_made: Sequence[Path]) -> None:
    """Files and folders that nobody should take for a part of the release."""
    for path in half_made:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def write_sums(files: Sequence[Path], dist: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it in dist/."""
    lines = []
    for name, file in sorted((file.relative_to(dist).as_posix(), file) for file in files):
        with file.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {name}\n")
    (dist / SUMS).write_text("".join(lines))


def told(result: Result) -> str:
    """The last lines: what there is, and what there is not."""
    lines = [f"{len(result.made)} files in dist/; their checksums are in dist/{SUMS}"]
    lines += [f"left out: {part}: {reason}" for part, reason in result.left_out.items()]
    lines += [f"FAILED: {part}: {reason}" for part, reason in result.failed.items()]
    return "\n".join(lines)


def epoch() -> int:
    """The time of the commit, unless SOURCE_DATE_EPOCH says another. ValueError where there is neither."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    return int(git("log", "-1", "--format=%ct") or "0")


def git(*words: str) -> str:
    """What git says of the checkout. ValueError where this is none."""
    try:
        return subprocess.run(["git", *words], check=True, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError("a release is made from a commit: this is no git checkout") from error


def prepared(base: str, base_url: str, dirty: bool, other_images: Path | None = None) -> Release:
    """What is to be released; ValueError where that is not one thing."""
    if not dirty and git("status", "--porcelain"):
        raise ValueError("there are changes that no commit has; commit them, or try it out with --dirty")
    wrong = version.others()
    if wrong:
        raise ValueError("\n".join(wrong))
    return Release(version.current(), epoch(), base, base_url, other_images)


def main(words: list[str] | None = None) -> int:
    """The command line; the exit code of the process."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="such as wheels, images, images/admitter")
    parser.add_argument("--base", default="", help="image under those in Python, by digest (default: a local one)")
    parser.add_argument("--base-url", default="", help="where the archive of the command line will be published")
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="dist/images of machines of other architectures")
    parser.add_argument("--dirty", action="store_true", help="also with changes that no commit has")
    arguments = parser.parse_args(words)
    try:
        release = prepared(arguments.base, arguments.base_url, arguments.dirty, arguments.images)
        parts = chosen(parts_of(release), arguments.only)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    say(f"release {release.version}, all times {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(release.epoch))}")
    result = make_parts(parts, DIST)
    write_sums(result.made, DIST)
    sign.remove(DIST)
    say(told(result))
    say("not signed: make sign REGISTRY=… KEY=…")
    return result.code


if __name__ == "__main__":
    sys.exit(main())
