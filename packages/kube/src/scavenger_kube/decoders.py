"""Decoders that threads may ask for at the same moment."""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_EXAMINING: Final = threading.Lock()
"""msgspec examines a Struct when it is first decoded. A second thread that needs the Struct in the meantime finds one
that is not complete, and the process dies."""
_made: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type, which is made once. What threads decode is to be asked for here, or when a module is
    loaded."""
    with _EXAMINING:
        if kind not in _made:
            _made[kind] = msgspec.json.Decoder(kind)
        return _made[kind]
