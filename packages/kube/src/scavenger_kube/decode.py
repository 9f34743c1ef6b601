"""From the bytes of a list page or a watch event to typed objects, without the dicts in between.

An object that cannot be decoded (a field of an unexpected type, a custom resource older than its schema) is
reported by its key and left out; it never takes its neighbours with it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from gc import is_tracked
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from scavenger_api.model import ObjectMeta, OwnerReference

from scavenger_kube.nesting import readable


class Metadata(Protocol):
    """What of its metadata an object must show to be kept in a cache."""

    @property
    def uid(self) -> str:
        """Tells an object from a later one of the same name."""
        ...

    @property
    def resource_version(self) -> str:
        """Changes with every write."""
        ...

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        ...


class Cacheable(Protocol):
    """Anything with such metadata: a projection of `kinds`, or a pydantic model of the project's CRDs."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=Cacheable)

_untrack = ctypes.pythonapi.PyObject_GC_UnTrack
_untrack.argtypes, _untrack.restype = (ctypes.py_object,), None


Mend = Callable[[bytes], bytes]
"""Leaves out what no decoder takes."""


class DecodeError(ValueError):
    """The answer as a whole is not what the API server sends: not JSON, or not a list or a watch event."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that could not be decoded. `key` and `resource_version` are empty where even they are
    unreadable.
    """

    key: str
    resource_version: str
    error: str


