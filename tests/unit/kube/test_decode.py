"""Bytes to objects, by both decoders: what is malformed is left out alone, what is no answer at all is an error."""

from __future__ import annotations

import gc
from typing import Any

import orjson
import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from scavenger_api.job import ScavengerJob
from scavenger_api.model import ObjectMeta
from scavenger_kube.decode import DecodeError, Decoder, ModelDecoder, StructDecoder, _NextMeta, decoder_for
from scavenger_kube.kinds import ConfigMap
from scavenger_kube.nesting import MAX_DEPTH
from scavenger_runtime.cache import Cache
from scavenger_testing.builders import scavengerjob_dict


class Meta(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, frozen=True)

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Model(BaseModel):
    metadata: Meta
    data: dict[str, str] = {}


DECODERS = [StructDecoder(ConfigMap), ModelDecoder(Model)]
both = pytest.mark.parametrize("decoder", DECODERS, ids=["struct", "model"])


def obj(name: str, data: Any = None, version: str = "7") -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version}
    return {"metadata": meta, "data": data or {}, "unknown": [1, {"deep": None}]}


def page(*items: Any, **meta: str) -> bytes:
    return orjson.dumps({"kind": "List", "metadata": {"resourceVersion": "9", **meta}, "items": list(items)})


@both
def test_a_page(decoder: Decoder[Any]) -> None:
    found = decoder.page(page(obj("a", {"k": "v"}), obj("b"), **{"continue": "token"}))
    first, second = found.items
    assert (first.metadata.key, first.data, second.metadata.key) == ("ns/a", {"k": "v"}, "ns/b")
    assert (found.resource_version, found.continue_token, found.malformed) == ("9", "token", [])
    assert list(decoder.page(b'{"metadata":{"resourceVersion":"1"},"items":null}').items) == []


@both
def test_one_malformed_object_is_reported_and_the_others_are_there(decoder: Decoder[Any]) -> None:
    found = decoder.page(page(obj("a"), obj("bad", {"k": 1}, version="8"), obj("c"), {"metadata": 5}))
    assert [one.metadata.name for one in found.items] == ["a", "c"]
    assert [(one.key, one.resource_version) for one in found.malformed] == [("ns/bad", "8"), ("", "")]


@both
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items":[', b'{"items":[]}', b"\xff", b'{"metadata":3}'])
def test_what_is_no_list(decoder: Decoder[Any], body: bytes) -> None:
    with pytest.raises(DecodeError):
        decoder.page(body)


@both
def test_events(decoder: Decoder[Any]) -> None:
    added = decoder.event(orjson.dumps({"type": "ADDED", "object": obj("a")}))
    assert added.obj is not None
    assert (added.type, added.resource_version, added.obj.metadata.name) == ("ADDED", "7", "a")
    bookmark = decoder.event(b'{"type":"BOOKMARK","object":{"kind":"X","metadata":{"resourceVersion":"12"}}}')
    assert (bookmark.type, bookmark.resource_version, bookmark.obj) == ("BOOKMARK", "12", None)
    error = decoder.event(b'{"type":"ERROR","object":{"kind":"Status","code":410}}')
    assert (error.status["code"], error.resource_version) == (410, "")
    bad = decoder.event(orjson.dumps({"type": "MODIFIED", "object": obj("a", {"k": 1})}))
    assert bad.obj is None
    assert bad.malformed is not None
    assert (bad.malformed.key, bad.resource_version) == ("ns/a", "7"), "to resume after it, not at it"


def test_the_decoder_follows_the_type() -> None:
    assert isinstance(decoder_for(ConfigMap), StructDecoder)
    assert isinstance(decoder_for(Model), ModelDecoder)
    with pytest.raises(TypeError, match="no decoder"):
        decoder_for(dict)  # type: ignore[type-var]  # mypy says so too


def test_a_cache_keeps_one_copy_of_what_has_not_changed() -> None:
    decoder = StructDecoder(ConfigMap)
    cache: Cache[ConfigMap] = Cache({})
    (first,) = decoder.page(page(obj("a"))).items
    (again,) = decoder.page(page(obj("a"))).items
    cache.put(first)
    assert cache.same(again) is first
    assert cache.put(again) == []


def test_an_index_function_that_fails_leaves_the_cache_as_it_was() -> None:
    def by_size(found: ConfigMap) -> list[str]:
        return [found.data["size"]]

    cache = Cache({"size": by_size})
    decoder = StructDecoder(ConfigMap)
    for one in decoder.page(page(obj("a", {"size": "s"}))).items:
        cache.put(one)
    (broken,) = decoder.page(page(obj("a", {"other": "x"}, version="8"))).items
    with pytest.raises(KeyError):
        cache.put(broken)
    assert [one.metadata.resource_version for one in cache.by_index("size", "s")] == ["7"]


# --- versions of a known object ---


def scavenger_job(**changes: Any) -> dict[str, Any]:
    """A job as the API server has it; changes are of its metadata, or `status`."""
    job = scavengerjob_dict("a", env=[{"name": "A", "value": "b"}], parallelism=3)
    fixed = {"uid": "u", "generation": 2, "resourceVersion": "7", "creationTimestamp": "2026-01-05T08:00:00Z"}
    status = changes.pop("status", {"phase": "Waiting"})
    return {**job, "metadata": {**job["metadata"], **fixed, **changes}, "status": status}


