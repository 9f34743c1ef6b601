"""The certificate of a server that another program renews, taken up while it serves."""

from __future__ import annotations

from typing import Final

from scavenger_runtime import tls
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger

POLL_SECONDS: Final = 10.0
"""So often the folder is looked at for a new certificate."""

log = get_logger(__name__)


class Certificates:
    """A context, and the certificate in a folder for it. flag: what names the folder. about: before `certificate` in
    the log."""

    def __init__(self, folder: str, clock: Clock, *, flag: str, about: str = "") -> None:
        self.context = tls.server_context()
        self._clock = clock
        self._flag = flag
        self._what = f"{about} certificate".lstrip()
        self._files = tls.CertificateFolder(folder, self.context)

    def load(self) -> None:
        """The first one. Raises ValueError without a usable one."""
        try:
            self._files.refresh()
        except (OSError, ValueError) as error:
            raise ValueError(f"{self._flag}: no certificate from {self._files.folder}: {error}") from error

    async def keep(self) -> None:
        """Take up each new one; one that cannot be used leaves the one before it in use."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            try:
                if self._files.refresh():
                    log.info(f"{self._what} in use", folder=str(self._files.folder))
            except (OSError, ValueError) as error:
                log.warning(f"{self._what} not loaded", folder=str(self._files.folder), error=str(error))
