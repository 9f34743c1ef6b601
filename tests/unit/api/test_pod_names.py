"""What pods are called: no two of different pods, none that a StatefulSet makes, none too long for a label."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api import names, pod_names
from scavenger_api.indexes import MAX_TASKS
from scavenger_api.pod_names import Parts, host_name, parts_of, pod_name, run_suffix, task_suffix

GUARD = Path(__file__).parents[3] / "charts/scavenger-base/templates/guard-pods.yaml"
LOWER = string.ascii_lowercase + string.digits

hostile = st.sampled_from(
    ["a", "a-1", "a-1-x2345", "a-1-x2345-0", "x2345", "a-x2345", "a-1-23456", "a-1-abcde", "a-01", "1", "1-1-xbcdf"]
)
labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", fullmatch=True)
jobs = hostile | labels
indexes = st.sampled_from([0, 1, 10, 23456, MAX_TASKS - 1]) | st.integers(0, MAX_TASKS - 1)
of_tasks = st.builds(task_suffix, st.uuids().map(str), jobs, indexes.map(lambda last: last + 1))
of_runs = st.integers(0, 2**53).map(run_suffix)
suffixes = of_tasks | of_runs


@given(jobs, indexes, suffixes)
def test_a_name_says_what_it_was_made_of(job: str, index: int, suffix: str) -> None:
    name = pod_name(job, index, suffix)
    assert parts_of(name, job) == Parts(index, suffix)
    assert name.startswith(host_name(job, index) + "-")


@given(st.tuples(jobs, indexes, suffixes), st.tuples(jobs, indexes, suffixes))
def test_two_pods_have_two_names(one: tuple[str, int, str], other: tuple[str, int, str]) -> None:
    """Also where one job is called as a pod of another one is: `a-1-x2345` beside the array `a`."""
    assert (pod_name(*one) == pod_name(*other)) is (one == other)


@given(jobs, indexes, suffixes, jobs, st.integers(0, 2**31))
def test_no_statefulset_makes_such_a_name(job: str, index: int, suffix: str, other: str, ordinal: int) -> None:
    name = pod_name(job, index, suffix)
    assert name != f"{other}-{ordinal}"
    assert not name.rpartition("-")[2].isdecimal(), "a StatefulSet of whatever name would make it"


@given(jobs, indexes, suffixes, jobs, st.text(pod_names.GENERATED, min_size=5, max_size=5), indexes)
def test_the_job_controller_makes_none_for_a_job_of_another_name(
    job: str, index: int, suffix: str, other: str, drawn: str, member: int
) -> None:
    """An Indexed Job. For one of the same name it makes none either: there is one Job of a name at a time."""
    if other != job:
        assert pod_name(job, index, suffix) != f"{other}-{member}-{drawn}"


@given(of_tasks, of_runs)
def test_the_two_forms_never_meet(task: str, run: str) -> None:
    assert pod_names.TASK_SUFFIX.fullmatch(task)
    assert pod_names.RUN_SUFFIX.fullmatch(run)
    assert not pod_names.TASK_SUFFIX.fullmatch(run)
    assert not pod_names.RUN_SUFFIX.fullmatch(task)


@pytest.mark.parametrize("first", LOWER)
def test_what_a_run_has_for_each_first_digit(first: str) -> None:
    """The suffix stays what it was but where it looked like that of a task, or like a number."""
    for rest in ("2345", "zzzz"):
        queued = int(first + rest, 36)
        assert pod_names.older_run_suffix(queued) == first + rest
        changed = first == "x" or (first + rest).isdecimal()
        assert (run_suffix(queued) != first + rest) is changed
        assert pod_names.RUN_SUFFIX.fullmatch(run_suffix(queued))


@given(st.integers(0, 2**53), st.integers(1, 36**4 - 1))
def test_runs_close_to_each_other_have_names_of_their_own(queued: int, later: int) -> None:
    assert run_suffix(queued) != run_suffix(queued + later)


@given(st.uuids().map(str), st.integers(1, names.MAX_NAME_LENGTH), st.integers(1, MAX_TASKS))
def test_names_of_tasks_fit_into_a_label(uid: str, length: int, tasks: int) -> None:
    """And all tasks of an array have one suffix, whatever their own indexes are."""
    job = "a" * length
    suffix = task_suffix(uid, job, tasks)
    assert len(pod_name(job, tasks - 1, suffix)) <= names.MAX_LABEL_LENGTH
    assert len(suffix) == 5 or len(pod_name(job, tasks - 1, suffix)) == names.MAX_LABEL_LENGTH
    assert len(host_name(job, tasks - 1)) <= names.MAX_LABEL_LENGTH


def test_all_lives_of_a_task_have_one_name_and_tasks_of_another_array_another() -> None:
    one, two = "8d3f0a52-6c1e-4f7a-9b0d-2e5c7a913f64", "8d3f0a52-6c1e-4f7a-9b0d-2e5c7a913f65"
    assert task_suffix(one, "sweep", 10) == task_suffix(one, "sweep", 10)
    assert task_suffix(one, "sweep", 10) != task_suffix(two, "sweep", 10)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a-7", Parts(7, "")),  # a task of a Job from before there were suffixes
        ("a-7-xbcdf", Parts(7, "xbcdf")),
        ("a-7-xbcd", Parts(7, "xbcd")),
        ("a-7-x2345", Parts(7, "x2345")),  # also a run from before
        ("a-7-1z2y3", Parts(7, "1z2y3")),
        ("a-07", None),
        ("a--7", None),
        ("a-7-", None),
        ("a-7-xbc", None),
        ("a-7-xbcdfg", None),
        ("a-7-xbcdf-0", None),
        ("a-x", None),
        ("a-\u0667", None),
        ("a-1234567890", None),
        ("b-7", None),
        ("a7", None),
        ("", None),
    ],
)
def test_what_is_read_of_a_name(name: str, parts: Parts | None) -> None:
    assert parts_of(name, "a") == parts


def test_the_admission_policy_has_the_same_forms() -> None:
    text = GUARD.read_text()
    assert f"variables.suffix.matches('^{pod_names.TASK_SUFFIX.pattern}$')" in text
    without_numbers = pod_names.RUN_SUFFIX.pattern.removeprefix("(?![0-9]{5})")  # RE2 looks nowhere ahead
    assert f"variables.suffix.matches('^{without_numbers}$')" in text
    assert names.ANNOTATION_POD_SUFFIX in text
