"""From trajectory and energies to result.json."""

from __future__ import annotations

import json
from pathlib import Path

from scavenger_checkpoint import write_atomically

from scavenger_gromacs import outcome
from scavenger_gromacs.configuration import Configuration
from scavenger_gromacs.gmx import Gmx
from scavenger_gromacs.record import Record, computed, ns_per_day


def analyse(configuration: Configuration, gmx: Gmx, folder: Path) -> dict[str, object]:
    """Density and self-diffusion after equilibration.

    Raises ToolError, StoppedError, NotFiniteError, and ValueError where a tool does not say what it should.
    """
    begin = f"{configuration.equilibration_ps:.6f}"
    energies = gmx("energy", "-f", "ener.edr", "-b", begin, "-o", "density.xvg", stdin="Density\n\n")
    # gmx msd of 2022 fails, or reads beyond its arrays, where frames are not whole picoseconds apart: they are said to
    # be 1 ps apart, and the result is scaled.
    relabel = ["-b", begin, "-t0", "0", "-timestep", "1", "-o", "frames.xtc"]
    gmx("trjconv", "-f", "traj.xtc", "-s", "topol.tpr", *relabel, stdin="0\n")
    frames = configuration.frames
    window = ["-trestart", str(max(1, frames // 50)), "-maxtau", str(max(8, frames // 2))]
    gmx("msd", "-f", "frames.xtc", "-s", "topol.tpr", "-sel", "name OW", *window, "-o", "msd.xvg")
    (folder / "frames.xtc").unlink()
    diffusion = outcome.diffusion((folder / "msd.xvg").read_text(), configuration.frame_ps)
    return {"density": outcome.density(energies).to_json(), "diffusion": diffusion.to_json()}


def write_result(
    target: Path, quantities: dict[str, object], configuration: Configuration, record: Record, ranks: int, threads: int
) -> None:
    """result.json: what was measured, and what it took."""
    speed = ns_per_day(record.starts, configuration.time_step_fs)
    result = {
        **quantities,
        "ns_per_day": speed,
        "steps": configuration.steps,
        "recomputed_steps": max(0, computed(record.starts) - configuration.steps),
        "starts": len(record.starts),
        "ranks": ranks,
        "threads": threads,
    }
    write_atomically(target, json.dumps(result, indent=1) + "\n")
