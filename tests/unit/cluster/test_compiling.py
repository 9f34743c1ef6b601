"""How far a build is, from what `go list` and `go build -v` say."""

from __future__ import annotations

from pathlib import Path

from scavenger_cluster.compiling import LINK_BYTES, Compilation, in_words, weights


def listing(folder: Path, **stale: str) -> str:
    return "".join(f"example.org/{name}\t{word}\t{folder}\t{name}.go,absent.go\n" for name, word in stale.items())


def test_only_what_the_build_cache_lacks_is_counted(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 30), ("c", 50)):
        (tmp_path / f"{name}.go").write_text("x" * size)
    found = weights(listing(tmp_path, a="stale", b="", c="stale"))
    assert found == {"example.org/a": 10, "example.org/c": 50}
    assert weights("") == {}
    assert weights("unsafe\tstale\t/nowhere\t\n") == {"unsafe": 0}


def test_progress_goes_by_the_size_of_the_source_and_counts_links() -> None:
    build = Compilation({"a": LINK_BYTES, "b": 3 * LINK_BYTES, "c": 4 * LINK_BYTES}, programs=2)
    assert build.share() == 0
    assert build.describe(5) == "compiled 0 of 3 packages, 0%"
    assert build.begin("a")
    assert not build.begin("go: downloading example.org/a v1.0.0")
    assert build.share() == 0.1
    assert build.describe(10) == "compiled 1 of 3 packages, 10%, about 90 s to go"
    assert build.begin("c")
    assert build.begin("c"), "a package that is named twice counts once"
    assert build.share() == 0.5
    assert build.describe(400) == "compiled 2 of 3 packages, 50%, about 7 min to go"
    assert build.begin("b")
    assert build.share() == 0.8, "the programs have still to be linked"
    assert Compilation({}, programs=0).share() == 1


def test_durations_as_one_says_them() -> None:
    assert [in_words(seconds) for seconds in (1, 42, 99, 110, 3600)] == ["5 s", "40 s", "100 s", "2 min", "60 min"]
