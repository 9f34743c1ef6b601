"""What the fake API server stores: objects with versions, finalizers and a history to watch. No HTTP, no
asyncio.
"""

from __future__ import annotations

import bisect
import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from scavenger_api.times import format_time, parse_time

from scavenger_testing import job_status_rules, patches

Object = dict[str, Any]

STATUS_KINDS_WITHOUT = frozenset({"configmaps", "events", "leases", "secrets"})
"""Kinds without a status subresource."""
KINDS_WITHOUT_GENERATION = STATUS_KINDS_WITHOUT | {
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "resourcequotas",
    "serviceaccounts",
    "services",
}
"""Kinds whose metadata.generation no API server sets (pkg/registry/core/*/strategy.go)."""
DEFAULT_GRACE = 30
"""Seconds that a pod has to end whose spec does not say (core/v1 defaults.go)."""


class Refusal(Exception):  # noqa: N818 - becomes a metav1.Status
    """The request is refused: HTTP status, reason and message."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = dict(details or {})

    def status(self) -> Object:
        """As metav1.Status."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": str(self),
            "details": self.details,
        }


class Collection(NamedTuple):
    """A kind, and optionally one namespace of it. A tuple, as every request looks some up."""

    api_version: str
    plural: str
    namespace: str = ""

    def whole(self) -> Collection:
        """The kind in all namespaces."""
        return Collection(self.api_version, self.plural) if self.namespace else self


@dataclass(frozen=True, slots=True)
class Entry:
    """One write: the object before and after it (None: there was, or is, none)."""

    version: int
    kind: Collection
    old: Object | None
    new: Object | None


@dataclass(slots=True)
class Stored:
    """An object and what its managers applied."""

    obj: Object
    applied: dict[tuple[str, str], Object] = field(default_factory=dict)


