"""A page that has the old picture and hears what is different has the new one."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from scavenger_board.core.delta import KEYS, PLAIN, delta
from scavenger_board.core.picture import AdmissionRow, JobRow, LevelsRow, NodeRow, Picture, ShareRow

KEY_NAMES = {"jobs": "key", "timeline": "id"}


def picture(jobs: list[tuple[str, int]], nodes: list[str] | None = None, says: str = "", **fields: Any) -> Picture:
    rows = [JobRow(name, "lab", "Waiting", interrupted=place) for name, place in jobs]
    tiles = [NodeRow(name, "", ShareRow(), ShareRow()) for name in nodes or []]
    given = {"time": "t", "past": False, **fields}
    empty: dict[str, Any] = {"services": [], "queues": [], "timeline": []}
    return Picture(
        levels=LevelsRow("Fresh"), admission=AdmissionRow(True, says), nodes=tiles, jobs=rows, **empty, **given
    )


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def applied(old: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """As `merged` of static/source.js does it."""
    if "whole" in message:
        return dict(message["whole"])
    new = {**old, "time": message["time"]}
    for name, change in message["changed"].items():
        if name not in KEYS:
            new[name] = change
            continue
        key = KEY_NAMES.get(name, "name")
        known = {row[key]: row for row in old[name]} | {row[key]: row for row in change.get("rows", ())}
        new[name] = [known[one] for one in change.get("order", [row[key] for row in old[name]])]
    return new


def test_no_part_of_a_picture_is_kept_from_the_page() -> None:
    """Those that are left out never change while a page follows."""
    parts = {*KEYS, *PLAIN, "waiting_pods"}
    assert {*Picture.__struct_fields__} - parts == {"time", "past", "about"}


NAMES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 3)), unique_by=lambda pair: pair[0])


@given(NAMES, NAMES, st.sampled_from(["", "no"]), st.lists(st.sampled_from("xyz"), unique=True))
def test_old_and_difference_are_the_new_one(
    before: list[tuple[str, int]], after: list[tuple[str, int]], says: str, nodes: list[str]
) -> None:
    old, new = picture(before), picture(after, nodes, says, time="later")
    message = delta(old, new)

    if message is None:
        assert msgspec.structs.replace(old, time="later") == new
    else:
        assert applied(plain(old), plain(message)) == plain(new)


def test_what_has_not_changed_is_not_sent_again() -> None:
    old = picture([("a", 1), ("b", 2)], ["n"])
    message = delta(old, picture([("a", 1), ("b", 3)], ["n"]))

    assert message is not None
    assert set(message["changed"]) == {"jobs"}
    assert [row.key for row in message["changed"]["jobs"]["rows"]] == ["b"]
    assert "order" not in message["changed"]["jobs"]


def test_the_time_alone_is_no_news_and_the_first_one_is_whole() -> None:
    assert delta(picture([("a", 1)]), picture([("a", 1)], time="later")) is None
    assert delta(None, picture([])) == {"whole": picture([])}
