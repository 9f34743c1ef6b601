"""What the wrapper of GROMACS reads and decides. GROMACS itself is in tests/integration/programs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from scavenger_gromacs import inputs, outcome
from scavenger_water import quantities

from tests.unit.water import given

read = partial(given.read, inputs.MODELS)


# --- inputs ---


def settings(mdp: str) -> dict[str, str]:
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in mdp.splitlines())}


def test_inputs_say_what_the_configuration_says() -> None:
    chosen = read(temperature=310, seed=42, time_step_fs=1.5, output_interval=30, model="tip4pew")
    assert inputs.topology(chosen).splitlines()[1:] == [
        '#include "amber99sb-ildn.ff/tip4pew.itp"',
        "[ system ]",
        "water",
        "[ molecules ]",
        "SOL 500",
    ]
    md = settings(inputs.dynamics(chosen))
    expected = {
        "dt": "0.0015",
        "nsteps": "1000",
        "ref-t": "310",
        "gen-temp": "310",
        "gen-seed": "42",
        "ld-seed": "42",
        "nstxout-compressed": "30",
        "nstenergy": "30",
    }
    assert expected.items() <= md.items()
    assert inputs.solvent(chosen) == "tip4p.gro"
    assert inputs.solvent(read()) == "spc216.gro"


@pytest.mark.parametrize("interval", [1, 7, 100, 101, 250, 1000])
def test_energies_are_computed_when_they_are_written(interval: int) -> None:
    md = settings(inputs.dynamics(read(output_interval=interval, steps=10**6)))
    assert interval % int(md["nstcalcenergy"]) == 0
    assert 1 <= int(md["nstcalcenergy"]) <= 100


# --- endings ---


def fatal(text: str, heading: str = "Fatal error") -> str:
    """As GROMACS says it."""
    return f"""step 100, remaining wall clock time:     2 s

-------------------------------------------------------
Program:     gmx mdrun, version 2022.5-Debian_2022.5_2
Source file: src/gromacs/fileio/checkpoint.cpp (line 400)

{heading}:
{text}

