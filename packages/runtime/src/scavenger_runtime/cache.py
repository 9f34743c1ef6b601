"""The objects an informer holds, by key and by index. No I/O: what the API says comes in, what changed comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from scavenger_kube.decode import Cacheable

T = TypeVar("T", bound=Cacheable)

IndexFunction = Callable[[T], Iterable[str]]
"""The values under which an object is found in an index: a pure function of the object."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to an object.

    old: as it was (for a deletion: its last known state). new: as it is, None for a deletion. initial: part of the
    first list, so nothing that has just happened; controllers queue such keys with LOW_PRIORITY.
    """

    kind: Literal["added", "modified", "deleted"]
    old: T | None
    new: T | None
    initial: bool = False

    @property
    def obj(self) -> T:
        """The newest known state."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None
        return obj

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        return self.obj.metadata.key


class Cache(Generic[T]):
    """Objects by key, and by the values that index functions name.

    Writes replace whatever is stored; resource versions are never compared for order. They need not be: a watch
    delivers in order from the version it was started at, and every list here is a consistent read. Nor would it help
    where they really go back, after etcd was restored from a backup: a cache that refuses older versions would be wrong
    for ever.
    """

    def __init__(self, indices: Mapping[str, IndexFunction[T]]) -> None:
        self._objects: dict[str, T] = {}
        self._functions = dict(indices)
        self._buckets: dict[str, dict[str, dict[str, T]]] = {name: {} for name in indices}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: str) -> T | None:
        """The object, or None."""
        return self._objects.get(key)

    def same(self, obj: T) -> T:
        """The stored object where it is the same version of the same object (one copy in memory), else `obj`."""
        old = self._objects.get(obj.metadata.key)
        if old is None or old.metadata.uid != obj.metadata.uid:
            return obj
        return old if old.metadata.resource_version == obj.metadata.resource_version else obj

    def keys(self) -> Sequence[str]:
        """All keys, at this moment."""
        return list(self._objects)

    def items(self) -> Sequence[T]:
        """All objects, at this moment."""
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> Sequence[T]:
        """The objects an index function named `value` for. Raises KeyError for an index that does not exist."""
        return list(self._buckets[name].get(value, {}).values())

    def put(self, obj: T, *, initial: bool = False) -> list[Change[T]]:
        """Store an object: nothing where its version is already there, a deletion and an addition where the
        stored one was an earlier object of the same name, one change otherwise."""
        key = obj.metadata.key
        old = self._objects.get(key)
        if old is None:
            self._set(key, None, obj)
            return [Change("added", None, obj, initial)]
        if old.metadata.uid != obj.metadata.uid:
            return [*self.remove(key), *self.put(obj)]
        if self.same(obj) is old:
            return []
        self._set(key, old, obj)
        return [Change("modified", old, obj)]

    def remove(self, key: str, last: T | None = None) -> list[Change[T]]:
        """Forget an object; `last` is its final state, where the API sent it."""
        old = self._objects.pop(key, None)
        if old is None:
            return []
        self._unindex(key, old)
        return [Change("deleted", last if last is not None else old, None)]

    def _set(self, key: str, old: T | None, new: T) -> None:
        # An index function that fails must leave nothing half done, so all of them run before anything is
        # stored.
        values = {name: tuple(function(new)) for name, function in self._functions.items()}
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = new
        for name, named in values.items():
            buckets = self._buckets[name]
            for value in named:
                buckets.setdefault(value, {})[key] = new

    def _unindex(self, key: str, old: T) -> None:
        for name, function in self._functions.items():
            buckets = self._buckets[name]
            for value in function(old):
                bucket = buckets.get(value)
                if bucket is None:
                    continue
                bucket.pop(key, None)
                if not bucket:
                    del buckets[value]


# --- index functions --------------------------------------------------------------------------------


def by_node(pod: Any) -> Iterable[str]:
    """The node a pod is bound to; none before it is."""
    node = pod.spec.node_name
    return (node,) if node else ()


def by_owner_uid(obj: Any) -> Iterable[str]:
    """The uids of all owners."""
    return [owner.uid for owner in obj.metadata.owner_references]


def by_label(label: str) -> Callable[[Any], Iterable[str]]:
    """An index function for the values of one label."""

    def values(obj: Any) -> Iterable[str]:
        value = obj.metadata.labels.get(label)
        return () if value is None else (value,)

    return values


def by_namespace(obj: Any) -> Iterable[str]:
    """The namespace of an object; none for a cluster-scoped one."""
    namespace = obj.metadata.namespace
    return (namespace,) if namespace else ()
