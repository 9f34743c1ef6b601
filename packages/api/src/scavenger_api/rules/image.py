"""References to container images, read as the container runtimes read them.

The grammar is that of github.com/distribution/reference (regexp.go, normalize.go), which the kubelet uses. A name that
it does not accept fails as InvalidImageName only after the job has been given its capacity.
"""

from __future__ import annotations

import re
from typing import Final

MAX_NAME: Final = 255
DEFAULT_REGISTRY: Final = "docker.io"

_PORT: Final = r"(?::[0-9]+)?"
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\]){_PORT}", re.ASCII)
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH: Final = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}",
    re.ASCII,
)
_HEX: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}", re.ASCII)


def image_problem(reference: str) -> str | None:
    """What is wrong with an image reference and how to write it, or None for a good one."""
    if "://" in reference:
        return f"leave out {reference.partition('://')[0]}://, an image has no scheme"
    name, at, digest = reference.partition("@")
    if at:
        problem = _digest_problem(digest)
        if problem:
            return problem
    name, tag = _split_tag(name)
    if tag is not None and not _TAG.fullmatch(tag):
        return "the tag, after the last colon, takes up to 128 letters, digits, '_', '.' and '-', as app:1.2"
    return _name_problem(name)


def registry_of(reference: str) -> str:
    """The registry that an image comes from; where the reference names none, what the container runtimes take."""
    return _split_host(reference)[0] or DEFAULT_REGISTRY


def tag_of(reference: str) -> str:
    """The tag of an image; empty where it has none, such as one that is known by its digest alone."""
    return _split_tag(reference.partition("@")[0])[1] or ""


def _split_tag(name: str) -> tuple[str, str | None]:
    """A colon after the last slash begins the tag; one before it belongs to the registry's port."""
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    return head + slash + last, tag if colon else None


def _digest_problem(digest: str) -> str | None:
    if not _DIGEST.fullmatch(digest):
        return "the digest, after '@', is an algorithm and hexadecimal digits, as sha256: and 64 digits"
    algorithm, _, digits = digest.partition(":")
    length = _HEX.get(algorithm)
    if length is None:
        return f"the digest is {algorithm}: use one of {', '.join(_HEX)}"
    if len(digits) != length or digits != digits.lower():
        return f"a {algorithm} digest has {length} lower-case hexadecimal digits, this one has {len(digits)}"
    return None


def _name_problem(name: str) -> str | None:
    if _IDENTIFIER.fullmatch(name):
        return "64 hexadecimal digits are an image's id, not its name; write registry/name@sha256:…"
    host, path = _split_host(name)
    if host is not None and not _HOST.fullmatch(host):
        return f"{host!r} is not the name of a registry: write host or host:port before the first slash"
    if not path:
        return "the name of the image is missing"
    if path != path.lower():
        return f"the name of an image is in lower case: write {name[: len(name) - len(path)]}{path.lower()}"
    if not _PATH.fullmatch(path):
        return (
            "the name of an image is made of lower-case letters and digits, with single '.', '_' or '-' between them, "
            "as registry.example.com/team/app:1.2"
        )
    if len(name) > MAX_NAME:
        return f"the name of the image is {len(name)} characters long; at most {MAX_NAME}"
    return None


def _split_host(name: str) -> tuple[str | None, str]:
    """The part before the first slash is a registry if it looks like one (normalize.go, splitDockerDomain)."""
    first, slash, rest = name.partition("/")
    if slash and (any(c in first for c in ".:[") or first == "localhost" or first != first.lower()):
        return first, rest
    return None, name