For more information and tips for troubleshooting, please check the GROMACS
website at http://www.gromacs.org/Documentation/Errors
-------------------------------------------------------
"""


SETTLE = "step 160: One or more water molecules can not be settled.\nCheck for bad contacts and/or reduce the timestep."
REPLACED = "Can't read 2288 bytes of 'ener.edr' to compute checksum. The file has been\nreplaced or its contents have been modified. Cannot do appending because of\nthis condition."  # noqa: E501
TORN = "Checkpoint file corrupted/truncated, or maybe you are out of disk space?"
CELLS = "There is no domain decomposition for 64 ranks that is compatible with the given\nbox and a minimum cell size of 0.7 nm"  # noqa: E501
AT_WORK = "starting mdrun 'water'\n2000 steps, 20.0 ps.\nstep 0\rstep 50, remaining wall clock time:     0 s\r"
TERM = "Received the TERM signal, stopping within 25 steps"


def judged(code: int, output: str = "", **facts: Any) -> outcome.Outcome:
    return outcome.judge(
        code,
        output,
        **{"step": 500, "steps": 1000, "began": 200, "stopped": False, "out_of_time": False, **facts},
    )


@pytest.mark.parametrize(
    ("code", "output", "facts", "end", "reason"),
    [
        (0, "", {"step": 1000}, "FINISHED", None),
        (0, SETTLE, {"step": 1000}, "FINISHED", None),
        (0, "", {"step": 1000, "stopped": True}, "FINISHED", None),
        (1, TERM, {"stopped": True}, "SAVED", None),
        (-15, "", {"stopped": True, "step": None}, "SAVED", None),
        (1, TERM, {}, "SAVED", None),
        (0, "", {"out_of_time": True}, "FAILED", "WALL_TIME"),
        (0, "", {"out_of_time": True, "step": 1000}, "FINISHED", None),
        (0, "", {}, "FAILED", "ERROR"),
        (-11, SETTLE, {}, "FAILED", "UNSTABLE"),
        (-11, "", {}, "FAILED", "ERROR"),
        (-11, AT_WORK, {}, "FAILED", "UNSTABLE"),
        (-8, AT_WORK, {}, "FAILED", "UNSTABLE"),
        (-6, AT_WORK, {}, "FAILED", "ERROR"),
        (1, fatal("Step 40: The total potential energy is nan, which is not finite."), {}, "FAILED", "UNSTABLE"),
        (-9, "", {}, "FAILED", "OUT_OF_MEMORY"),
        (-9, "", {"stopped": True}, "SAVED", None),
        (1, fatal("Not enough memory. Failed to realloc 12 bytes"), {}, "FAILED", "OUT_OF_MEMORY"),
        (1, fatal(CELLS), {"began": 0}, "FAILED", "DECOMPOSITION"),
        (1, fatal(REPLACED, "Inconsistency in user input"), {}, "REFUSED", None),
        (1, fatal(TORN), {}, "REFUSED", None),
        (1, fatal(TORN), {"began": 0}, "FAILED", "ERROR"),
        (1, fatal("Cannot rename checkpoint file; maybe you are out of disk space?"), {}, "FAILED", "ERROR"),
        (1, fatal("Something else"), {}, "FAILED", "ERROR"),
        (1, "dlopen failed", {}, "FAILED", "ERROR"),
    ],
)
def test_what_an_end_of_mdrun_means(
    code: int, output: str, facts: dict[str, Any], end: str, reason: str | None
) -> None:
    found = judged(code, output, **facts)
    assert (found.end.name, found.reason and found.reason.name) == (end, reason)
    if end == "FAILED":
        assert found.message


def test_messages_are_one_line() -> None:
    assert judged(1, fatal(CELLS)).message == " ".join(CELLS.split())
    assert judged(-11, SETTLE).message == "step 160: One or more water molecules can not be settled."
    assert judged(-11, AT_WORK).message == "mdrun crashed (SIGSEGV) after step 50"
    assert judged(1, "a\nlast words\n\n").message == "mdrun ended with 1: last words"
    assert outcome.fatal_error("nothing of that kind") == ""


# --- what the tools say ---

ENERGY = """
Energy                      Average   Err.Est.       RMSD  Tot-Drift
-------------------------------------------------------------------------------
Density                     1012.36        1.9     5.1276    -3.1059  (kg/m^3)
"""
MSD = '@ s0 legend "D[   name OW] = 0.2500 (+/- 0.0300) (1e-5 cm^2/s)"\n'


def test_quantities_are_read() -> None:
    assert outcome.density(ENERGY).to_json() == {"value": 1012.36, "error": 1.9, "unit": "kg/m^3"}
    assert outcome.density(ENERGY.replace(" 1.9 ", "  -- ")).error is None
    # Frames 0.1 ps apart that are said to be 1 ps apart: ten times as fast.
    found = outcome.diffusion(MSD, 0.1)
    assert found.to_json() == {"value": pytest.approx(2.5), "error": pytest.approx(0.3), "unit": "1e-5 cm^2/s"}
    assert outcome.diffusion(MSD.replace("0.0300", "nan"), 1).error is None


@pytest.mark.parametrize("value", ["nan", "-nan", "inf"])
def test_what_is_not_finite_is_no_result(value: str) -> None:
    with pytest.raises(quantities.NotFiniteError):
        outcome.density(ENERGY.replace("1012.36", value))
    with pytest.raises(quantities.NotFiniteError):
        outcome.diffusion(MSD.replace("0.2500", value), 1)


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="density"):
        outcome.density("")
    with pytest.raises(ValueError, match="diffusion"):
        outcome.diffusion("", 1)


def test_steps_are_read_as_they_come() -> None:
    said = "\nstep 700, remaining wall clock time:     2 s          \nstep 800, will finish Sun Nov 22\nstep 90"
    assert outcome.steps_seen(said) == [700, 800]
    assert outcome.steps_seen("20000 steps,     40.0 ps (continuing from step 2625,      5.2 ps).") == [2625]
    assert outcome.steps_seen("stepping 5, timestep 4, ") == []
    assert outcome.checkpoint_step("simulation part # = 1\nstep = 2000\nt = 4.0\n") == 2000
    assert outcome.checkpoint_step("nstep = 3\n") is None
