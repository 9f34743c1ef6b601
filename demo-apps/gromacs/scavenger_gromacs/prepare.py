"""From a configuration to run input: topol.tpr."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scavenger_checkpoint import write_atomically
from scavenger_water.configuration import Configuration

from scavenger_gromacs import inputs
from scavenger_gromacs.gmx import Gmx, ToolError

_WIDER: Final = (1.0, 1.01, 1.03, 1.06, 1.1)
"""Boxes that are tried until enough molecules are in one; those that are too many are left out."""


def prepare(folder: Path, configuration: Configuration, gmx: Gmx, threads: int) -> None:
    """Make the run input, unless it is there. It appears last, and whole. Raises ToolError and StoppedError."""
    if (folder / "topol.tpr").exists():
        return
    _solvate(folder, configuration, gmx)
    texts = {
        "topol.top": inputs.topology(configuration),
        "em.mdp": inputs.minimisation(configuration),
        "md.mdp": inputs.dynamics(configuration),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    gmx("grompp", "-f", "em.mdp", "-c", "start.gro", "-p", "topol.top", "-o", "em.tpr", "-po", "em.out.mdp")
    gmx("mdrun", "-deffnm", "em", "-ntmpi", "1", "-ntomp", str(threads), "-pin", "off")
    gmx("grompp", "-f", "md.mdp", "-c", "em.gro", "-p", "topol.top", "-o", "new.tpr", "-po", "md.out.mdp")
    (folder / "new.tpr").replace(folder / "topol.tpr")


def _solvate(folder: Path, configuration: Configuration, gmx: Gmx) -> None:
    edge, wanted = configuration.edge, configuration.molecules
    found = 0
    for factor in _WIDER:
        box = [f"{edge * factor:.5f}"] * 3
        gmx("solvate", "-cs", inputs.solvent(configuration), "-box", *box, "-maxsol", str(wanted), "-o", "start.gro")
        # Columns are fixed: residue number and name, 5 each, then the name of the atom.
        atoms = (folder / "start.gro").read_text().splitlines()[2:-1]
        found = sum(line[10:15].strip() == "OW" for line in atoms)
        if found >= wanted:
            return
    raise ToolError(f"gmx solvate placed {found} molecules of {wanted}")
