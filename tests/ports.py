"""Ports for the servers that tests start in processes of their own."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def reserve_port() -> int:
    """A loopback port that is free, and that the system gives to nobody else in the next minute.

    A connection that its server closed first leaves the port waiting. Until that is over only a server that asks for this very
    port gets it, with SO_REUSEADDR, which Java's have; a port that was merely free a moment ago goes to any connection.
    """
    with socket.create_server((LOOPBACK, 0)) as server:
        port = int(server.getsockname()[1])
        with socket.create_connection((LOOPBACK, port)):
            server.accept()[0].close()
    return port
