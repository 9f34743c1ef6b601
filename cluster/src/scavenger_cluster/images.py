"""Images without a registry: the pause image, a Python base from Debian packages, Containerfiles on top."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scavenger_cluster.errors import ClusterError, CommandError
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.node_config import PAUSE_IMAGE
from scavenger_cluster.shell import run

SUITE = "bookworm"
BASE_PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
BASE_RECIPE = "2"
LAYER = "application/vnd.oci.image.layer.v1.tar"

Report = Callable[[str], None]


def pause_archive(program: Path) -> Path:
    """Return an image archive with nothing in it but the pause program; made once per program."""
    target = cache_dir() / "images" / f"pause-{_file_digest(program)[:16]}.tar"
    if not target.exists():
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            entry = tarfile.TarInfo("pause")
            entry.mode, entry.size = 0o755, program.stat().st_size
            with program.open("rb") as file:
                tar.addfile(entry, file)
        _publish(
            oci_archive(PAUSE_IMAGE, layer.getvalue(), {"Entrypoint": ["/pause"], "User": "65535:65535"}),
            target,
        )
    return target


def oci_archive(name: str, layer: bytes, config: Mapping[str, Any]) -> bytes:
    """Return an OCI archive of one layer; the same input gives the same bytes."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    layer_blob = blob(layer, LAYER)
    image = {
        "architecture": architecture,
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [layer_blob["digest"]]},
    }
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": blob(_json(image), "application/vnd.oci.image.config.v1+json"),
        "layers": [layer_blob],
    }
    entry = blob(_json(manifest), manifest_type) | {"annotations": {"io.containerd.image.name": name}}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [entry]}),
        **blobs,
    }
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()


def archive_names(archive: Path) -> list[str]:
    """Read the image names in an archive, OCI or Docker; they are what a pod has to ask for."""
    with tarfile.open(archive) as tar:
        members = {member.name.removeprefix("./"): member for member in tar.getmembers()}
        found: list[str] = []
        if "manifest.json" in members:
            for image in _member(tar, members["manifest.json"]):
                found += image.get("RepoTags") or []
        elif "index.json" in members:
            for manifest in _member(tar, members["index.json"])["manifests"]:
                notes = manifest.get("annotations", {})
                name = notes.get("io.containerd.image.name") or notes.get("org.opencontainers.image.ref.name")
                found += [name] if name else []
    if not found:
        raise ClusterError(f"{archive} holds no image with a name")
    return [normalized(name) for name in found]


def normalized(name: str) -> str:
    """Return the full image name, as containerd and the kubelet understand a short one."""
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost":
        name = f"docker.io/{name}"
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def context_key(context: Path, containerfile: Path, arguments: Mapping[str, str]) -> str:
    """Return a key over all a build can see: names, modes and contents of the context, and the arguments."""
    return _key(_context_files(context), context, containerfile, arguments)


def _key(files: Iterable[Path], root: Path, containerfile: Path, arguments: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps([BASE_RECIPE, SUITE, sorted(arguments.items())]).encode())
    digest.update(containerfile.read_bytes())
    for path in sorted(files):
        digest.update(f"\0{path.relative_to(root)}\0{path.lstat().st_mode}\0".encode())
        digest.update(str(path.readlink()).encode() if path.is_symlink() else path.read_bytes())
    return digest.hexdigest()[:24]


@dataclass(frozen=True)
class Sources:
    """What a context is made from, and how: of one that takes longer to prepare than to see whether it has changed."""

    paths: tuple[Path, ...]
    """Files and folders; their contents decide whether anything changed, in the place of the context's."""
    root: Path
    prepare: Callable[[], None]
    """Writes the context. Called only where there is something to build."""


def sources_key(sources: Sources, containerfile: Path, arguments: Mapping[str, str]) -> str:
    """The same key as `context_key`, over what the context would be made from."""
    files = [file for path in sources.paths for file in ([path] if path.is_file() else _context_files(path))]
    return _key(files, sources.root, containerfile, arguments)


