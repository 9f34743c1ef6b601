"""The version stands in one place, and wherever else it must stand it is the same."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from tools import version


def test_no_file_names_another_one() -> None:
    assert version.others() == []


def test_of_the_packages_in_the_lockfile_as_well() -> None:
    locked = tomllib.loads((version.ROOT / "uv.lock").read_text())["package"]
    ours = {package["version"] for package in locked if "registry" not in package["source"]}
    assert ours == {str(Version(version.current()))}, "as Python writes it"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that name the version, and nothing else."""
    for file in [version.ROOT / "pyproject.toml", *(file for file, _ in version.places(version.ROOT))]:
        target = tmp_path / file.relative_to(version.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return tmp_path


def test_another_one_is_written_everywhere(copy: Path) -> None:
    version.set_to("7.65.4-rc.1", copy)
    assert version.current(copy) == "7.65.4-rc.1"
    assert version.others(copy) == []
    for file in copy.rglob("*"):
        assert file.is_dir() or not re.search(
            rf"(?<![\d.]){re.escape(version.current())}(?![\d.])", file.read_text()
        ), file
    about = (copy / "charts" / "scavenger-admitter" / "Chart.yaml").read_text()
    assert about.count("ersion: 7.65.4-rc.1\n") == 3, "of the chart, of what it installs, and of the library in it"
    assert 'kubeVersion: ">=1.33.0-0"' in about


def test_a_place_that_was_forgotten_is_named(copy: Path) -> None:
    file = copy / "cli" / "pyproject.toml"
    file.write_text(file.read_text().replace(f'version = "{version.current()}"', 'version = "0.0.9"'))
    assert version.others(copy) == [f"cli/pyproject.toml: 0.0.9, and pyproject.toml has {version.current()}"]


@pytest.mark.parametrize(
    "wrong", ["", "v1.2.3", "1.2", "1.2.3 ", "latest", "1.2.3rc1", "1.2.3.dev1", "1.2.3-alpha.1-2"]
)
def test_what_is_no_version_is_refused(copy: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match="is no version such as"):
        version.set_to(wrong, copy)


def test_no_other_file_of_the_repository_has_an_image_of_ours_with_a_version() -> None:
    """Those in manifests/ are generated from the charts; tests may say what they like."""
    words = ["git", "grep", "-lE", rf"/scavenger/[a-z]+:{re.escape(version.current())}", "--", ":!manifests", ":!tests"]
    done = subprocess.run(words, cwd=version.ROOT, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        pytest.skip("not a git checkout")
    known = {str(file.relative_to(version.ROOT)) for file, _ in version.places(version.ROOT)}
    assert set(done.stdout.split()) <= known
