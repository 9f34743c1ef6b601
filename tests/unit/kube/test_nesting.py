"""What is nested too deeply is cut from the bytes, and nothing else is."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_kube import nesting
from scavenger_kube.decode import decoder_for
from scavenger_kube.kinds import Pod
from scavenger_kube.nesting import MAX_DEPTH, readable, shallow, too_deep

LEAVES = st.none() | st.integers(-9, 9) | st.text(alphabet='ab{}[]"\\,:\n\u20ac', max_size=6)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k{["\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=30,
)


def nested(levels: int, inner: bytes = b"1", opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    return opening * levels + inner + closing * levels


def depth(value: Any) -> int:
    """How many levels of objects and arrays there are."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def without(value: Any, levels: int) -> Any:
    """The value as it is expected to be, by going down into it."""
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return None
    if isinstance(value, dict):
        return {key: without(one, levels - 1) for key, one in value.items()}
    return [without(one, levels - 1) for one in value]


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that small values reach."""
    monkeypatch.setattr(nesting, "MAX_DEPTH", 4)
    monkeypatch.setattr(nesting, "_FOLDS", 2)


@pytest.mark.usefixtures("low")
@given(value=VALUES)
def test_exactly_what_is_too_deep_becomes_null(value: Any) -> None:
    body = orjson.dumps(value)
    assert too_deep(body) == (depth(value) > 4)
    assert orjson.loads(shallow(body)) == without(value, 4)
    if depth(value) <= 4:
        assert shallow(body) is body


@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_the_limit(opening: bytes, closing: bytes) -> None:
    at_most = nested(MAX_DEPTH, opening=opening, closing=closing)
    assert shallow(at_most) is at_most
    above = nested(MAX_DEPTH + 1, opening=opening, closing=closing)
    assert shallow(above) == nested(MAX_DEPTH, b"null", opening, closing)


def test_ten_thousand_levels_hide_no_neighbour() -> None:
    """As many as the API server stores."""
    deep = nested(10_000, b"{}")
    body = b'{"items":[{"n":1,"m":%s,"o":2},{"n":"]}\\\\","m":%s},{"n":3}]}' % (deep, deep)
    with pytest.raises(RecursionError):
        msgspec.json.decode(body)
    found = msgspec.json.decode(shallow(body))
    assert [one["n"] for one in found["items"]] == [1, "]}\\", 3]
    assert found["items"][0]["o"] == 2


@pytest.mark.parametrize(
    "body", [b"", b"}" * 500, b"{" * 500, b'"' + b"{" * 500, b"[" * 400 + b"]" * 500, b"\xff" * 300]
)
def test_what_is_no_json_stays_none(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(shallow(body))


@pytest.mark.parametrize("bad", [b"\xff\xed", b"\xed\xa0\x80", b"\xc3", b"\xf8\x88\x80\x80"])
def test_bytes_that_are_no_utf8_hide_no_field(bad: bytes) -> None:
    """The API server stores them in managedFields of core kinds as they came."""
    fields = b'[{"fieldsV1":{"f:%s":{}}}]' % bad
    body = b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","managedFields":%s}}]}' % fields
    with pytest.raises(UnicodeDecodeError):
        msgspec.json.decode(body)
    found = msgspec.json.decode(readable(body))
    assert "f:\ufffd" in str(found["items"][0]["metadata"]["managedFields"])
    assert [pod.metadata.name for pod in decoder_for(Pod).page(readable(body)).items] == ["a"]


def test_a_character_on_the_border_of_two_parts_is_text() -> None:
    for before in range(4):
        good = b'"' + b"a" * (nesting._PART - 1 - before) + "\U0001f600".encode() + b'"'
        assert readable(good) is good
        assert readable(good.replace(b"\x80", b"")) == good.replace("\U0001f600".encode(), "\ufffd".encode())


@given(value=VALUES)
def test_what_can_be_read_is_left_as_it_is(value: Any) -> None:
    body = orjson.dumps(value)
    assert readable(body) is body
