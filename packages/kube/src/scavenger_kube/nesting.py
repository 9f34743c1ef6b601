"""What no decoder takes of an answer: values that are nested too deeply, and bytes that are no text.

The API server stores `metadata.managedFields[].fieldsV1` up to 10,000 levels deep (sigs.k8s.io/json), for all users who
may write one object. Decoders go down a level with each call, also through what they skip, and give up with a
RecursionError, which no reader of a list expects. So both clients cut what is too deep before anything is decoded.
Nothing is lost by that: no field of a kind that a component reads, nor of a pod template, is nested half as deeply.

In the keys of `fieldsV1` of core kinds it also stores bytes that are not UTF-8. Everywhere else it has U+FFFD in their
place, and so have both clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

MAX_DEPTH: Final = 128
"""Levels of objects and arrays in a body, its envelope included. Pods have about 12, and what a decoder or a printer
takes at least is 200 (pydantic)."""

_FOLDS: Final = 16
"""Levels that are taken away as bytes: next to no body has more."""

_PART: Final = 256 * 1024
"""Bytes that are decoded at once, only to see that they are text."""

_LONGEST: Final = 4
"""Bytes of a character."""

_DROPPED: Final = bytes(set(range(256)) - set(b'{}[]"'))
_ALIKE: Final = bytes.maketrans(b"[]", b"{}")
_STRING: Final = re.compile(rb'"[^"]*"')
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{\[]|[}\]]', re.DOTALL)
_STEP: Final = [1 if letter == ord("{") else -1 for letter in range(256)]


def readable(body: bytes) -> bytes:
    """The same JSON as far as a decoder takes it: `shallow`, and with U+FFFD for bytes that are not UTF-8.

    Args:
        body: an object, a list or an event of a watch.

    Returns:
        `body` itself where it can be read.
    """
    return shallow(_text(body))


def _text(body: bytes) -> bytes:
    if body.isascii():
        return body
    try:
        for part in _parts(body):
            part.decode()
    except UnicodeDecodeError:
        return b"".join(part.decode(errors="replace").encode() for part in _parts(body))
    return body


def _parts(body: bytes) -> Iterator[bytes]:
    """One rare character makes a string of all that take four times the space, so they are decoded in parts. No
    character is in two of them."""
    begin = 0
    while begin < len(body):
        end = begin + _PART
        for _ in range(_LONGEST - 1):
            end -= end < len(body) and body[end] & 0xC0 == 0x80
        yield body[begin:end]
        begin = end


def shallow(body: bytes) -> bytes:
    """The same JSON, with null in the place of each value that begins below `MAX_DEPTH`.

    The time is linear in the size of the body, whatever is in it. What is no JSON is left to the decoder.

    Args:
        body: an object, a list or an event of a watch.

    Returns:
        `body` itself where nothing is too deep.
    """
    return _cut(body) if too_deep(body) else body


def too_deep(body: bytes) -> bool:
    """Whether something in a body is nested more deeply than `MAX_DEPTH`."""
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return False
    brackets = _brackets(body)
    for _ in range(_FOLDS):
        brackets = brackets.replace(b"{}", b"")
    if not brackets:
        return False
    return max(accumulate(map(_STEP.__getitem__, brackets))) > MAX_DEPTH - _FOLDS


def _brackets(body: bytes) -> bytes:
    """The brackets outside of strings, as curly ones."""
    if b"\\" in body:
        # By as many bytes: that takes half as long.
        if b"\\\\" in body:
            body = body.replace(b"\\\\", b"..")
        body = body.replace(b'\\"', b"..")
    found = body.translate(_ALIKE, _DROPPED).replace(b'""', b"")
    return _STRING.sub(b"", found) if b'"' in found else found


def _cut(body: bytes) -> bytes:
    parts: list[bytes] = []
    depth = begin = 0
    for token in _TOKEN.finditer(body):
        first = body[token.start()]
        if first in b"{[":
            depth += 1
            if depth == MAX_DEPTH + 1:
                parts += body[begin : token.start()], b"null"
        elif first in b"}]":
            depth -= 1
            if depth == MAX_DEPTH:
                begin = token.end()
    if depth <= MAX_DEPTH:
        parts.append(body[begin:])
    return b"".join(parts)
