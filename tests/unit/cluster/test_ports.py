"""Ports for programs that listen a while after the port was chosen."""

from __future__ import annotations

from pathlib import Path

from scavenger_cluster import ports


def test_no_connection_is_given_a_port_that_was_chosen() -> None:
    """On a busy machine a service takes long to start, and a test makes thousands of connections meanwhile."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    found = {ports.any_free_port() for _ in range(20)}
    assert not [port for port in found if first <= port <= last]
    assert len(found) > 1, "two who choose at the same time choose different ones"
