"""What the services may do that they could not in the last release.

    python -m tools.rights --check      exit 1 where the CHANGELOG does not name what was gained
    python -m tools.rights --since REV  print what has come and gone since a commit or tag
    python -m tools.rights --release    make the roles as they are now those of the last release

The rights of the last release are in `tools/rights.txt`, one to a line. `make verify` compares them with the roles in
`manifests/`, and wants each line that has come, as it is printed here, under UNRELEASED in the CHANGELOG.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
LAST: Final = ROOT / "tools" / "rights.txt"
MANIFESTS: Final = "manifests"


READS: Final = frozenset({"get", "list", "watch"})
OPERATIONS: Final = {
    "create": "CREATE",
    "update": "UPDATE",
    "patch": "UPDATE",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "release": "UPDATE",
}
"""What an admission policy calls the verbs of a role that write. `release` is ours: a policy asks for it where somebody
marks an adopted Job."""
GUARD: Final = "scavenger-guard-"
_EVENT = "an Event changes no object, and other accounts write Events too"
_FINALIZERS = "only the check of blockOwnerDeletion asks for it; the API has no such resource"
ACCEPTED: Final[Mapping[str, str]] = {
    "create events": _EVENT,
    "create events.events.k8s.io": _EVENT,
    "patch events": _EVENT,
    "patch events.events.k8s.io": _EVENT,
    "create leases.coordination.k8s.io": "RBAC binds no creation to a name; the namespace has the components only",
    "create configmaps": "RBAC binds no creation to a name; the namespace has the components only",
    "update jobs/finalizers.batch": _FINALIZERS,
    "update scavengerjobs/finalizers.scavenger.dev": _FINALIZERS,
    "delete scavengerjobs.scavenger.dev": "those that are over, or whose queue is deleted",
    "update scavengerjobs/status.scavenger.dev": "this is what the admitter is for",
    "patch scavengerjobs/status.scavenger.dev": "this is what the admitter is for",
    "update scavengerqueues/status.scavenger.dev": "this is what the admitter is for",
    "patch scavengerqueues/status.scavenger.dev": "this is what the admitter is for",
}
"""`VERB RESOURCE.GROUP` of components that no policy narrows, and why that is accepted."""


class Policy(NamedTuple):
    """A ValidatingAdmissionPolicy: its name without `scavenger-guard-`, what it matches, and its text."""

    name: str
    matches: frozenset[tuple[str, str, str]]
    """(operation, group, resource with subresource)"""
    text: str
    excludes: str
    """The text of its match conditions."""

    def speaks_of(self, account: str) -> bool:
        """Whether it says what this component may do; a policy may leave a component out."""
        return f":{account}'" in self.text and not re.search(rf"username != '[^']*:{account}'", self.excludes)


def policies_of(texts: Iterable[str]) -> tuple[Policy, ...]:
    """The admission policies in these manifests, by name."""
    found = []
    for text in texts:
        for document in yaml.safe_load_all(text):
            if document and document["kind"] == "ValidatingAdmissionPolicy":
                rules = document["spec"]["matchConstraints"]["resourceRules"]
                matches = frozenset(
                    (operation, group, resource)
                    for rule in rules
                    for operation in rule["operations"]
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                )
                name, conditions = document["metadata"]["name"], document["spec"].get("matchConditions", ())
                conditions = " ".join(one["expression"] for one in conditions)
                found.append(Policy(name.removeprefix(GUARD), matches, yaml.safe_dump(document["spec"]), conditions))
    return tuple(sorted(found))


def bounds(
    account: str, rule: Mapping[str, Any], policies: Sequence[Policy]
) -> Iterator[tuple[str, Sequence[str], str]]:
    """What bounds each write that a rule of a component's role allows.

    Args:
        account: the component, which has a role of its name.
        rule: of that role.
        policies: one counts where it matches the request and names the account.

    Yields:
        the write as `VERB RESOURCE.GROUP`, the policies that narrow it, and else why it is accepted.

    Raises:
        ValueError: nothing narrows a write, and `ACCEPTED` does not say why that is accepted.
    """
    for verb in (one for one in rule["verbs"] if one not in READS):
        for group in rule.get("apiGroups") or ("",):
            for resource in rule.get("resources") or ():
                write, asked = f"{verb} {resource}{'.' if group else ''}{group}", (OPERATIONS[verb], group, resource)
                found = [one.name for one in policies if asked in one.matches and one.speaks_of(account)]
                if not found and rule.get("resourceNames"):
                    yield write, (), "the name"
                elif found or write in ACCEPTED:
                    yield write, found, "" if found else f"accepted: {ACCEPTED[write]}"
                else:
                    raise ValueError(
                        f"{account} may {write}, and no policy narrows it: add one, or name it in ACCEPTED"
                    )


def rights_of(texts: Iterable[str]) -> set[str]:
    """The rights of all roles in these manifests: `ROLE: VERB RESOURCE.GROUP`, with the only name that it is for."""
    found: set[str] = set()
    for text in texts:
        for document in yaml.safe_load_all(text):
            if document and document["kind"] in ("ClusterRole", "Role"):
                found |= _rights_of_role(document)
    return found


def namespace_of(role: Mapping[str, Any]) -> str:
    """Where a role holds, where that is a namespace of Kubernetes; else empty."""
    namespace = role["metadata"].get("namespace", "")
    return namespace if namespace.startswith("kube-") else ""


def _rights_of_role(role: Mapping[str, Any]) -> set[str]:
    where = "" if role["kind"] == "ClusterRole" else f" in {namespace_of(role) or 'its own namespace'}"
    found = set()
    for rule in role.get("rules") or ():
        for name in rule.get("resourceNames") or ("",):
            only = f" {name}" if name else ""
            for group in rule.get("apiGroups") or ("",):
                of = f".{group}" if group else ""
                for resource in rule.get("resources") or rule.get("nonResourceURLs") or ():
                    found |= {
                        f"{role['metadata']['name']}: {verb} {resource}{of}{only}{where}" for verb in rule["verbs"]
                    }
    return found


def now() -> set[str]:
    """The rights of the roles in manifests/."""
    return rights_of(file.read_text() for file in sorted((ROOT / MANIFESTS).rglob("*.yaml")))


def at(revision: str) -> set[str]:
    """The rights at a commit or tag. Raises subprocess.CalledProcessError for one that there is not."""
    names = _git("ls-tree", "-r", "--name-only", revision, MANIFESTS).splitlines()
    return rights_of(_git("show", f"{revision}:{name}") for name in names if name.endswith(".yaml"))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def untold(gained: Iterable[str], changelog: str) -> list[str]:
    """Rights that the UNRELEASED part of a CHANGELOG does not name."""
    part = changelog.partition("## UNRELEASED")[2].partition("\n## ")[0]
    return sorted(right for right in gained if f"`{right}`" not in part)


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.rights", description=(__doc__ or "").partition("\n")[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="the CHANGELOG names what was gained")
    mode.add_argument("--since", metavar="REV", help="print what has come (+) and gone (-) since then")
    mode.add_argument("--release", action="store_true", help="write tools/rights.txt")
    arguments = parser.parse_args(words)
    if arguments.since:
        before = at(arguments.since)
        lines = [f"+ {right}" for right in now() - before] + [f"- {right}" for right in before - now()]
        sys.stdout.write("".join(f"{line}\n" for line in sorted(lines, key=lambda line: (line[2:], line))))
        return 0
    if arguments.release:
        LAST.write_text("".join(f"{right}\n" for right in sorted(now())))
        return 0
    missing = untold(now() - set(LAST.read_text().splitlines()), (ROOT / "CHANGELOG.md").read_text())
    for right in missing:
        sys.stderr.write(f"`{right}`\n")
    if missing:
        sys.stderr.write("new since the last release: name these rights in CHANGELOG.md under UNRELEASED, and why\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
