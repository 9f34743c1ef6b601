"""A release says what is in it, what is not and why, and its archives differ only where their content does."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cluster.errors import CommandError, MissingRequirementError

from tools import packing, release, version

EPOCH = 1_700_000_000


def archive(target: Path, names: list[str], time: int, mode: int, owner: str) -> Path:
    """An archive with these files, as somebody packed it at that time."""
    with tarfile.open(target, "w:gz" if target.suffix == ".tgz" else "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.mtime, info.mode, info.uname, info.uid, info.size = time, mode, owner, len(owner), len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    return target


@pytest.mark.parametrize("suffix", [".tgz", ".tar"])
def test_a_repacked_archive_is_the_same_whoever_packed_it(tmp_path: Path, suffix: str) -> None:
    first = archive(tmp_path / f"a{suffix}", ["chart/b", "chart/a"], 1, 0o644, "somebody")
    second = archive(tmp_path / f"b{suffix}", ["chart/a", "chart/b"], 2, 0o600, "else")
    made = [tmp_path / f"{name}-again{suffix}" for name in "ab"]
    for source, target in zip((first, second), made, strict=True):
        packing.repack(source, target, EPOCH)

    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as tar:
        found = [(one.name, one.mtime, one.mode, one.uid, one.uname) for one in tar.getmembers()]
        assert found == [(name, EPOCH, 0o644, 0, "") for name in ("chart/a", "chart/b")]
        content = tar.extractfile("chart/b")
        assert content is not None
        assert content.read() == b"chart/b"


def test_a_program_stays_one_and_a_link_is_refused(tmp_path: Path) -> None:
    packing.repack(archive(tmp_path / "a.tar", ["run"], 1, 0o700, "x"), tmp_path / "b.tar", EPOCH)
    with tarfile.open(tmp_path / "b.tar") as tar:
        assert tar.getmember("run").mode == 0o755
    with tarfile.open(tmp_path / "c.tar", "w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(tarfile.TarError, match="link is neither a file nor a folder"):
        packing.repack(tmp_path / "c.tar", tmp_path / "d.tar", EPOCH)


def writes(name: str) -> release.Part:
    def make(into: Path) -> None:
        (into / name).write_text(name)

    return make


def raises(error: Exception) -> release.Part:
    def make(into: Path) -> None:
        raise error

    return make


def test_what_cannot_be_made_here_is_said_and_the_rest_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {
        "wheels": writes("a.whl"),
        "images/one": raises(MissingRequirementError("buildah missing: apt-get install buildah")),
        "images/two": writes("two.tar"),
    }
    result = release.make_parts(parts, tmp_path)

    assert (result.code, [file.name for file in result.made]) == (2, ["a.whl", "two.tar"])
    assert release.told(result).splitlines() == [
        "2 files in dist/; their checksums are in dist/SHA256SUMS",
        "left out: images/one: buildah missing: apt-get install buildah",
    ]
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        *("wheels …", "wheels", "images/one …", "images/one", "images/two …", "images/two")
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (subprocess.CalledProcessError(1, ["uv"], stderr="no such package"), "no such package"),
        (CommandError(["buildah"], 125, "no space left"), "no space left"),
        (OSError("broken"), "broken"),
        (tarfile.TarError("a link"), "a link"),
    ],
)
def test_what_fails_is_told_last_with_the_reason_and_is_no_success(tmp_path: Path, error: Exception, said: str) -> None:
    parts = {"wheels": raises(error), "charts": raises(MissingRequirementError("no Go")), "sbom": writes("a.json")}
    result = release.make_parts(parts, tmp_path)
    assert (result.code, [file.name for file in result.made]) == (1, ["a.json"])
    last = release.told(result).partition("FAILED: ")[2]
    assert last.startswith("wheels: ")
    assert said in last


def test_nothing_half_made_is_left(tmp_path: Path) -> None:
    def half(into: Path) -> None:
        (into / "half.tar").write_text("")
        (into / "folder").mkdir()
        raise OSError("no space left")

    result = release.make_parts({"images/one": writes("one.tar"), "images/two": half}, tmp_path)
    assert [file.name for file in (tmp_path / "images").iterdir()] == ["one.tar"]
    assert result.made == [tmp_path / "images" / "one.tar"]


def test_nothing_of_the_last_release_is_in_the_next(tmp_path: Path) -> None:
    release.make_parts({"wheels": writes("old.whl"), "sbom": writes("kept.json")}, tmp_path)
    result = release.make_parts({"wheels": writes("new.whl")}, tmp_path)
    assert [file.name for file in (tmp_path / "wheels").iterdir()] == ["new.whl"]
    assert result.made == [tmp_path / "wheels" / "new.whl"]


def test_checksums_as_sha256sum_reads_them(tmp_path: Path) -> None:
    result = release.make_parts({"wheels": writes("b.whl"), "cli": writes("a")}, tmp_path)
    release.write_sums(result.made, tmp_path)
    lines = (tmp_path / "SHA256SUMS").read_text().splitlines()
    assert lines == [f"{hashlib.sha256(name[-1:].encode()).hexdigest()}  cli/a" for name in ("a",)] + [
        f"{hashlib.sha256(b'b.whl').hexdigest()}  wheels/b.whl"
    ]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], check=True, cwd=tmp_path)


def test_some_parts_by_name_or_by_folder() -> None:
    parts = release.parts_of(release.Release("1.0.0", EPOCH))
    assert list(release.chosen(parts, ["charts", "images/admitter"])) == ["images/admitter", "charts"]
    images = list(release.chosen(parts, ["images"]))
    assert {f"images/{service}" for service in ("admitter", "regulator", "prioritizer", "webhook", "board")} <= set(
        images
    )
    assert list(release.chosen(parts, [])) == list(parts)
    assert {part.partition("/")[0] for part in parts} == set(release.FOLDERS)
    with pytest.raises(ValueError, match=r"there is no part weels; there are: images/admitter, "):
        release.chosen(parts, ["weels"])


def test_the_time_is_that_of_the_commit_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "git", lambda *words: "1700000001" if "log" in words else "")
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert release.prepared("", "", dirty=False) == release.Release(version.current(), 1_700_000_001)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "17")
    assert release.prepared("b", "u", dirty=False) == release.Release(version.current(), 17, "b", "u")


def test_what_no_commit_has_is_not_released(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "git", lambda *words: " M README.md" if "status" in words else "1")
    assert release.main(["--only", "wheels"]) == 1
    assert "error: there are changes that no commit has" in capsys.readouterr().err
    assert release.prepared("", "", dirty=True).version == version.current()


def test_outside_of_a_checkout_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setitem(os.environ, "GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert release.main([]) == 1
    assert "error: a release is made from a commit" in capsys.readouterr().err


def test_the_distribution_of_the_command_line_needs_what_its_packages_need() -> None:
    """It has the packages of ours inside, and names all that they depend on beside each other."""
    projects = {
        name: tomllib.loads((release.ROOT / name / "pyproject.toml").read_text())
        for name in ("cli/distribution", "cli", "packages/api", "packages/domain", "packages/kube")
    }
    whole = projects.pop("cli/distribution")
    needed = {one for project in projects.values() for one in project["project"]["dependencies"]}
    ours = {project["project"]["name"] for project in projects.values()}
    assert set(whole["project"]["dependencies"]) == needed - ours
    assert whole["project"]["scripts"] == projects["cli"]["project"]["scripts"]
    inside = whole["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert set(inside.values()) == {name.replace("-", "_") for name in ours}


# --- the workflow of a forge ---

WORKFLOWS = sorted((release.ROOT / ".github" / "workflows").glob("*.yaml"))


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(file.read_text())["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_name_actions_by_commit(file: Path) -> None:
    used = [step["uses"] for step in steps(file) if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", one)] == []


def test_only_the_step_that_signs_has_the_key() -> None:
    (file,) = (one for one in WORKFLOWS if one.name == "release.yaml")
    having = [step for step in steps(file) if "RELEASE_KEY" in json.dumps(step) and "secrets." in json.dumps(step)]
    assert [step.get("name") for step in having if "RELEASE_KEY" in json.dumps(step["env"])] == ["Sign it"]
    assert file.read_text().count("secrets.RELEASE_KEY ") == 1
    assert "uses" not in having[0]


def test_the_workflow_publishes_whatever_a_user_verifies_with() -> None:
    (file,) = (one for one in WORKFLOWS if one.name == "release.yaml")
    said = [step.get("run", "") for step in steps(file)]
    (published,) = (run for run in said if "gh release create" in run)
    for part in ("SHA256SUMS.sig", "release.pub", "charts/*.tgz.sig", "signatures/*"):
        assert f"dist/{part}" in published
    verified = [place for place, run in enumerate(said) if "verify-release" in run]
    (pushed,) = (place for place, run in enumerate(said) if "make publish" in run)
    assert verified[0] < pushed < verified[1], "the files before the push, the registry after it"
