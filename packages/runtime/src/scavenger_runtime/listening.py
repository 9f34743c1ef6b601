"""Where a service listens: one socket for IPv6 and IPv4."""

from __future__ import annotations

import socket
from typing import Final

EVERYWHERE: Final = "::"
"""All addresses of a pod: IPv6, and IPv4 as IPv4-mapped ones. Where the kernel has no IPv6, IPv4 alone."""
_IPV4: Final = "0.0.0.0"
_BACKLOG: Final = 2048


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        address: an IP address, or a name that stands for one.
        port: 0 for a free one.

    Raises:
        OSError: the address is taken, or is none of this machine.
    """
    try:
        listener = _socket(address, port)
    except OSError:
        if address != EVERYWHERE or _has_ipv6():
            raise
        listener = _socket(_IPV4, port)
    # asyncio sets it on connections whose socket says that it is TCP; those accepted here do not say. Without it the
    # body of an answer waits until the client has acknowledged the head, which it puts off for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _socket(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server((address, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)


def _has_ipv6() -> bool:
    """Whether anything can listen on IPv6 here: `ipv6.disable=1` takes the family away, a sysctl its addresses."""
    try:
        _socket(EVERYWHERE, 0).close()
    except OSError:
        return False
    return True
