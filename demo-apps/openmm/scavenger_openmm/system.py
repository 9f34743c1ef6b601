"""Water as OpenMM has it: the system and its first state, and segments of the simulation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm
from scavenger_checkpoint import write_atomically
from scavenger_water.configuration import Configuration

from scavenger_openmm.analysis import Numbers
from scavenger_openmm.decisions import MODELS, barostat_interval, seeds

FRICTION = 0.5
"""Of the Langevin thermostat, 1/ps: it takes about 1 % off the diffusion of water."""
_MINIMISATIONS = 100
"""Iterations at most: nothing may overlap, and the rest is for the equilibration."""
_PLATFORM = "CPU"


@dataclass(frozen=True)
class Prepared:
    """A system, and the state that it begins with."""

    system: openmm.System
    start: openmm.State


def prepared(folder: Path, configuration: Configuration, threads: int) -> Prepared:
    """What is in the folder, made first unless it is there. system.xml appears last; both are whole."""
    system, start = folder / "system.xml", folder / "start.xml"
    if not system.exists():
        made = _prepare(configuration, threads)
        write_atomically(start, openmm.XmlSerializer.serialize(made.start))
        write_atomically(system, openmm.XmlSerializer.serialize(made.system))
    return Prepared(
        openmm.XmlSerializer.deserialize(system.read_text()), openmm.XmlSerializer.deserialize(start.read_text())
    )


class Segment:
    """The simulation from one state on, with random numbers that follow from seed and step."""

    def __init__(self, system: openmm.System, state: openmm.State, configuration: Configuration, threads: int) -> None:
        """Begin at that state."""
        thermostat, barostat = seeds(configuration, state.getStepCount())
        integrator = openmm.LangevinMiddleIntegrator(
            configuration.temperature, FRICTION, configuration.time_step_fs / 1000
        )
        integrator.setRandomNumberSeed(thermostat)
        for force in system.getForces():
            if isinstance(force, openmm.MonteCarloBarostat):
                force.setRandomNumberSeed(barostat)
        self._integrator = integrator
        self._context = _context(system, integrator, threads)
        self._context.setState(state)

    def make(self, steps: int) -> None:
        """So many steps. Raises OpenMMException."""
        self._integrator.step(steps)

    def state(self) -> openmm.State:
        """As it is now, with all that another segment needs to begin with."""
        return self._context.getState(positions=True, velocities=True, energy=True)


def energies(state: openmm.State) -> tuple[float, float]:
    """Potential and kinetic, kJ/mol."""
    return state.getPotentialEnergy()._value, state.getKineticEnergy()._value


def frame(state: openmm.State, molecules: int) -> tuple[float, Numbers]:
    """The edge of the box and the positions of the oxygen atoms, the first of each molecule; nm."""
    positions = np.asarray(state.getPositions(asNumpy=True)._value)
    return float(state.getPeriodicBoxVectors()._value[0][0]), positions[:: len(positions) // molecules]


def _prepare(configuration: Configuration, threads: int) -> Prepared:
    """A cubic box of water at about its density, its energy at a minimum, with velocities."""
    from openmm import app, unit

    field = app.ForceField(f"amber14/{configuration.model}.xml")
    modeller = app.Modeller(app.Topology(), [])
    modeller.addSolvent(field, model=MODELS[configuration.model], numAdded=configuration.molecules)
    system = field.createSystem(
        modeller.topology,
        nonbondedMethod=app.PME,
        nonbondedCutoff=configuration.cutoff,
        constraints=app.HBonds,
        rigidWater=True,
    )
    system.addForce(
        openmm.MonteCarloBarostat(
            configuration.pressure * unit.bar, configuration.temperature, barostat_interval(configuration)
        )
    )
    # Modeller leaves room at the faces of the box: the molecules are moved together, each as a whole.
    placed = np.asarray(modeller.positions.value_in_unit(unit.nanometer), dtype=float)
    made = float(modeller.topology.getPeriodicBoxVectors()[0][0].value_in_unit(unit.nanometer))
    sites = placed.reshape(configuration.molecules, -1, 3)
    sites = sites + (configuration.edge / made - 1) * sites[:, :1]
    context = _context(system, openmm.VerletIntegrator(configuration.time_step_fs / 1000), threads)
    context.setPeriodicBoxVectors(*(np.eye(3) * configuration.edge))
    context.setPositions(sites.reshape(-1, 3))
    context.computeVirtualSites()
    openmm.LocalEnergyMinimizer.minimize(context, 10.0, _MINIMISATIONS)
    context.setVelocitiesToTemperature(configuration.temperature, configuration.seed)
    return Prepared(system, context.getState(positions=True, velocities=True, energy=True))


def _context(system: openmm.System, integrator: openmm.Integrator, threads: int) -> openmm.Context:
    # Without this OpenMM chooses how it cuts up the mesh by how long each way takes, and sums come out otherwise.
    properties = {"Threads": str(threads), "DeterministicForces": "true"}
    return openmm.Context(system, integrator, openmm.Platform.getPlatformByName(_PLATFORM), properties)
