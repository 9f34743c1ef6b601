"""The webhook as a process: `python -m scavenger_webhook`."""

from __future__ import annotations

import sys

from scavenger_runtime.service import run_service

from scavenger_webhook.controller import main
from scavenger_webhook.settings import WebhookSettings

if __name__ == "__main__":
    sys.exit(run_service(WebhookSettings.load(), main))
