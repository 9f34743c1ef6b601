"""What ends a wait, and what is waited for all the same."""

from __future__ import annotations

import http.client
import urllib.error

import pytest
from scavenger_kube.errors import ApiError
from scavenger_testing.waiting import wait


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionRefusedError(),
        ConnectionResetError(),
        TimeoutError(),
        urllib.error.URLError(ConnectionRefusedError()),
        http.client.RemoteDisconnected("gone"),
        http.client.IncompleteRead(b"{"),
        ApiError(429, message="storage is (re)initializing"),
        ApiError(500, message="etcdserver: leader changed"),
        ApiError(503, message="not ready yet"),
        ApiError(message="Connection refused"),
    ],
    ids=repr,
)
def test_a_server_that_is_not_up_to_it_yet_is_asked_again(trouble: Exception) -> None:
    answers = iter([trouble, trouble, "there"])

    def ask() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert wait("an answer", ask, interval=0) == "there"


@pytest.mark.parametrize(
    "error", [ApiError(403, message="no"), ApiError(404, message="nothing there"), KeyError("status")], ids=repr
)
def test_what_no_time_mends_ends_the_wait(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        wait("nothing", fail, interval=0)


def test_what_stood_in_the_way_last_is_said() -> None:
    def refuse() -> None:
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(AssertionError, match=r"(?s)gave up waiting for an answer.*nobody listens.*what there is"):
        wait("an answer", refuse, 0, lambda: "what there is", interval=0)
    with pytest.raises(AssertionError) as failure:
        wait("an answer", lambda: False, 0, lambda: "what there is", interval=0)
    assert "nobody listens" not in str(failure.value)
