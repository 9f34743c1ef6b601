"""The generated CRDs: up to date, structural, documented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from scavenger_api import crd, names
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.model import QUANTITY_PATTERN, Model, Quantity

REPOSITORY = Path(__file__).resolve().parents[3]
CRDS = {"job": crd.job_crd(), "queue": crd.queue_crd()}


def root(definition: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


def test_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    status = crd.main(["--check", str(REPOSITORY / "manifests" / "crds")])

    assert status == 0, capsys.readouterr().out


def test_check_shows_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crd.main(["--check", str(tmp_path)]) == 1, "missing files are out of date"
    assert crd.main(["--write", str(tmp_path)]) == 0
    file = tmp_path / "scavengerqueues_scavenger.dev.yaml"
    file.write_text(file.read_text().replace("maximum: 1000000", "maximum: 7", 1))
    capsys.readouterr()

    assert crd.main(["--check", str(tmp_path)]) == 1
    diff = capsys.readouterr().out
    assert [line.split() for line in diff.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        ["-", "maximum:", "7"],
        ["+", "maximum:", "1000000"],
    ]


@pytest.mark.parametrize("kind", CRDS)
def test_the_yaml_says_what_was_generated(kind: str) -> None:
    content = crd.to_yaml(CRDS[kind])

    assert yaml.safe_load(content) == yaml.safe_load(yaml.safe_dump(_plain(CRDS[kind])))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    return [_plain(child) for child in value] if isinstance(value, list | tuple) else value


@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"]))
    | st.sampled_from(["no", "1e3", "0x1", "~", "- a", "a: b", "a #b", "", ".5", "2026-01-01"])
)
def test_yaml_strings_survive(text: str) -> None:
    value = {"key": [text, {"nested": text}]}

    assert yaml.safe_load(crd.to_yaml(value)) == value


PATTERNS = sorted({node["pattern"] for one in CRDS.values() for _, node in nodes(root(one)) if "pattern" in node})
RULES = [rule["rule"] for one in CRDS.values() for _, node in nodes(root(one)) for rule in node.get(crd.RULES, ())]
MATCHED = sorted({pattern for rule in RULES for pattern in re.findall(r"matches\('([^']*)'\)", rule)})


@pytest.mark.parametrize("pattern", [*PATTERNS, *MATCHED])
def test_a_pattern_means_the_same_in_every_language(pattern: str) -> None:
    """RE2, Rust and Python differ in what is a space, a digit, a letter, any character and the end of a line."""
    outside = re.sub(r"\[[^]]+\]", "x", pattern)
    assert pattern.isascii()
    assert not re.search(r"\\[A-Za-z]|\[:", pattern), "classes with a name"
    assert not re.search(r"(?<!\\)\.|\(\?|[+*?}][+]", outside), "any character, flags, looking around"
    assert pattern not in PATTERNS or (pattern[0], pattern[-1]) == ("^", "$")


CHARACTERS = [chr(number) for number in (*range(0x250), 0x661, 0x1680, 0x2003, 0x2028, 0x212A, 0x3000, 0xFEFF, 0x1D7D9)]
TEXTS = [
    *(
        text
        for seed in ("", "a", "A", "1", "1d", "1h", "/a")
        for one in CHARACTERS
        for text in (seed + one, one + seed)
    ),
    *(f"1{sign}{exponent}" for sign in ("e", "E", "e+", "e-") for exponent in range(100)),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_pattern_lets_in_can_be_read(pattern: str) -> None:
    """A ScavengerJob that the API server has stored, and the admitter cannot read, is never started."""
    let_in = [text for text in TEXTS if re.search(pattern[:-1] + r"\Z", text, re.ASCII)]
    read = TypeAdapter(Quantity if pattern == QUANTITY_PATTERN else Annotated[str, Field(pattern=pattern)])
    assert len(let_in) > 20
    assert [read.validate_python(text) for text in let_in] == let_in


@pytest.mark.parametrize("kind", CRDS)
def test_structural(kind: str) -> None:
    for path, node in nodes(root(CRDS[kind])):
        untyped = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
        assert ("type" in node) != bool(untyped), path
        assert not {"$ref", "title", "$defs", "const"} & set(node), path
        assert "anyOf" not in node or node["x-kubernetes-int-or-string"], path
        assert node.get("default", 0) is not None, path


@pytest.mark.parametrize("kind", CRDS)
def test_kubectl_explain_has_a_text_for_every_field(kind: str) -> None:
    of_api = {".apiVersion", ".kind", ".metadata"}  # the API server has texts of its own for these
    undocumented = [
        path
        for path, field in nodes(root(CRDS[kind]))
        if path and not path.endswith("[]") and path not in of_api and not field.get("description", "").strip()
    ]

    assert undocumented == []


@pytest.mark.parametrize("kind", CRDS)
def test_the_api_server_fills_in_no_status(kind: str) -> None:
    status = root(CRDS[kind])["properties"]["status"]

    assert [path for path, node in nodes(status) if "default" in node] == []


@pytest.mark.parametrize("kind", CRDS)
def test_every_list_and_map_of_the_spec_is_bounded(kind: str) -> None:
    """The API server estimates the cost of the rules from these bounds; above its budget it says no."""
    for path, node in nodes(root(CRDS[kind])["properties"]["spec"]):
        assert node.get("type") != "array" or "maxItems" in node, path
        assert "additionalProperties" not in node or "maxProperties" in node, path


def test_defaults_are_those_of_the_design() -> None:
    spec = root(CRDS["job"])["properties"]["spec"]["properties"]

    assert {name: field["default"] for name, field in spec.items() if "default" in field} == {
        "queue": "default",
        "priority": 0,
        "parallelism": 1,
        "interruptionAfter": "30m",
        "terminationGracePeriodSeconds": 30,
        "suspend": False,
        "capacity": "Guaranteed",
    }


def immutable() -> dict[str, Any]:
    spec = root(CRDS["job"])["properties"]["spec"]
    return crd.immutability_rule(ScavengerJobSpec, spec)


def test_each_immutable_field_is_compared_and_named() -> None:
    fields = set(root(CRDS["job"])["properties"]["spec"]["properties"])

    assert set(re.findall(r"oldSelf\.(\w+)", immutable()["rule"])) == fields - ScavengerJobSpec.MUTABLE
    assert set(re.findall(r"'spec\.(\w+): '", immutable()["messageExpression"])) == fields - ScavengerJobSpec.MUTABLE


def test_the_immutability_rule_knows_which_fields_may_be_absent() -> None:
    rule = immutable()["rule"]

    assert "(has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image))" in rule
    assert "(self.parallelism == oldSelf.parallelism)" in rule
    assert "(has(self.args) == has(oldSelf.args) && (!has(self.args) || self.args == oldSelf.args))" in rule


def test_a_write_of_the_status_evaluates_hardly_a_rule() -> None:
    """What is not about a change is about what never changes, and holds at once where there was an object before."""
    rules = [rule for _, node in nodes(root(CRDS["job"])) for rule in node.get(crd.RULES, ())]
    looked_at = [r["rule"] for r in rules if not r["rule"].startswith((crd.AT_CREATION, "self == oldSelf || "))]

    assert all(rule.get("optionalOldSelf", False) is rule["rule"].startswith(crd.AT_CREATION) for rule in rules)
    assert len([rule for rule in looked_at if "oldSelf" in rule]) == 1, "whether the queue may change is in the status"
    # of elements of lists that nothing tells apart nobody knows what they were before
    assert len(looked_at) == 1 + 1 + 3 + 1, "resourcesFrom, tolerations, and envFrom"


def test_a_rule_about_what_may_change_is_looked_at_every_time() -> None:
    schema = {crd.RULES: [{"rule": "self.queue != 'x'"}, {"rule": "self.image != 'x'"}]}
    crd.at_creation(schema, lambda rule: "queue" not in rule)
    assert schema[crd.RULES] == [
        {"rule": "self.queue != 'x'"},
        {"rule": "oldSelf.hasValue() || (self.image != 'x')", "optionalOldSelf": True},
    ]


def test_names_and_columns() -> None:
    spec = CRDS["job"]["spec"]
    version = spec["versions"][0]

    assert (CRDS["job"]["metadata"]["name"], spec["names"]["shortNames"]) == (
        "scavengerjobs.scavenger.dev",
        ["sj"],
    )
    assert CRDS["queue"]["spec"]["scope"] == "Cluster"
    assert CRDS["queue"]["spec"]["names"]["shortNames"] == ["sq"]
    assert version["subresources"] == {"status": {}}
    assert [c["name"].upper() for c in version["additionalPrinterColumns"] if "priority" not in c] == [
        "QUEUE",
        "STATUS",
        "INTERRUPTED",
        "RUNTIME",
        "AGE",
        "REASON",
    ]
    assert names.REASON_RUNNING in version["additionalPrinterColumns"][3]["jsonPath"]


class TwoTypes(Model):
    value: int | str


class ExclusiveBound(Model):
    value: Annotated[int, Field(gt=0)]


@pytest.mark.parametrize("model", [TwoTypes, ExclusiveBound])
def test_what_a_structural_schema_cannot_say_is_an_error(model: type[Model]) -> None:
    with pytest.raises(crd.SchemaError):
        crd.structural(model)
