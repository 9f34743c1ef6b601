"""The same figures as JSON: sorted keys, numbers rounded to a millionth, so that equal runs are equal bytes.

docs/simulator.md has the schema; what is added later gets new keys, and no key changes its meaning within a version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from scavenger_simulator.report.figures import Study

SCHEMA: Final = "scavenger.dev/simulation/v1"
_DIGITS: Final = 6
_UNDERSCORE: Final = re.compile("_(.)")


def as_json(studies: Iterable[Study]) -> str:
    """All studies as one document."""
    document = {"schema": SCHEMA, "scenarios": [_study(study) for study in studies]}
    return json.dumps(plain(document), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _study(study: Study) -> dict[str, Any]:
    about = {
        "name": study.scenario,
        "origin": study.origin,
        "seed": study.seed,
        "start": study.start,
        "end": study.end,
        "nodes": study.nodes,
        "cores": study.cores,
        "ordinaryPods": study.ordinary_pods,
        "jobs": study.jobs,
        "demandCoreHours": study.demand,
    }
    return {"scenario": about, "settings": study.settings, "policies": [asdict(one) for one in study.figures()]}


def camel_case(name: str) -> str:
    """`delay_p50` as `delayP50`, as Kubernetes writes names."""
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


def plain(value: Any) -> Any:
    """Nested values with numbers rounded and keys in camel case."""
    if isinstance(value, dict):
        return {camel_case(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
