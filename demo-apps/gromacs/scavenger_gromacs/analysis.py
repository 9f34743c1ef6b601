"""From trajectory and energies to density and self-diffusion."""

from __future__ import annotations

from pathlib import Path

from scavenger_water.configuration import Configuration
from scavenger_water.quantities import Quantity

from scavenger_gromacs import outcome
from scavenger_gromacs.gmx import Gmx


def analyse(configuration: Configuration, gmx: Gmx, folder: Path) -> tuple[Quantity, Quantity]:
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
    return outcome.density(energies), diffusion
