"""Small programs that are interrupted, good ones and bad ones. Each is one file, run by the Python of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import scavenger_checkpoint

STEPS = 6
SOURCES = str(Path(scavenger_checkpoint.__file__).parents[1])

# In the first starts it waits for its interruption, at a step that differs each time; so that nothing here depends on
# how fast anything is. `STATE` has two steps for each start that came before.
_FRAME = """
import datetime, os, signal, sys, time
sys.path.insert(0, {sources!r})
from scavenger_checkpoint import EXIT_SAVED, Place, StopRequest, Store, report_checkpoint, write_atomically

STEPS, INTERRUPTED = {steps}, {interrupted}
place = Place.read(os.environ)
ALONE = os.path.basename(os.getcwd()) == "uninterrupted"

def wait_for_interruption(step):
    if place.restarts < INTERRUPTED and step == 2 * (place.restarts + 1) and not ALONE:
        print("here", flush=True)
        return True
    return False
"""

GOOD = """
stop, store = StopRequest(), Store("state")
saved = store.load().content
step, total = map(int, saved.split()) if saved else (0, 0)

def save():
    now = datetime.datetime.now(datetime.timezone.utc)
    store.save(f"{step} {total}".encode())
    report_checkpoint(now)

while step < STEPS:
    step, total = step + 1, total + (step + 1) ** 2
    save()
    if wait_for_interruption(step):
        stop.wait()
    if stop:
        sys.exit(EXIT_SAVED)
write_atomically("result", str(total))
"""

COUNTS_TWICE = """
# Its result grows by a line each step, and its state is saved every third step only.
stop, store = StopRequest(), Store("state")
step = int(store.load().content or 0)
while step < STEPS:
    step += 1
    with open("result", "a") as file:
        file.write(f"step {step}\\n")
    if step % 3 == 0:
        store.save(str(step).encode())
    if wait_for_interruption(step):
        stop.wait()
        sys.exit(0)
"""

FORGETS = """
# Begins anew each time, which is wasteful and right.
for step in range(1, STEPS + 1):
    if wait_for_interruption(step):
        signal.pause()
write_atomically("result", "done")
"""

DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for step in range(1, STEPS + 1):
    if wait_for_interruption(step):
        time.sleep(3600)
write_atomically("result", "done")
"""

SILENT = """
# Says with its exit code that it has saved its state, and does not say when.
stop = StopRequest()
for step in range(1, STEPS + 1):
    if wait_for_interruption(step):
        stop.wait()
        sys.exit(EXIT_SAVED)
write_atomically("result", "done")
"""

CONFUSED = """
# Finds its own old state, and thinks that it is somebody else's.
if os.path.exists("state"):
    print("state of another program", flush=True)
    sys.exit(7)
open("state", "w").close()
for step in range(1, STEPS + 1):
    if wait_for_interruption(step):
        signal.pause()
"""

STEPWISE = """
# Ends by itself after each two steps, with its state saved.
store = Store("state")
step = int(store.load().content or 0)
while step < STEPS:
    if wait_for_interruption(step + 2):
        signal.pause()
    step += 2
    store.save(str(step).encode())
    report_checkpoint(datetime.datetime.now(datetime.timezone.utc))
    if step < STEPS and not ALONE:
        sys.exit(EXIT_SAVED)
write_atomically("result", "done")
"""

ATTENTIVE = """
import json
stop, store = StopRequest(), Store("state")
step = int(store.load().content or 0)
limit = int(open("limit").read())
while step < limit:
    step += 1
    print(step, flush=True)
    if stop.wait(0.005):
        store.save(str(step).encode())
        report_checkpoint(datetime.datetime.now(datetime.timezone.utc))
        sys.exit(EXIT_SAVED)
figures = {"steps": step, "starts": place.restarts, "noise": 1 + 0.01 * place.restarts}
write_atomically("figures.json", json.dumps(figures))
write_atomically("result", str(step))
"""

NEVER = """
if not ALONE:
    report_checkpoint(datetime.datetime.now(datetime.timezone.utc))
    sys.exit(EXIT_SAVED)
"""


def program(folder: Path, body: str, interrupted: int = 2) -> list[str]:
    """The command that runs it; it waits for its interruption in so many starts of a round."""
    file = folder / "program.py"
    file.write_text(_FRAME.format(sources=SOURCES, steps=STEPS, interrupted=interrupted) + body)
    return [sys.executable, "-S", "-E", str(file)]
