"""`python -m scavenger_webhook` serves; `… uninstall` takes back what it has added to ResourceQuotas."""

from __future__ import annotations

import sys

from scavenger_runtime.service import run_service

from scavenger_webhook.controller import main as serve
from scavenger_webhook.settings import WebhookSettings
from scavenger_webhook.uninstall import uninstall


def main(words: list[str] | None = None) -> int:
    """Run the webhook until it is told to stop; returns the exit code."""
    arguments = sys.argv[1:] if words is None else words
    if arguments[:1] == ["uninstall"]:
        return uninstall(WebhookSettings.load(arguments[1:]))
    return run_service(WebhookSettings.load(arguments), serve)


if __name__ == "__main__":
    sys.exit(main())
