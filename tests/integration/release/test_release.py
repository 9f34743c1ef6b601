"""`make release` in two clones of one commit makes the same bytes, and what it makes can be used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.version import Version
from scavenger_cluster import requirements
from scavenger_cluster.build import ensure_tools
from scavenger_testing import registry

from tools.cli_file import architecture

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(900), pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_IMAGES = "wheels charts cli sbom"
SOMEBODY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
    ("NAME", "test"), ("EMAIL", "test@example.org"), ("DATE", "2026-01-02T03:04:05Z"))}  # fmt: skip


def git(folder: Path, *words: str) -> str:
    """Without the user's own settings, but in this checkout: there they may be what makes it a safe one for git."""
    environment = os.environ | SOMEBODY | ({} if folder == ROOT else {"GIT_CONFIG_GLOBAL": os.devnull})
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True, env=environment
    ).stdout


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Two clones, in folders of other names, of one commit: this checkout as it stands, whether committed or not. They
    go afterwards: with environments and images they are large, and pytest would keep those of three runs."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    first = tmp_path_factory.mktemp("first") / "scavenger"
    second = tmp_path_factory.mktemp("second") / "another-name"
    git(ROOT, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(first))
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").rstrip("\0").split("\0"):
        source, target = ROOT / name, first / name
        target.unlink(missing_ok=True)
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    git(first, "add", "--all")
    git(first, "commit", "--quiet", "--allow-empty", "--message=as it stands")
    git(first, "clone", "--quiet", "--no-hardlinks", str(first), str(second))
    yield [first, second]
    for clone in (first, second):
        shutil.rmtree(clone)


def release(clone: Path, parts: str, umask: int) -> str:
    """Make parts of a release; what it printed."""
    ours = ("MAKE", "MFLAGS", "VIRTUAL_ENV", "PYTEST", "PYTHONDONTWRITEBYTECODE", "SOURCE_DATE_EPOCH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    words = ["make", "--no-print-directory", "release", f"PARTS={parts}"]
    done = subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True, check=False, umask=umask)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=clone / "dist", check=True)
    return done.stdout


