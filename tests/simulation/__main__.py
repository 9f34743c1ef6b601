"""`python -m tests.simulation --seed N` repeats one history exactly; `--seeds 200` plays as many from there on."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.system.history import simulate


def main() -> int:
    """Play histories, and print what each came to. Returns the exit code: 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first history")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # or the order of sets would differ from run to run
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    failed, began = 0, time.monotonic()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        try:
            print(f"seed {seed}: {simulate(seed).digest}", flush=True)
        except (AssertionError, TimeoutError) as error:
            failed += 1
            print(f"seed {seed} FAILED: {error!r}", flush=True)
    each = (time.monotonic() - began) / chosen.seeds
    print(f"{chosen.seeds} histories, {failed} failed, {each:.2f} s a seed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
