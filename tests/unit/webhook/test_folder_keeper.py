"""The certificate of a mounted folder."""

from __future__ import annotations

from pathlib import Path

from scavenger_runtime import tls
from scavenger_runtime.clock import SystemClock
from scavenger_testing.certificates import new_authority
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import CertificateRules
from scavenger_webhook.folder_keeper import FolderKeeper

RULES = CertificateRules(("localhost",))


def test_mounted_certificates_are_read_again_when_they_change(tmp_path: Path) -> None:
    context = tls.server_context()
    made = FolderKeeper(str(tmp_path), SystemClock(), context)
    made.poll()
    assert not made.ready.is_set()
    assert str(tmp_path) in made.problem
    now = SystemClock().now()
    authority = new_authority(now)
    for _ in range(2):
        serving = new_serving(authority, now, RULES)
        (tmp_path / "tls.crt").write_bytes(serving.certificate)
        (tmp_path / "tls.key").write_bytes(serving.key)
        made.poll()
        assert made.ready.is_set()
        assert made.loaded == serving.certificate
    (tmp_path / "tls.key").write_bytes(authority.key)
    (tmp_path / "tls.crt").write_bytes(authority.certificate + b"x")
    made.poll()
    (tmp_path / "tls.key").write_bytes(b"")
    (tmp_path / "tls.crt").write_bytes(b"rubbish")
    made.poll()
    assert "no certificate from" in made.problem