def build_image(
    name: str,
    context: Path,
    report: Report,
    *,
    containerfile: Path | None = None,
    arguments: Mapping[str, str] | None = None,
    buildah_options: tuple[str, ...] = (),
    sources: Sources | None = None,
) -> Path:
    """Build a Containerfile from the local Python base and return the image archive.

    An unchanged context is not built again. The base is handed in as the build argument BASE.
    `buildah_options` (such as `--volume`) are not part of what decides whether anything changed.
    `sources`: the context is made from these, once it is known that an image has to be built.
    """
    file = containerfile or context / "Containerfile"
    given = dict(arguments or {})
    name = normalized(name)
    deciding = {**given, "image": name}
    key = sources_key(sources, file, deciding) if sources else context_key(context, file, deciding)
    target = cache_dir() / "images" / f"{name.replace('/', '_').replace(':', '_')}-{key}.tar"
    if target.exists():
        return target
    with locked(cache_dir() / "images.lock", lambda: report("waiting for another image build to finish")):
        if target.exists():  # whoever had the lock has built it
            return target
        base = _base_image(report)
        report(f"building image {name}")
        if sources:
            sources.prepare()
        values = [word for pair in ({"BASE": base} | given).items() for word in ("--build-arg", "=".join(pair))]
        command = [
            "build",
            "--isolation=chroot",
            "--pull-never",
            "--layers",
            f"--tag={name}",
            f"--file={file}",
        ]
        _buildah(*command, *values, *buildah_options, str(context))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        _buildah("push", name, f"oci-archive:{temporary}:{name}")
        for outdated in target.parent.glob(f"{target.name.removesuffix(f'{key}.tar')}*.tar"):
            outdated.unlink()
        temporary.replace(target)
    return target


def write_archive(
    name: str,
    context: Path,
    target: Path,
    report: Report,
    *,
    containerfile: Path,
    base: str | None,
    timestamp: int,
) -> None:
    """Build a Containerfile from nothing and write the image to an OCI archive, which holds only what follows from it.

    Nothing built before goes into it, and no image stays in the store. `base`: pulled where it is absent; None for the
    local Python base. `timestamp`: of the image and of all its files, seconds since 1970; the order and times of the
    archive's own entries are not fixed by it. CommandError.
    """
    made = f"localhost/scavenger/release:{os.getpid()}"
    with locked(cache_dir() / "images.lock", lambda: report("waiting for another image build to finish")):
        pull = "--pull-never" if base is None else "--pull"
        given = base or _base_image(report)
        # As one layer on top of the base, and without the history, which has digests of times and paths.
        alike = [f"--timestamp={timestamp}", "--layers=false", "--omit-history", "--no-cache"]
        options = [pull, f"--build-arg=BASE={given}", f"--tag={made}", f"--file={containerfile}"]
        try:
            _buildah("build", "--isolation=chroot", *alike, *options, str(context))
            _buildah("push", made, f"oci-archive:{target}:{name}")
        finally:
            with contextlib.suppress(CommandError):
                _buildah("rmi", made)


def _context_files(context: Path) -> list[Path]:
    ignored = {".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    found = []
    for folder, names, files in os.walk(context):
        names[:] = [name for name in names if name not in ignored]
        found += [Path(folder) / name for name in files]
    return found


def _base_image(report: Report) -> str:
    """Make the Python base image in buildah's store, unless it is there; returns its name."""
    recipe = hashlib.sha256(repr((SUITE, BASE_PACKAGES, BASE_RECIPE)).encode()).hexdigest()[:12]
    name = f"localhost/scavenger/python-base:{recipe}"
    if name in _buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
        return name
    report(f"making the Python base image from Debian {SUITE} packages (about a minute, once)")
    scratch = Path(tempfile.mkdtemp(dir=cache_dir(), prefix=".base-"))
    root = scratch / "root"
    try:
        run(
            ["debootstrap", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}", SUITE, root],
            timeout=1800,
        )
        _tidy_base(root)
        container = _buildah("from", "scratch").strip()
        _buildah("add", container, str(root), "/")
        _buildah("config", "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
        _buildah("config", "--env=LANG=C.UTF-8", "--cmd=python3", container)
        _buildah("commit", "--rm", container, name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return name


def _tidy_base(root: Path) -> None:
    """Make the base look like the usual Python image: `python`, and pip that may install."""
    for folder in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True, exist_ok=True)
    for marker in (root / "usr/lib").glob("python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    for link in ("python", "python3"):
        with contextlib.suppress(FileExistsError):
            (root / "usr/local/bin" / link).symlink_to("/usr/bin/python3")


def _buildah(*words: str) -> str:
    store = cache_dir() / "buildah"
    store.mkdir(parents=True, exist_ok=True)
    stores = [f"--root={store / 'root'}", f"--runroot={store / 'run'}"]
    # In a mount namespace of its own: what buildah mounts and forgets vanishes with it.
    alone = ["unshare", "--mount", "--propagation", "private"]
    return run([*alone, "buildah", *stores, *words], timeout=1800)


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    file = tar.extractfile(member)
    return json.loads(file.read()) if file else {}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _publish(content: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(temporary).replace(target)
