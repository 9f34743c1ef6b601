"""`kubectl sj` as one file, with the archive and the manifest that krew installs: dist/cli/.

    uv run --group release python tools/cli_file.py [--base-url URL]

The file holds the command line and all it depends on, in the versions of the lockfile, and needs a Python of the same
minor version on the same platform, as msgspec and pydantic are compiled. Builds of it are reproducible.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
OUTPUT: Final = ROOT / "dist" / "cli"
NAME: Final = "kubectl-sj"
OURS: Final = ("api", "cli", "domain", "kube")
EPOCH: Final = 315532800
"""1980-01-01, the first moment a zip file knows: of all files, so that the same ones come out as the same archive."""
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""As Go, krew and images call machines; those that are not here have the same name everywhere."""
NOT_SHIPPED: Final = ("__pycache__", "*.pth", "_virtualenv.py", "direct_url.json", "uv_cache.json", "RECORD")
"""What an environment has beside its packages, and what in these names the folder or the moment they were made in."""
DESCRIPTION: Final = """\
Submit, watch and understand scavenger jobs. These are low-priority batch jobs that run on idle capacity of a cluster.
They leave when regular workloads need the capacity, and continue from their last checkpoint.
"""


def architecture() -> str:
    """What this machine is called in the names of files and in a manifest for krew."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def install(environment: Path) -> Path:
    """Install the command line, and nothing else, into an empty environment; the folder of its packages.

    Raises subprocess.CalledProcessError.
    """
    words = ["sync", "--package=scavenger-cli", "--no-editable", "--frozen", "--no-dev", "--quiet"]
    variables = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(environment), "UV_PYTHON": sys.executable}
    variables.pop("VIRTUAL_ENV", None)
    # uv takes a package of ours as built before for as long as its pyproject.toml is the same.
    words += [f"--refresh-package=scavenger-{name}" for name in OURS]
    command = [str(ROOT / "tools" / "uv"), *words]
    subprocess.run(command, check=True, cwd=ROOT, env=variables)
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def bundle(target: Path) -> None:
    """Write the file. Raises subprocess.CalledProcessError."""
    interpreter = f"/usr/bin/env python{sys.version_info.major}.{sys.version_info.minor}"
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder) / "packages"
        shutil.copytree(install(Path(folder) / "environment"), packages, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
        for path in sorted(packages.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            os.utime(path, (EPOCH, EPOCH))
        words = ["--site-packages", str(packages), "--console-script", NAME, "--python", interpreter]
        command = [sys.executable, "-m", "shiv.cli", *words, "--reproducible", "--output-file", str(target)]
        subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})


def archive(files: list[Path], target: Path) -> str:
    """Pack files into a .tar.gz that is the same whenever it is made; its SHA-256."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for file in files:
            info = tarfile.TarInfo(file.name)
            info.size, info.mtime, info.mode = file.stat().st_size, EPOCH, 0o755 if file.name == NAME else 0o644
            with file.open("rb") as content:
                tar.addfile(info, content)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return hashlib.sha256(target.read_bytes()).hexdigest()


def krew_manifest(version: str, uri: str, sha256: str, system: str, machine: str) -> dict[str, Any]:
    """The manifest of the plugin (krew.googlecontainertools.github.com/v1alpha2) for one platform."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "sj"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Low-priority jobs on idle capacity",
            "description": DESCRIPTION,
            "caveats": f"Needs python{sys.version_info.major}.{sys.version_info.minor} on PATH.",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": machine}},
                    "uri": uri,
                    "sha256": sha256,
                    "bin": NAME,
                    "files": [{"from": name, "to": "."} for name in (NAME, "LICENSE")],
                }
            ],
        },
    }


def write(into: Path, base_url: str | None) -> None:
    """Write the file and the archive into a folder, and the manifest where it is known where the archive will be.

    Raises subprocess.CalledProcessError.
    """
    version = tomllib.loads((ROOT / "cli" / "pyproject.toml").read_text())["project"]["version"]
    system, machine = platform.system().lower(), architecture()
    bundle(into / NAME)
    packed = into / f"{NAME}-{system}-{machine}.tar.gz"
    digest = archive([into / NAME, ROOT / "LICENSE"], packed)
    if base_url is not None:
        manifest = krew_manifest(version, f"{base_url.rstrip('/')}/{packed.name}", digest, system, machine)
        (into / "sj.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))


def main() -> int:
    """Write the file, the archive and the manifest; the exit code of the process."""
    parser = argparse.ArgumentParser(description="kubectl sj as one file.")
    parser.add_argument("--base-url", default="file://" + str(OUTPUT), help="where the archive will be published")
    base_url = parser.parse_args().base_url
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    write(OUTPUT, base_url)
    for path in sorted(OUTPUT.iterdir()):
        sys.stdout.write(f"{path.relative_to(ROOT)}\t{path.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
