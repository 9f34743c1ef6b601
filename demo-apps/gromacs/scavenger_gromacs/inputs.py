"""The input files of GROMACS for a configuration. Pure."""

from __future__ import annotations

from typing import Final

from scavenger_water.configuration import Configuration

MODELS: Final = ("spc", "spce", "tip3p", "tip4p", "tip4pew")
"""As the files of the AMBER99SB-ILDN force field are called."""
FOUR_SITES: Final = ("tip4p", "tip4pew")


def solvent(configuration: Configuration) -> str:
    """The equilibrated box of water that comes with GROMACS and has as many sites as the model."""
    return "tip4p.gro" if configuration.model in FOUR_SITES else "spc216.gro"


def topology(configuration: Configuration) -> str:
    """topol.top."""
    return (
        '#include "amber99sb-ildn.ff/forcefield.itp"\n'
        f'#include "amber99sb-ildn.ff/{configuration.model}.itp"\n'
        f"[ system ]\nwater\n[ molecules ]\nSOL {configuration.molecules}\n"
    )


def minimisation(configuration: Configuration) -> str:
    """em.mdp: what was put together at random must not begin with overlaps."""
    return f"""\
integrator              = steep
nsteps                  = 500
emtol                   = 200
{_interactions(configuration)}
verlet-buffer-tolerance = -1
rlist                   = {configuration.cutoff}
"""


def dynamics(configuration: Configuration) -> str:
    """md.mdp: constant temperature and pressure, rigid molecules, particle-mesh Ewald."""
    interval = configuration.output_interval
    return f"""\
integrator              = md
dt                      = {configuration.time_step_fs / 1000:.6g}
nsteps                  = {configuration.steps}
nstxout-compressed      = {interval}
nstenergy               = {interval}
nstlog                  = {interval}
nstcalcenergy           = {_divisor(interval, 100)}
{_interactions(configuration)}
constraints             = h-bonds
tcoupl                  = v-rescale
tc-grps                 = System
tau-t                   = 1.0
ref-t                   = {configuration.temperature:.6g}
pcoupl                  = C-rescale
tau-p                   = 5.0
ref-p                   = {configuration.pressure:.6g}
compressibility         = 4.5e-5
gen-vel                 = yes
gen-temp                = {configuration.temperature:.6g}
gen-seed                = {configuration.seed}
ld-seed                 = {configuration.seed}
"""


def _interactions(configuration: Configuration) -> str:
    length = configuration.cutoff
    return f"""\
cutoff-scheme           = Verlet
coulombtype             = PME
rcoulomb                = {length}
rvdw                    = {length}
DispCorr                = EnerPres"""


def _divisor(number: int, most: int) -> int:
    """The largest divisor that is not above `most`: energies must be computed whenever they are written."""
    return next(candidate for candidate in range(min(number, most), 0, -1) if number % candidate == 0)
