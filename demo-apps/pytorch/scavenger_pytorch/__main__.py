"""The entry point of the image: `python3 -m scavenger_pytorch`."""

from __future__ import annotations

import os
import sys

from scavenger_checkpoint import StopRequest

if __name__ == "__main__":
    # Before torch is loaded, which takes seconds: process 1 does not get a signal at all that it has no handler for.
    stop = StopRequest()
    from scavenger_pytorch.run import main

    code = main(stop)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the end of the interpreter: threads of torch and gloo that are still there abort the process in it, one
    # time in 50 on a busy machine (SIGABRT, "terminate called without an active exception"), and the exit code is lost.
    os._exit(code)