def decoded(given: dict[str, Any], known: ScavengerJob | None = None) -> Any:
    decoder = ModelDecoder(ScavengerJob, (lambda _: known) if known is not None else None)
    return decoder.event(orjson.dumps({"type": "MODIFIED", "object": given}))


KNOWN = scavenger_job()
OWNER = {"apiVersion": "v1", "kind": "Series", "name": "s", "uid": "s-1", "controller": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"status": {"phase": "Running", "startCount": 1, "interruptedTimestamps": ["2026-01-05T09:00:00Z"]}},
        {"labels": {"team": "x"}, "annotations": {"a": "b"}},
        {"finalizers": ["f"], "ownerReferences": [OWNER]},
        {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]},
    ],
    ids=["status", "labels", "owners", "managed"],
)
def test_a_version_with_a_known_spec_is_what_reading_all_of_it_gives(changes: dict[str, Any]) -> None:
    before = decoded(scavenger_job(labels={"old": "x"}, finalizers=["g"], ownerReferences=[OWNER, OWNER])).obj
    given = scavenger_job(resourceVersion="8", **changes)
    found = decoded(given, before).obj
    assert found == decoded(given).obj
    assert found.spec is before.spec
    assert not any(map(gc.is_tracked, (found, found.status, found.metadata)))


def test_no_field_of_metadata_is_left_as_it_was_unless_a_new_generation_comes_with_it() -> None:
    fixed = {"name", "namespace", "uid", "generation", "creation_timestamp", "deletion_timestamp"}
    read = set(_NextMeta.__struct_fields__) - {"name", "namespace", "uid", "generation"}
    assert set(ObjectMeta.model_fields) == fixed | read


@pytest.mark.parametrize(
    "changes",
    [{"generation": 3}, {"uid": "other"}, {"generation": 0}, {"status": {}}],
    ids=["generation", "uid", "none", "no-status"],
)
def test_a_spec_that_may_have_changed_is_read(changes: dict[str, Any]) -> None:
    before = decoded(KNOWN).obj
    given = scavenger_job(resourceVersion="8", **changes)
    given["spec"]["parallelism"] = 5
    if "status" in changes:
        del given["status"]
        given["metadata"]["generation"] = 3
    assert decoded(given, before).obj == decoded(given).obj
    assert decoded(given, before).obj.spec.parallelism == 5


def test_a_version_that_is_known_is_not_read_again() -> None:
    before = decoded(KNOWN).obj
    assert decoded(KNOWN, before).obj is before
    other = {**KNOWN, "metadata": {**KNOWN["metadata"], "uid": "other"}}
    assert decoded(other, before).obj is not before


@pytest.mark.parametrize("status", [{"phase": "Dreaming"}, {"interruptedCount": -1}, 5, None])
def test_a_status_that_cannot_be_read_is_told_as_of_the_whole_object(status: Any) -> None:
    before, given = decoded(KNOWN).obj, scavenger_job(resourceVersion="8", status=status)
    assert decoded(given, before) == decoded(given)
    assert decoded(given, before).malformed.key == "default/a"


# --- what no decoder takes ---


def nested(levels: int) -> bytes:
    return b'{"f":' * levels + b"1" + b"}" * levels


ODD = [nested(10_000), nested(MAX_DEPTH * 3), b'{"f:\xff\xed":{}}']
odd = pytest.mark.parametrize("fields", ODD, ids=["deepest", "deep", "no-text"])


def event_with(given: dict[str, Any], fields: bytes) -> bytes:
    """An event of an object with these managed fields, as the API server stores them of anybody."""
    marked = {**given, "metadata": {**given["metadata"], "managedFields": ["HERE"]}}
    body = orjson.dumps({"type": "MODIFIED", "object": marked})
    return body.replace(b'"HERE"', b'{"fieldsV1":%s}' % fields)


@odd
@both
def test_an_event_is_mended_where_it_cannot_be_decoded(decoder: Decoder[Any], fields: bytes) -> None:
    found = decoder.event(event_with(obj("a", {"k": "v"}), fields))
    assert found.obj is not None
    assert (found.obj.metadata.key, found.obj.data, found.malformed) == ("ns/a", {"k": "v"}, None)


@odd
def test_the_next_version_of_a_job_is_mended_as_well(fields: bytes) -> None:
    before = decoded(KNOWN).obj
    given = scavenger_job(resourceVersion="8", status={"phase": "Running"})
    found = ModelDecoder(ScavengerJob, lambda _: before).event(event_with(given, fields)).obj
    assert found == decoded(given).obj


def test_what_is_kept_as_it_is_written_is_never_too_deep() -> None:
    """Pydantic prints no more than some 200 levels, and a template is printed again."""
    template = {"spec": {"containers": [{"name": "main", "image": "a", "odd": "HERE"}]}}
    given = {**KNOWN, "spec": {"template": template}}
    line = orjson.dumps({"type": "ADDED", "object": given}).replace(b'"HERE"', nested(MAX_DEPTH + 20))
    found = ModelDecoder(ScavengerJob).event(line).obj
    assert found is not None
    assert found.spec.template is not None
    assert b'{"f":null}' in found.spec.template.to_json()
