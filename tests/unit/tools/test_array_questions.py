"""Questions whether a job is an array are found however they are asked, and there are as many as are written down."""

from __future__ import annotations

import pytest

from tools import array_questions


@pytest.mark.parametrize(
    "source",
    [
        "a = job.spec.array is None",
        "a = spec.array is not None",
        "a = 1 if seen.job.spec.array else 2",
        "if (array := job.spec.array) is not None: pass",
        "a = not spec.array",
        "a = b and job.spec.array",
    ],
)
def test_a_question_is_found(source: str) -> None:
    assert list(array_questions.questions(source)) == [1]


@pytest.mark.parametrize("source", ["a = job.spec.array.tasks", "a = status.array is None", "a = job.spec.array"])
def test_what_asks_nothing_is_not_found(source: str) -> None:
    assert list(array_questions.questions(source)) == []


def test_there_are_as_many_as_are_written_down() -> None:
    assert array_questions.main() == 0


def test_one_more_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(array_questions, "QUESTIONS", array_questions.QUESTIONS - 1)
    assert array_questions.main() == 1
    assert "core/snapshots.py:" in capsys.readouterr().err