def sums(clone: Path) -> dict[str, str]:
    """The checksum of each file of the release."""
    lines = (clone / "dist" / "SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def test_wheels_charts_command_line_and_sboms_are_the_same_from_two_clones(clones: list[Path], tmp_path: Path) -> None:
    said = release(clones[0], WITHOUT_IMAGES, 0o022)
    release(clones[1], WITHOUT_IMAGES, 0o077)
    first, second = map(sums, clones)

    assert first == second
    found = {name.partition("/")[0] for name in first}
    assert found == set(WITHOUT_IMAGES.split())
    assert "2026-01-02T03:04:05Z" in said, "the time of the commit"
    assert "left out" not in said
    dist = clones[0] / "dist"
    wheels_are_whole(dist / "wheels")
    (whole,) = (dist / "wheels").glob("kubectl_sj-*.whl")
    uv = str(ROOT / "tools" / "uv")
    command = [uv, "run", "--quiet", "--isolated", "--no-project", f"--with={whole}", "kubectl-sj"]
    done = subprocess.run([*command, "version", "--client"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"Client: {version(clones[0])}\n"), done.stderr
    charts_install(dist / "charts", tmp_path)
    done = subprocess.run([dist / "cli" / "kubectl-sj", "version", "--client"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"Client: {Version(version(clones[0]))}\n")
    for file in (dist / "sbom").iterdir():
        assert json.loads(file.read_text())["components"], file


def version(clone: Path) -> str:
    return subprocess.run(
        ["sed", "-nE", 's/^version = "(.*)"$/\\1/p', "pyproject.toml"], cwd=clone, capture_output=True, text=True
    ).stdout.strip()


def wheels_are_whole(folder: Path) -> None:
    """One of each package that is shipped; the embedded cluster's has the modules that it builds from."""
    names = {wheel.name.partition("-")[0] for wheel in folder.iterdir()}
    assert {"scavenger_api", "scavenger_admitter", "scavenger_cli", "scavenger_tuner"} <= names
    assert "scavenger_testing" not in names
    (cluster,) = folder.glob("scavenger_cluster-*.whl")
    with zipfile.ZipFile(cluster) as wheel:
        assert "scavenger_cluster/go/scheduler/go.mod" in wheel.namelist()


def charts_install(folder: Path, home: Path) -> None:
    """Each is what helm takes, from the file alone."""
    helm = ensure_tools(["helm"], print)["helm"]
    packed = sorted(folder.iterdir())
    assert len(packed) == len(list(ROOT.glob("charts/*/Chart.yaml"))) - 1, "all but the library"
    for chart in packed:
        words = [str(helm), "template", "release", str(chart), "--set=global.image.registry=registry.example.com"]
        if re.match(r"scavenger-(webhook-)?\d", chart.name):
            inside = "" if "webhook" in chart.name else "scavenger-webhook."
            words.append(f"--set={inside}admission.caBundle=none")
        done = subprocess.run(words, capture_output=True, text=True, cwd=home, check=False)
        assert done.returncode == 0, done.stderr
        with tarfile.open(chart) as tar:
            assert {(one.uid, one.uname, one.isfile()) for one in tar.getmembers()} == {(0, "", True)}


@pytest.mark.skipif(os.geteuid() != 0, reason="images are built as root")
def test_an_image_is_the_same_from_two_clones(clones: list[Path]) -> None:
    if requirements.missing_image_packages():
        pytest.skip("buildah and debootstrap are not installed")
    for clone, umask in zip(clones, (0o022, 0o077), strict=True):
        release(clone, "images/admitter", umask)
    first, second = map(sums, clones)
    assert first == second
    (name,) = first
    with tarfile.open(clones[0] / "dist" / name) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        (manifest,) = json.load(index)["manifests"]
    tag = f"localhost/scavenger/admitter:{version(clones[0])}"
    assert manifest["annotations"]["org.opencontainers.image.ref.name"] == tag


@pytest.mark.skipif(os.geteuid() != 0, reason="images are built as root")
def test_a_release_is_signed_published_and_installed_from_its_registry(clones: list[Path], tmp_path: Path) -> None:
    lacking = [name for name in ("buildah", "debootstrap", "skopeo") if shutil.which(name) is None]
    if lacking:
        pytest.skip(f"{' and '.join(lacking)} missing: apt-get install {' '.join(lacking)}")
    clone = clones[0]
    assert "by tag, as dist/images has no image of it: board," in release(clone, "images/admitter charts", 0o022)
    with registry.serving(tmp_path, "127.0.0.1") as port:
        where = f"127.0.0.1:{port}/team"
        key = tmp_path / "release.key"
        openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", key)
        openssl("ec", "-in", key, "-pubout", "-out", tmp_path / "release.pub")
        makes(clone, "sign", f"REGISTRY={where}", f"KEY={key}")
        publishes(clone, where)
        makes(clone, "verify-release", f"REGISTRY={where}", f"KEY={tmp_path / 'release.pub'}")
        assert verified(clone, where, tmp_path / "release.pub") == "verified\n"
        installs(clone, where, tmp_path)
        openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", tmp_path / "other.key")
        openssl("ec", "-in", tmp_path / "other.key", "-pubout", "-out", tmp_path / "other.pub")
        assert "is not signed by the key" in verified(clone, where, tmp_path / "other.pub")


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def makes(clone: Path, *words: str) -> str:
    """What `make` printed."""
    done = subprocess.run(["make", "--no-print-directory", *words], cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def verified(clone: Path, where: str, key: Path) -> str:
    """What somebody learns who has the registry and the public key alone."""
    words = ["-m", "tools.verify_release", where, f"--key={key}", f"--from-registry={version(clone)}"]
    done = subprocess.run(
        [str(ROOT / "tools" / "uv"), "run", "--quiet", "--group", "release", "python", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def publishes(clone: Path, where: str) -> None:
    """Twice: what is there already stays as it is."""
    for _ in ("new", "known"):
        said = makes(clone, "publish", f"REGISTRY={where}")
    assert f"oci://{where}/charts/scavenger" in said
    pushed = (clone / "dist" / "PUSHED").read_text().splitlines()
    assert f"{digest(clone).removeprefix('sha256:')}  {where}/scavenger/admitter:{version(clone)}" in pushed
    assert len(pushed) == 2 * (len(list((clone / "dist" / "charts").glob("*.tgz"))) + 1), "each with its signature"


def digest(clone: Path) -> str:
    """Of the image of the admitter."""
    (archive,) = (clone / "dist" / "images").iterdir()
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        (manifest,) = json.load(index)["manifests"]
    return str(manifest["digest"])


def installs(clone: Path, where: str, home: Path) -> None:
    """helm takes the chart from the registry, and the chart the image by its digest, where that can run."""
    helm = ensure_tools(["helm"], print)["helm"]
    chart, options = f"oci://{where}/charts/scavenger-admitter", ("--plain-http", "--version", version(clone))
    words = [str(helm), "template", "release", chart, *options, f"--set=global.image.registry={where}"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=home, check=False)
    assert done.returncode == 0, done.stderr
    (deployment,) = (one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == f"{where}/scavenger/admitter@{digest(clone)}"
    assert spec["nodeSelector"] == {"kubernetes.io/arch": architecture()}
    assert f"image: {where}/scavenger/admitter:mine" in subprocess.run(
        [*words, "--set=image.tag=mine"], capture_output=True, text=True, cwd=home, check=True
    ).stdout.replace('"', "")
