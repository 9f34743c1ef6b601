"""What programs in jobs leave behind, for tests that play the cluster: by seed and attempt, what becomes of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Object = dict[str, Any]

UNSTABLE_SEED: Final = 1
LARGE_SEED: Final = 2
HUNGRY_SEED: Final = 3
HOPELESS_SEED: Final = 4

TOO_LARGE: Final[Object] = {
    "phase": "Waiting",
    "message": "it asks for 1 cpu, the largest has 0",
    "conditions": [
        {
            "type": "Admitted",
            "status": "False",
            "reason": "LargerThanAnyNode",
            "message": "it asks for 1 cpu, the largest has 0",
            "lastTransitionTime": "2026-01-05T08:00:00Z",
        }
    ],
}
COMPLETED: Final[Object] = {"phase": "Completed", "interruptedCount": 2, "usefulCPUSeconds": 60, "lostCPUSeconds": 3}
KILLED: Final[Object] = {"phase": "Failed", "message": "container main of pod p exited with code 137 (OOMKilled)"}


def outcome(folder: Path, name: str) -> Object:
    """Do what the program of a job does, and return the status that the admitter gives the job then.

    One configuration is unstable with its first time step, one asks for more than any node has, one runs out of memory,
    and one is of a model that there is not.
    """
    attempt = int(name.rsplit("-", 1)[1])
    configuration = json.loads((folder / name / "configuration.json").read_text())
    seed = configuration["seed"]
    if seed == HOPELESS_SEED:
        return _failed(folder / name, "InvalidConfiguration")
    if attempt == 1 and seed == UNSTABLE_SEED:
        return _failed(folder / name, "Unstable")
    if attempt == 1 and seed == LARGE_SEED:
        return TOO_LARGE
    if attempt == 1 and seed == HUNGRY_SEED:
        return KILLED
    result = {
        "density": {"value": 1.0 - configuration["time_step_fs"] / 1000, "error": 0.001, "unit": "g/cm3"},
        "diffusion": {"value": 2.0 + seed, "error": 0.1, "unit": "1e-5 cm2/s"},
        "ns_per_day": 100.0,
        "steps": configuration["steps"],
        "recomputed_steps": 5,
        "ranks": 1,
        "threads": 1,
    }
    (folder / name / "result.json").write_text(json.dumps(result))
    return COMPLETED


def _failed(folder: Path, reason: str) -> Object:
    (folder / "failure.json").write_text(json.dumps({"reason": reason, "message": "the program's last words"}))
    return {"phase": "Failed", "message": "container main of pod p exited with code 1"}
