"""A service answers on IPv6 and on IPv4, and on what there is of them."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest
from scavenger_runtime.listening import EVERYWHERE, listen
from scavenger_runtime.settings import ServiceSettings
from scavenger_webhook.settings import WebhookSettings

IPV6 = socket.has_dualstack_ipv6()


def reached(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 5).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not IPV6, reason="no IPv6 on this machine")
def test_both_families_by_default() -> None:
    with listen(EVERYWHERE, 0) as listener:
        port = listener.getsockname()[1]
        assert reached("::1", port)
        assert reached("127.0.0.1", port)


@pytest.mark.parametrize("where", ["127.0.0.1", "0.0.0.0"])
def test_an_address_is_taken_at_its_word(where: str) -> None:
    with listen(where, 0) as listener:
        port = listener.getsockname()[1]
        assert reached("127.0.0.1", port)
        assert not reached("::1", port)


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL], ids=["no family", "no address"])
def test_a_kernel_without_ipv6(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real = socket.create_server

    def create(address: tuple[str, int], *, family: int, **options: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "none here")
        return real(address, family=family, **{**options, "dualstack_ipv6": False})

    monkeypatch.setattr(socket, "create_server", create)
    with listen(EVERYWHERE, 0) as listener:
        assert reached("127.0.0.1", listener.getsockname()[1])


def test_a_port_that_is_taken_is_told() -> None:
    with listen(EVERYWHERE, 0) as listener, pytest.raises(OSError, match="in use"):
        listen(EVERYWHERE, listener.getsockname()[1])


def test_every_port_listens_everywhere_by_default() -> None:
    assert ServiceSettings().health_address == EVERYWHERE
    assert WebhookSettings().address == EVERYWHERE
