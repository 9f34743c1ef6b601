"""The cache of a tool in a new checkout begins with that of another, and no half of one is ever used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import seeded

NOW = 1_700_000_000.0


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    return tmp_path / "seeds" / "lab.tar"


def cache(checkout: Path, text: str = "1") -> Path:
    folder = checkout / ".lab"
    (folder / "3.11").mkdir(parents=True)
    (folder / "3.11" / "one.db").write_text(text)
    os.utime(folder / "3.11" / "one.db", (NOW, NOW))
    return folder


def test_another_checkout_has_the_same_files_of_the_same_times(tmp_path: Path, seed: Path) -> None:
    assert seeded.pack(cache(tmp_path / "a"), seed, NOW)
    (tmp_path / "b").mkdir()
    assert seeded.unpack(seed, tmp_path / "b" / ".lab")
    copied = tmp_path / "b" / ".lab" / "3.11" / "one.db"
    assert (copied.read_text(), copied.stat().st_mtime) == ("1", NOW)
    assert [path.name for path in (tmp_path / "b").iterdir()] == [".lab"]
    assert [path.name for path in seed.parent.iterdir()] == ["lab.tar"]


def test_a_cache_that_is_there_stays(tmp_path: Path, seed: Path) -> None:
    seeded.pack(cache(tmp_path / "a"), seed, NOW)
    own = cache(tmp_path / "b", "2")
    assert not seeded.unpack(seed, own)
    assert (own / "3.11" / "one.db").read_text() == "2"


def test_a_copy_is_made_again_after_a_day(tmp_path: Path, seed: Path) -> None:
    first, second = cache(tmp_path / "a"), cache(tmp_path / "b", "2")
    assert seeded.pack(first, seed, NOW)
    made = seed.stat().st_mtime
    assert not seeded.pack(second, seed, made + seeded.DAY - 1)
    assert seeded.pack(second, seed, made + seeded.DAY)
    assert seeded.unpack(seed, tmp_path / ".lab")
    assert (tmp_path / ".lab" / "3.11" / "one.db").read_text() == "2"


@pytest.mark.parametrize("share", [0, 0.5])
def test_half_a_copy_is_none(tmp_path: Path, seed: Path, share: float) -> None:
    seeded.pack(cache(tmp_path / "a", "1" * 30_000), seed, NOW)
    seed.write_bytes(seed.read_bytes()[: int(seed.stat().st_size * share)])
    (tmp_path / "b").mkdir()
    assert not seeded.unpack(seed, tmp_path / "b" / ".lab")
    assert list((tmp_path / "b").iterdir()) == []


def test_nothing_to_copy_and_no_copy_are_no_errors(tmp_path: Path, seed: Path) -> None:
    assert not seeded.pack(tmp_path / "absent", seed, NOW)
    assert not seeded.unpack(seed, tmp_path / ".lab")


def test_the_command_says_how_it_ended(tmp_path: Path) -> None:
    environment = os.environ | {"SCAVENGER_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(Path.cwd())}
    lines = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        code = 2 if name == "a" else 1
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tools.seeded",
                ".lab",
                "sh",
                "-c",
                f"mkdir -p .lab; echo x >> .lab/log; exit {code}",
            ],
            cwd=tmp_path / name,
            env=environment,
            check=False,
        )
        assert done.returncode == code
        lines.append((tmp_path / name / ".lab" / "log").read_text().count("x"))
    assert lines == [1, 1, 2], "a crash leaves nothing"
