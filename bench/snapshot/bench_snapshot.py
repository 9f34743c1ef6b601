"""What it costs to run a program on snapshots: CPU time ÷ the same program without them, in one run; stops and restores
for each GB; memory of the sandbox.

CPU time is that of a control group: processes of the engine are nobody's children that could be waited for.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from scavenger_cluster.build import SNAPSHOT, ensure_tools

from bench import Skipped

Figure = dict[str, Any]

LOOP_IN_C: Final = """
#include <stdio.h>
int main(void) {
    volatile double x = 1;
    for (long i = 1; i < 1500000000; i++) x += 1.0 / i;
    printf("%.17g\\n", x);
}
"""
NUMPY: Final = """
import numpy as np
a = np.random.default_rng(1).random((400, 400))
for _ in range(700):
    a = a @ a
    a /= np.abs(a).max()
"""
READS: Final = ("dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=200000")
WATER_BOX: Final = ("5.58618", "5.58618", "7.44824")
"""In nm: 36 times the box of 216 molecules that comes with GROMACS, so 23,328 atoms."""
WATER: Final = """
dt = 0.002
nsteps = 200
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
constraints = h-bonds
"""
TOPOLOGY: Final = '#include "amber99sb-ildn.ff/forcefield.itp"\n#include "amber99sb-ildn.ff/spce.itp"\n' + (
    "[ system ]\nwater\n[ molecules ]\n"
)
MEMORY_MB: Final = 512
HOLD: Final = f"import os, time; held = os.urandom({MEMORY_MB} << 20); print('held', flush=True); time.sleep(600)"
SAVED: Final = re.compile(r"saved ([\d.]+) MB: the program was stopped for ([\d.]+) s, and .* after ([\d.]+) s")
RESTORED: Final = re.compile(r"restored in ([\d.]+) s")


@contextlib.contextmanager
def group(name: str) -> Iterator[tuple[Path, Path]]:
    """A control group for CPU time, and one for memory; Skipped where there is none to be made."""
    roots = [Path("/sys/fs/cgroup") / part for part in ("cpuacct", "memory")]
    folders = [(root if root.is_dir() else root.parent) / f"bench-snapshot-{name}-{os.getpid()}" for root in roots]
    try:
        for folder in folders:
            folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Skipped(f"no control group can be made: {error}") from error
    try:
        yield folders[0], folders[1]
    finally:
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def cpu_seconds(folder: Path) -> float:
    """What a group has used so far."""
    if (file := folder / "cpuacct.usage").exists():
        return int(file.read_text()) * 1e-9
    words = (folder / "cpu.stat").read_text().split()
    return int(words[words.index("usage_usec") + 1]) * 1e-6


def memory_mb(folder: Path) -> float:
    """Memory of a group that is no cache of files on a disk."""
    words = (folder / "memory.stat").read_text().split()
    found = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    return (found.get("rss", found.get("anon", 0)) + found.get("shmem", 0)) / 1e6


def start(command: Sequence[str], folders: tuple[Path, Path], **how: Any) -> subprocess.Popen[str]:
    """Start a command in control groups, as another user than root."""

    def join() -> None:
        for folder in set(folders):
            (folder / "cgroup.procs").write_text(str(os.getpid()))
        os.setgroups([])
        os.setgid(65532)
        os.setuid(65532)

    return subprocess.Popen(command, preexec_fn=join, text=True, **how)


def cpu_of(command: Sequence[str], name: str) -> float:
    """CPU seconds of a command and of all that it starts."""
    with group(name) as folders:
        process = start(command, folders, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, said = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)[:100]} ended with {process.returncode}: {said}")
        return cpu_seconds(folders[0])


def on_snapshots(snap: Path, volume: Path, command: Sequence[str], every: str = "1h") -> list[str]:
    """The command that runs another one on snapshots."""
    words = ["run", "--dir", f"{volume}/.snapshot", "--volume", str(volume), "--every", every, "--verbose", "--"]
    return [str(snap), *words, *command]


def gromacs(folder: Path) -> list[str] | None:
    """The command that simulates water in two threads; None where there is no GROMACS."""
    gmx = shutil.which("gmx")
    if gmx is None:
        return None

    def prepare(*words: str) -> None:
        subprocess.run([gmx, "-quiet", *words], cwd=folder, capture_output=True, check=True)

    (folder / "water.mdp").write_text(WATER)
    (folder / "water.top").write_text(TOPOLOGY)
    prepare("solvate", "-cs", "spc216.gro", "-box", *WATER_BOX, "-p", "water.top", "-o", "water.gro")
    prepare("grompp", "-f", "water.mdp", "-c", "water.gro", "-p", "water.top", "-o", "water.tpr", "-maxwarn", "1")
    (folder / "water").mkdir(mode=0o777)
    (folder / "water").chmod(0o777)
    run = ["mdrun", "-s", str(folder / "water.tpr"), "-deffnm", str(folder / "water" / "run")]
    return [gmx, "-quiet", *run, "-ntmpi", "1", "-ntomp", "2", "-pin", "off", "-notunepme"]


def ratios(snap: Path, folder: Path, python: str) -> list[Figure]:
    """CPU time on snapshots ÷ without."""
    loop = folder / "loop"
    subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", str(loop)], input=LOOP_IN_C, text=True, check=True)
    programs: dict[str, tuple[Sequence[str], str | None]] = {
        "c_loop": ([str(loop)], "<= 1.12"),
        "numpy": ([python, "-c", NUMPY], "<= 1.15"),
        "small_reads": (READS, None),
    }
    water = gromacs(folder)
    if water is not None:
        programs["gromacs"] = (water, "<= 1.25")
    figures: list[Figure] = []
    for name, (command, goal) in programs.items():
        plain = cpu_of(command, "plain")
        volume = Path(tempfile.mkdtemp(dir=folder))
        volume.chmod(0o777)
        kept = cpu_of(on_snapshots(snap, volume, command), "kept")
        print(f"  {name}: {plain:.2f} s plain, {kept:.2f} s on snapshots", file=sys.stderr)
        figures.append({"name": f"snapshot.{name}_cpu_ratio", "value": kept / plain, "unit": "ratio", "goal": goal})
    return figures


def dumps(snap: Path, folder: Path, python: str) -> list[Figure]:
    """How long a program that holds memory is stopped, and restored; and the memory of a sandbox with little in it."""
    volume = folder / "dumps"
    volume.mkdir()
    volume.chmod(0o777)
    command = on_snapshots(snap, volume, [python, "-c", HOLD], every="3s")
    said = ""
    with group("dumps") as folders:
        process = start(command, folders, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(15)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=120)[1]
        process = start(command, folders, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        restored = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        said += restored + process.communicate(timeout=120)[1]
    full = [found for found in SAVED.findall(said) if float(found[0]) > MEMORY_MB]
    found = RESTORED.search(said)
    if not full or found is None:
        raise RuntimeError(f"no full snapshot, or none restored: {said}")
    gigabytes = float(full[0][0]) / 1000
    stops = sorted(float(stopped) for _, stopped, _ in full)
    whole = sorted(float(after) for _, _, after in full)
    stop, counts, restore = (
        seconds / gigabytes for seconds in (stops[len(stops) // 2], whole[len(whole) // 2], float(found[1]))
    )
    return [
        {"name": "snapshot.stop_seconds_per_gb", "value": stop, "unit": "s", "goal": "<= 1"},
        {"name": "snapshot.counts_after_seconds_per_gb", "value": counts, "unit": "s"},
        {"name": "snapshot.restore_seconds_per_gb", "value": restore, "unit": "s", "goal": "<= 2"},
        {"name": "snapshot.sandbox_mb", "value": sandbox_mb(snap, folder), "unit": "MB", "goal": "<= 60"},
    ]


def sandbox_mb(snap: Path, folder: Path) -> float:
    """Memory of a program on snapshots, less that of the same program without."""
    used = []
    for name, words in (("plain", []), ("kept", on_snapshots(snap, folder / "idle", []))):
        (folder / "idle").mkdir(exist_ok=True)
        (folder / "idle").chmod(0o777)
        with group(f"idle-{name}") as folders:
            command = [*words, "/bin/sh", "-c", "echo up; read line"]
            process = start(command, folders, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert process.stdout is not None
            process.stdout.readline()
            used.append(memory_mb(folders[1]))
            process.communicate("\n", timeout=60)
    return used[1] - used[0]


def run() -> list[Figure]:
    """All of it; Skipped without root, which control groups need."""
    if os.geteuid() != 0:
        raise Skipped("control groups need root")
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode:
        raise Skipped(f"{python} has no numpy")
    built = ensure_tools([SNAPSHOT.name], lambda line: print(line, file=sys.stderr))[SNAPSHOT.name]
    folder = Path(tempfile.mkdtemp(prefix="bench-snapshot-"))
    folder.chmod(0o755)
    try:
        snap = folder / "snap"
        shutil.copy(built, snap)
        snap.chmod(0o755)
        return ratios(snap, folder, python) + dumps(snap, folder, python)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
