"""The state of a simulation as bytes: all objects of it, as they refer to each other."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from copyreg import dispatch_table
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final

_PROTOCOL: Final = 5


def _as_dict(mapping: MappingProxyType[Any, Any]) -> tuple[Callable[..., Any], tuple[dict[Any, Any]]]:
    return _read_only, (dict(mapping),)


def _read_only(mapping: Mapping[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


class _Pickler(pickle.Pickler):
    """With mappings that are only read, which pickle does not know."""

    dispatch_table = {**dispatch_table, MappingProxyType: _as_dict}  # noqa: RUF012


def dumped(whole: object) -> bytes:
    """An object and all that it refers to."""
    text = BytesIO()
    _Pickler(text, _PROTOCOL).dump(whole)
    return text.getvalue()


def restored(state: bytes) -> object:
    """The object again, apart from the first one. Raises ValueError where the bytes are none of `dumped`."""
    try:
        return pickle.loads(state)
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, TypeError) as error:
        raise ValueError(f"the state cannot be read: {error}") from error
