"""What becomes of 240 batch scripts: how many keep their meaning, and that the others are told why."""

from __future__ import annotations

import pytest
from scavenger_cli.lint.check import check
from scavenger_cli.slurm import Submission, converted
from scavenger_domain.pod_security import Level

from .scripts import ALL_SHARES, ARRAYS, HARMLESS, SIZE, Wanted, has, kind_of_array, scripts

SCRIPTS = scripts()


def test_the_scripts_have_the_shares_that_were_counted() -> None:
    assert len(SCRIPTS) == SIZE >= 200
    for feature, share in ALL_SHARES.items():
        found = sum(has(number, feature) for number in range(SIZE))
        assert abs(100 * found / SIZE - share) <= 1, feature
    kinds = [kind_of_array(number) for number in range(SIZE) if has(number, "array")]
    for kind, share in ARRAYS.items():
        assert abs(100 * kinds.count(kind) / len(kinds) - share) <= 2, kind


@pytest.mark.parametrize(("text", "wanted"), SCRIPTS, ids=[f"work-{number}" for number in range(SIZE)])
def test_what_comes_out(text: str, wanted: Wanted) -> None:
    made, lines = converted(text, Submission(image="work:1"))
    spec = made["spec"]
    assert spec.get("parallelism", 1) == wanted.pods
    assert spec["resources"]["requests"] == wanted.requests
    assert spec.get("array") == wanted.array
    assert spec.get("activeDeadlineSeconds") == wanted.deadline
    assert tuple(spec["command"][: len(wanted.interpreter)]) == wanted.interpreter
    begun = [next((one for one in wanted.told if line.startswith(one)), line) for line in lines]
    assert sorted(set(begun)) == sorted(set(wanted.told)), lines
    problems = [one for one in check(made, Level.RESTRICTED)[0] if "memory" not in one.message]
    assert problems == []


def test_nine_of_ten_that_need_no_modules_keep_their_meaning() -> None:
    own = [wanted for _, wanted in SCRIPTS if not wanted.modules]
    changed = [wanted.told for wanted in own if not {*wanted.told} <= {*HARMLESS}]
    assert len(own) - len(changed) >= 0.9 * len(own), changed
    assert all({*told} & {"--nodes", "srun"} for told in changed), "and nothing else changes a meaning"
