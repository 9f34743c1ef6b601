"""`python -m scavenger_admitter` serves; `… uninstall` takes its finalizers off before it is removed for good.

Before that, while it still runs, `… release SECONDS` makes regular Jobs of adopted ones.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from scavenger_runtime.service import ServiceContext, run_service
from scavenger_runtime.stale_marks import stale_budgets

from scavenger_admitter.controller import Admitter
from scavenger_admitter.release import release_jobs
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.uninstall import uninstall


async def _serve(context: ServiceContext[AdmitterSettings]) -> None:
    admitter = Admitter(context)
    budgets = stale_budgets(context.client, context.clock, context.settings.namespace)
    await context.lead(admitter.lead, budgets.run)


def main(words: list[str] | None = None) -> int:
    """Run the admitter until it is told to stop; returns the exit code."""
    arguments = sys.argv[1:] if words is None else words
    if arguments[:1] == ["uninstall"]:
        return uninstall(AdmitterSettings.load(arguments[1:]))
    if arguments[:1] == ["release"]:
        return release_jobs(AdmitterSettings.load(arguments[2:]), timedelta(seconds=float(arguments[1])))
    return run_service(AdmitterSettings.load(arguments), _serve)


if __name__ == "__main__":
    sys.exit(main())