class Store:
    """Objects by kind, namespace and name; every write gets the next resource version."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        self._objects: dict[Collection, dict[tuple[str, str], Stored]] = {}
        self.history: list[Entry] = []
        self._by_kind: dict[Collection, list[Entry]] = {}
        self.version = 1
        self.oldest = 0
        self.prune: Callable[[Collection, Object], Object] = lambda _where, obj: obj
        """What is stored of a changed object, as with a CRD that does not know all fields."""
        self.graceful_pods = False
        """Whether a pod on a node stays, with a deletionTimestamp, until it is deleted with grace 0, as with a kubelet.
        """

    def list(self, where: Collection) -> list[Object]:
        """The objects of a collection, by namespace and name."""
        found = self._objects.get(where.whole(), {})
        return [found[key].obj for key in sorted(found) if not where.namespace or key[0] == where.namespace]

    def get(self, where: Collection, name: str) -> Object:
        """An object. Raises Refusal."""
        return self._stored(where, name).obj

    def check(self, version: int) -> None:
        """Whether a watch may start at a version. Raises Refusal where what came after it is forgotten."""
        if version < self.oldest:
            raise Refusal(410, "Expired", f"too old resource version: {version} ({self.oldest})")

    def since(self, where: Collection, version: int) -> Sequence[Entry]:
        """The writes to a collection after a version."""
        entries = self._by_kind.get(where.whole(), [])
        after = entries[bisect.bisect(entries, version, key=lambda entry: entry.version) :]
        return [entry for entry in after if not where.namespace or entry.kind.namespace == where.namespace]

    def compact(self) -> None:
        """Forget all history: a watch from any version before now gets 410."""
        self.version += 1  # or the newest version would still be good
        self.oldest = self.version

    # --- writes -------------------------------------------------------------------------------------

    def create(self, where: Collection, obj: Object) -> Object:
        """Add an object. Raises Refusal."""
        obj = patches.copied(obj)
        meta = obj.setdefault("metadata", {})
        if "name" not in meta and "generateName" in meta:
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        name = meta.get("name")
        if not name:
            raise Refusal(422, "Invalid", "metadata.name: Required value: name or generateName is required")
        if meta.get("resourceVersion"):
            raise Refusal(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if (where.namespace, name) in self._objects.get(where.whole(), {}):
            raise Refusal(409, "AlreadyExists", f'{where.plural} "{name}" already exists')
        for kept_by_server in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(kept_by_server, None)
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": self._now(), **_first_generation(where)}
        if where.plural not in STATUS_KINDS_WITHOUT:
            obj["status"] = {"phase": "Pending"} if where.plural == "pods" else {}
        return self._write(where, None, obj)

    def seed(self, where: Collection, obj: Object) -> Object:
        """Put an object there as it is, status included, over whatever is there; for the set-up of a test."""
        obj = patches.copied(obj)
        meta = obj["metadata"]
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", self._now())
        meta.update({**_first_generation(where), **meta})
        found = self._objects.get(where.whole(), {}).get((where.namespace, meta["name"]))
        return self._write(where, found.obj if found else None, obj)

    def edit(self, where: Collection, name: str, edit: Callable[[Object], None]) -> Object:
        """Change an object in place, anything of it, as some other component would. Its generation rises with its
        spec, and with its first deletionTimestamp. Raises Refusal."""
        old = self._stored(where, name).obj
        new = patches.copied(old)
        edit(new)
        return self._write(where, old, {**new, "metadata": {**new["metadata"], **_generation(where, old, new)}})

    def change(self, where: Collection, name: str, subresource: str, make: Callable[[Object], Object]) -> Object:
        """Replace an object by what `make` makes of it, within what the subresource may change. Raises Refusal."""
        old = self._stored(where, name).obj
        new = make(patches.copied(old))
        asked = new.get("metadata", {}).get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise Refusal(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {where.plural} "{name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
            )
        new = self.prune(where, self._allowed(where, old, new, subresource))
        if _same(old, new):
            return old
        if where.plural == "jobs" and subresource == "status" and (broken := job_status_rules.refusals(old, new)):
            raise Refusal(422, "Invalid", f'Job.batch "{name}" is invalid: status: {", ".join(broken)}')
        stored = self._write(where, old, new)
        meta = stored["metadata"]
        lingers = where.plural == "pods" and self._lingers(stored)
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not lingers:
            self._drop(where, stored)
            self._collect(meta["uid"])
        return stored

    def apply(self, where: Collection, name: str, subresource: str, obj: Object, manager: str, force: bool) -> Object:
        """Server-side apply; creates what is not there. Raises Refusal."""
        obj = patches.copied(obj)
        if name not in {obj.get("metadata", {}).get("name"), None}:
            raise Refusal(400, "BadRequest", "the name of the object does not match the name on the URL")
        try:
            stored = self._stored(where, name)
        except Refusal:
            if subresource:
                raise
            self.create(where, obj)
            self._stored(where, name).applied[manager, subresource] = obj
            return self.get(where, name)
        if not force:
            _refuse_disputed(stored, obj, manager)
        before = stored.applied.get((manager, subresource))
        changed = self.change(where, name, subresource, lambda old: patches.apply(old, obj, before))
        stored = self._objects.get(where.whole(), {}).get((where.namespace, name), stored)
        stored.applied[manager, subresource] = obj
        return changed

    def delete(self, where: Collection, name: str, options: Mapping[str, Any]) -> Object:
        """Delete, or mark for deletion what has finalizers. Dependents are deleted once their owner is gone, or at once
        with foreground propagation, and stay when they are orphaned. Raises Refusal."""
        obj = self._stored(where, name).obj
        for precondition, value in (options.get("preconditions") or {}).items():
            if obj["metadata"].get(precondition) != value:
                raise Refusal(409, "Conflict", f"Precondition failed: {precondition} {value} does not match")
        grace, policy = options.get("gracePeriodSeconds"), options.get("propagationPolicy", "Background")
        if obj["metadata"].get("finalizers") or (where.plural == "pods" and grace != 0 and self._lingers(obj)):
            obj = self._mark(where, obj, grace)
            collects = policy == "Foreground"
        else:
            self._drop(where, obj)
            collects = policy != "Orphan"
        if collects:
            self._collect(obj["metadata"]["uid"])
        return obj

    def _mark(self, where: Collection, obj: Object, asked: int | None) -> Object:
        """What apiserver/pkg/registry/rest/delete.go BeforeDelete does, and markAsDeleting of the generic registry."""
        if "deletionTimestamp" in obj["metadata"]:
            return self._shorten(where, obj, asked)
        marked, now = patches.copied(obj), parse_time(self._now())
        assert now is not None
        grace = _grace_of(obj, asked) if where.plural == "pods" else 0
        meta = marked["metadata"]
        meta["deletionTimestamp"] = format_time(now + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
        meta.update(_generation(where, obj, marked))
        return self._write(where, obj, marked)

    def _shorten(self, where: Collection, obj: Object, grace: int | None) -> Object:
        """What is being deleted already can only have less time than it has, and never an end in the past."""
        given = obj["metadata"].get("deletionGracePeriodSeconds") or 0
        deadline, now = parse_time(obj["metadata"]["deletionTimestamp"]), parse_time(self._now())
        if grace is None or grace >= given or deadline is None or now is None:
            return obj
        changed = patches.copied(obj)
        earlier = max(deadline - timedelta(seconds=given - grace), now)
        changed["metadata"]["deletionTimestamp"] = format_time(earlier)
        changed["metadata"]["deletionGracePeriodSeconds"] = grace
        return self._write(where, obj, changed)

    def _lingers(self, pod: Object) -> bool:
        return self.graceful_pods and _may_run(pod)

    def _collect(self, uid: str) -> None:
        """Delete what the object owns, as the garbage collector would."""
        owned = [
            (kind, namespace, name)
            for kind, objects in self._objects.items()
            for (namespace, name), stored in objects.items()
            if any(owner.get("uid") == uid for owner in stored.obj["metadata"].get("ownerReferences", ()))
        ]
        for kind, namespace, name in owned:
            self.delete(Collection(kind.api_version, kind.plural, namespace), name, {})

    def _allowed(self, where: Collection, old: Object, new: Object, subresource: str) -> Object:
        """What of a change takes effect: the status only through /status, and nothing else there; identity never."""
        if subresource == "status":
            new = {**old, "status": new.get("status", {})}
        elif where.plural not in STATUS_KINDS_WITHOUT:
            new = {**new, "status": old.get("status", {})}
        meta = {**new.get("metadata", {})}
        for fixed in ("uid", "creationTimestamp", "deletionTimestamp", "name", "namespace", "generation"):
            if fixed in old["metadata"]:
                meta[fixed] = old["metadata"][fixed]
        return {**new, "metadata": {**meta, **_generation(where, old, new)}}

    def _stored(self, where: Collection, name: str) -> Stored:
        found = self._objects.get(where.whole(), {}).get((where.namespace, name))
        if found is None:
            raise Refusal(404, "NotFound", f'{where.plural} "{name}" not found', {"name": name})
        return found

    def _write(self, where: Collection, old: Object | None, new: Object) -> Object:
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        if where.namespace:
            new["metadata"]["namespace"] = where.namespace
        objects = self._objects.setdefault(where.whole(), {})
        key = (where.namespace, new["metadata"]["name"])
        stored = objects.get(key)
        objects[key] = Stored(new, stored.applied if stored else {})
        self._note(where, old, new)
        return new

    def _note(self, where: Collection, old: Object | None, new: Object | None) -> None:
        entry = Entry(self.version, where, old, new)
        self.history.append(entry)
        self._by_kind.setdefault(where.whole(), []).append(entry)

    def _drop(self, where: Collection, obj: Object) -> None:
        self.version += 1
        del self._objects[where.whole()][where.namespace, obj["metadata"]["name"]]
        last = patches.copied(obj)
        last["metadata"]["resourceVersion"] = str(self.version)
        self._note(where, last, None)


def _first_generation(where: Collection) -> dict[str, int]:
    """metadata.generation of a new object; none where its kind has none."""
    return {} if where.plural in KINDS_WITHOUT_GENERATION else {"generation": 1}


def _generation(where: Collection, old: Object, new: Object) -> dict[str, int]:
    """metadata.generation after a change. It rises with the spec, but for the node that a pod is bound to, and when
    the object is first marked for deletion; not with metadata or status."""
    if where.plural in KINDS_WITHOUT_GENERATION:
        return {}
    asked, deleted = _asked_for(where, old) != _asked_for(where, new), "deletionTimestamp"
    marked = deleted in new["metadata"] and deleted not in old["metadata"]
    return {"generation": old["metadata"].get("generation", 1) + (asked or marked)}


def _asked_for(where: Collection, obj: Object) -> Object:
    """The spec, without what a binding writes."""
    spec: Object = obj.get("spec") or {}
    return {key: value for key, value in spec.items() if key != "nodeName"} if where.plural == "pods" else spec


def _may_run(pod: Object) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return bool(pod.get("spec", {}).get("nodeName")) and not ended


def _grace_of(pod: Object, asked: int | None) -> int:
    """Seconds that a deleted pod has to end: none where nothing of it runs (pod/strategy.go CheckGracefulDelete)."""
    if not _may_run(pod):
        return 0
    own = pod["spec"].get("terminationGracePeriodSeconds")
    return asked if asked is not None else DEFAULT_GRACE if own is None else int(own)


def _same(old: Object, new: Object) -> bool:
    def bare(obj: Object) -> Object:
        meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
        return {**obj, "metadata": meta}

    return bare(old) == bare(new)


def _refuse_disputed(stored: Stored, obj: Object, manager: str) -> None:
    fields = {key: value for key, value in obj.items() if key in ("spec", "status", "data")}
    notes = {key: value for key, value in obj.get("metadata", {}).items() if key in ("labels", "annotations")}
    wanted = dict(patches.leaves({**fields, "metadata": notes}))
    for (other, _), applied in stored.applied.items():
        for path, value in patches.leaves(applied):
            if other != manager and path in wanted and wanted[path] != value:
                raise Refusal(
                    409,
                    "Conflict",
                    f'Apply failed with 1 conflict: conflict with "{other}": {".".join(path)}',
                )


# --- selectors --------------------------------------------------------------------------------------


def matches(obj: Object, label_selector: str, field_selector: str) -> bool:
    """Whether both selectors (either may be empty) select the object."""
    labels = obj["metadata"].get("labels") or {}
    return all(_label_matches(labels, term) for term in _terms(label_selector)) and all(
        _field_matches(obj, term) for term in _terms(field_selector)
    )


@functools.lru_cache
def _terms(selector: str) -> tuple[str, ...]:
    """Split at commas outside of parentheses."""
    terms, depth, start = [], 0, 0
    for position, character in enumerate(selector):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            terms.append(selector[start:position].strip())
            start = position + 1
    terms.append(selector[start:].strip())
    return tuple(term for term in terms if term)


def _label_matches(labels: Mapping[str, str], term: str) -> bool:
    if term.startswith("!"):
        return term[1:].strip() not in labels
    for word, wanted in ((" notin ", False), (" in ", True)):
        name, found, values = term.partition(word)
        if found:
            return (labels.get(name.strip()) in _values(values)) is wanted
    name, found, value = term.partition("!=")
    if found:
        return labels.get(name.strip()) != value.strip()
    name, found, value = term.replace("==", "=").partition("=")
    return labels.get(name.strip()) == value.strip() if found else name.strip() in labels


def _values(text: str) -> set[str]:
    return {value.strip() for value in text.strip().strip("()").split(",")}


def _field_matches(obj: Object, term: str) -> bool:
    negated = "!=" in term
    path, _, value = term.replace("!=", "=").replace("==", "=").partition("=")
    found: Any = obj
    for part in path.strip().split("."):
        found = found.get(part, "") if isinstance(found, Mapping) else ""
    return (str(found or "") == value.strip()) is not negated
