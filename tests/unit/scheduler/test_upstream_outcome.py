"""What is made of the output of Kubernetes' own tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from tests.integration.scheduler import upstream
from tests.integration.scheduler.upstream import Build, Outcome

Asked = list[tuple[str, Sequence[str]]]
Playing = Callable[..., Asked]
BUILD = Build(Path("overlay.json"), Path("go.mod"))
CASE = "podgroup/TestGroups/one_(of:_2)"
OTHER = "podgroup/TestGroups/two"


def events(ends: Iterable[tuple[str, str]]) -> list[str]:
    """As `go test -json` prints them: package/Test/case, and how it ended."""
    lines = []
    for name, action in ends:
        package, _, test = name.partition("/")
        event = {"Package": f"{upstream.TESTS}/{package}", "Action": action, "Elapsed": 1.5}
        lines.append(json.dumps(event | ({"Test": test} if test else {})))
    return lines


def of(*ends: tuple[str, str]) -> Outcome:
    return upstream.parse(events(ends))


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Playing:
    """Has `go test` come to these outcomes, one after the other; what it was asked for."""

    def play(*outcomes: Outcome) -> list[tuple[str, Sequence[str]]]:
        asked: Asked = []
        coming = iter(outcomes)

        def go_test(build: Build, pattern: str, packages: Iterable[str]) -> Outcome:
            asked.append((pattern, list(packages)))
            return next(coming)

        monkeypatch.setattr(upstream, "_go_test", go_test)
        return asked

    return play


def test_what_fails_once_is_run_again_by_itself(playing: Playing) -> None:
    first = of((CASE, "fail"), (OTHER, "pass"), ("podgroup/TestGroups", "fail"), ("podgroup", "fail"))
    asked = playing(first, of((CASE, "pass"), ("podgroup/TestGroups", "pass")))
    outcome = upstream.run(BUILD)
    assert outcome.failed == {}
    assert outcome.passed == {CASE, OTHER, "podgroup/TestGroups"}, "the test of which it was a case has passed as well"
    assert asked[1:] == [(r"^TestGroups$/^one_\(of:_2\)$", ["/podgroup"])]


def test_what_fails_twice_has_failed(playing: Playing) -> None:
    both = ((CASE, "fail"), (OTHER, "fail"), ("podgroup/TestGroups", "fail"), ("podgroup", "fail"))
    playing(of(*both), of((CASE, "pass")), of((OTHER, "fail")))
    outcome = upstream.run(BUILD)
    assert set(outcome.failed) == {OTHER, "podgroup/TestGroups", "podgroup"}


def test_a_package_that_does_not_build_is_not_run_again(
    playing: Playing,
) -> None:
    asked = playing(of(("podgroup", "fail")))
    assert set(upstream.run(BUILD).failed) == {"podgroup"}
    assert len(asked) == 1


def test_a_test_of_the_package_without_a_folder_is_looked_for_there(
    playing: Playing,
) -> None:
    line = json.dumps({"Package": upstream.TESTS, "Test": "TestAlone", "Action": "fail", "Elapsed": 1})
    asked = playing(upstream.parse([line]), of(("preemption/TestAlone", "pass")))
    upstream.run(BUILD)
    assert asked[1] == ("^TestAlone$", [""])