@dataclass(slots=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: the objects. Where each is decoded by itself, that happens when its turn comes: a page of 8 MiB may take
            300 MB as objects.
        malformed: what could not be decoded; complete when all items were taken.
    """

    items: Iterable[T]
    resource_version: str
    continue_token: str = ""
    malformed: list[Malformed] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One line of a watch.

    type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR. obj: for the first three, None where it is malformed.
    status: the metav1.Status of an ERROR. resource_version: to resume from; empty for an ERROR.
    """

    type: str
    resource_version: str = ""
    obj: T | None = None
    malformed: Malformed | None = None
    status: dict[str, Any] = field(default_factory=dict)


class Decoder(Protocol[T]):
    """How the bytes of one kind are read."""

    def page(self, body: bytes) -> Page[T]:
        """Decode one page of a list. Raises DecodeError."""
        ...

    def event(self, line: bytes, mend: Mend = readable) -> Event[T]:
        """Decode one line of a watch, as it came from the API server. mend: as `nesting.readable`. Raises
        DecodeError."""
        ...


# --- the envelopes, with objects left raw -----------------------------------------------------------


class _ListMeta(msgspec.Struct, gc=False, rename={"continue_token": "continue", "resource_version": "resourceVersion"}):
    resource_version: str = ""
    continue_token: str = ""


class _RawPage(msgspec.Struct, gc=False):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _KeyMeta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str | None = None
    resource_version: str = ""


class _Keyed(msgspec.Struct, gc=False):
    metadata: _KeyMeta = msgspec.field(default_factory=_KeyMeta)


class _NextMeta(msgspec.Struct, gc=False, rename="camel"):
    """What a write may change of the metadata of an object that keeps its generation; and what tells objects apart."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: list[dict[str, Any]] = []

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Next(msgspec.Struct, gc=False):
    metadata: _NextMeta
    status: msgspec.Raw = msgspec.Raw()


_next = msgspec.json.Decoder(_Next)
_raw_page = msgspec.json.Decoder(_RawPage)
_raw_event = msgspec.json.Decoder(_RawEvent)
_keyed = msgspec.json.Decoder(_Keyed)
_status = msgspec.json.Decoder(dict[str, Any])


def _malformed(raw: bytes | msgspec.Raw, error: Exception) -> Malformed:
    try:
        meta = _keyed.decode(raw).metadata
    except ValueError:
        return Malformed("", "", _words(error))
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return Malformed(key, meta.resource_version, _words(error))


def _words(error: Exception) -> str:
    """An error in one line: of each field what is wrong with it."""
    if not isinstance(error, ValidationError):
        return str(error)
    wrong = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong)


class _RawDecoder(Generic[T]):
    """The part that all decoders share: envelopes first, then object by object."""

    def _object(self, raw: bytes | msgspec.Raw, mend: Mend) -> T:
        """One object; `mend` before all that is kept as it is written. Raises ValueError (msgspec's and pydantic's
        errors are ValueErrors), RecursionError."""
        raise NotImplementedError

    def page(self, body: bytes) -> Page[T]:
        """Decode one page object by object. Raises DecodeError."""
        try:
            raw = _raw_page.decode(body)
        except ValueError as error:
            raise DecodeError(f"not a list: {error}") from error
        malformed: list[Malformed] = []
        items = self._objects(raw.items or (), malformed)
        return Page(items, raw.metadata.resource_version, raw.metadata.continue_token, malformed)

    def _objects(self, found: Iterable[msgspec.Raw], malformed: list[Malformed]) -> Iterator[T]:
        for one in found:
            try:
                obj = self._object(one, _mended)
            except ValueError as error:
                malformed.append(_malformed(one, error))
            else:
                yield obj

    def event(self, line: bytes, mend: Mend = readable) -> Event[T]:
        """Decode one watch event. To look for what no decoder takes takes longer than to decode, so that is done where
        decoding fails. Raises DecodeError."""
        with suppress(DecodeError, RecursionError):
            found = self._event(line, mend)
            if found.malformed is None:
                return found
        return self._event(mend(line), mend)

    def _event(self, line: bytes, mend: Mend) -> Event[T]:
        try:
            raw = _raw_event.decode(line)
            if raw.type == "ERROR":
                return Event(raw.type, status=_status.decode(raw.object))
            if raw.type == "BOOKMARK":
                return Event(raw.type, _keyed.decode(raw.object).metadata.resource_version)
        except ValueError as error:
            raise DecodeError(f"not a watch event: {error}") from error
        try:
            obj = self._object(raw.object, mend)
        except ValueError as error:
            malformed = _malformed(raw.object, error)
            return Event(raw.type, malformed.resource_version, malformed=malformed)
        return Event(raw.type, obj.metadata.resource_version, obj)


def _mended(body: bytes) -> bytes:
    """Of a page nothing is to be left out any more."""
    return body


class StructDecoder(_RawDecoder[T]):
    """Decodes into a msgspec Struct. A page goes straight to a list of them; only a page with a malformed
    object is gone through object by object."""

    def __init__(self, type: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(type)
        # the type is known only now, which mypy cannot follow
        items: Any = list[type] | None  # type: ignore[valid-type]
        page = msgspec.defstruct("_Page", [("metadata", _ListMeta), ("items", items, None)], gc=False)
        self._page_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(page)

    def _object(self, raw: bytes | msgspec.Raw, mend: Mend) -> T:
        return self._decoder.decode(raw)

    def page(self, body: bytes) -> Page[T]:
        """Decode one page. Raises DecodeError."""
        try:
            page = self._page_decoder.decode(body)
        except ValueError:
            return super().page(body)
        return Page(page.items or [], page.metadata.resource_version, page.metadata.continue_token)


Known = Callable[[str], T | None]
"""The newest version of an object that has been decoded, by its key."""


class ModelDecoder(_RawDecoder[T]):
    """Decodes into a pydantic model, for the project's own kinds, of which every field matters.

    Most versions of an object differ from the one before in their status: the API server raises metadata.generation
    with each change of a spec. So of a version whose generation is known, metadata and status are read and the spec is
    that of the known one; a version that is known itself is not read again.

    Args:
        model: what objects are read into.
        known: finds the version to compare with.
    """

    def __init__(self, model: type[T], known: Known[T] | None = None) -> None:
        if not issubclass(model, BaseModel):
            raise TypeError(f"{model.__name__} is not a pydantic model")
        self._validate: Callable[[bytes], T] = cast("Any", model).model_validate_json
        self._known: Known[T] | None = known
        self._status: TypeAdapter[Any] | None = _status_of(model)

    def _object(self, raw: bytes | msgspec.Raw, mend: Mend) -> T:
        found = self._next(raw, self._known) if self._known is not None else None
        return found if found is not None else self._whole(mend(bytes(raw)))

    def next_version(self, body: bytes, known: T) -> T:
        """Another version of a known object, as the client answers it. Raises ValueError where it cannot be read."""
        found = self._next(body, lambda key: known if key == known.metadata.key else None)
        return found if found is not None else self._whole(body)

    def _next(self, raw: bytes | msgspec.Raw, known: Known[T]) -> T | None:
        with suppress(ValueError):  # what is wrong is said of the whole object
            found = _next.decode(raw)
            before = known(found.metadata.key)
            if before is not None and before.metadata.uid == found.metadata.uid:
                return self._after(before, found)
        return None

    def _after(self, before: T, found: _Next) -> T | None:
        """The version after another one; None where the spec has changed, or all has to be read."""
        meta, old = found.metadata, cast("Any", before.metadata)
        if old.resource_version == meta.resource_version:
            return before
        if self._status is None or not found.status or not meta.generation or old.generation != meta.generation:
            return None
        changed = {
            "resource_version": meta.resource_version,
            "labels": meta.labels,
            "annotations": meta.annotations,
            "finalizers": meta.finalizers,
            "owner_references": tuple(OwnerReference.model_validate(one) for one in meta.owner_references),
        }
        parts = {"metadata": old.model_copy(update=changed), "status": self._status.validate_json(bytes(found.status))}
        for part in parts.values():
            out_of_sight(part)
        obj: T = cast("Any", before).model_copy(update=parts)
        _hide(cast("Any", obj))
        return obj

    def _whole(self, body: bytes) -> T:
        obj = self._validate(body)
        out_of_sight(obj)
        return obj


def _status_of(model: type[BaseModel]) -> TypeAdapter[Any] | None:
    """How the status of a model is read by itself; None where it has no spec beside it, metadata of another kind, or a
    validator of all of it, which may read one part by another."""
    fields = model.model_fields
    apart = "spec" in fields and "status" in fields and fields["metadata"].annotation is ObjectMeta
    if not apart or model.__pydantic_decorators__.model_validators:
        return None
    kind: Any = fields["status"].annotation
    return TypeAdapter(kind)


def out_of_sight(value: object) -> None:
    """Take a model, and what it is made of, out of the garbage collector's view, as projections are (`gc=False`).

    It holds no cycles, and so many of them are kept that going through them holds up the event loop for tens of
    milliseconds per thousand. The API is CPython's for extensions; who untracks an object twice does no harm.
    """
    parts: Iterable[object]
    if isinstance(value, tuple | list):
        _untrack(value)
        parts = value
    elif isinstance(value, dict):
        _untrack(value)
        parts = value.values()
    else:
        assert isinstance(value, BaseModel)
        _hide(value)
        parts = value.__dict__.values()
    for part in parts:
        # Pydantic answers isinstance in Python, so most values are not asked: the collector sees none of them.
        if is_tracked(part) and isinstance(part, _CONTAINERS):
            out_of_sight(part)


def _hide(model: BaseModel) -> None:
    _untrack(model)
    _untrack(model.__dict__)
    _untrack(model.__pydantic_fields_set__)


_CONTAINERS: Final = (dict, tuple, list, BaseModel)


def decoder_for(type: type[T], known: Known[T] | None = None) -> Decoder[T]:
    """The decoder that fits a type: ModelDecoder for pydantic models, StructDecoder for msgspec Structs. known: as in
    ModelDecoder."""
    if issubclass(type, BaseModel):
        return ModelDecoder(type, known)
    if issubclass(type, msgspec.Struct):
        return StructDecoder(type)
    raise TypeError(f"no decoder for {type.__name__}: neither a msgspec Struct nor a pydantic model")
