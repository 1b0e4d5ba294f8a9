"""The ports of the local stack: free ones near the usual places, on this machine alone."""

import socket

from mlbench.stack.errors import StackError

LOOPBACK = "127.0.0.1"
# How far from its usual place a port is looked for.
_PORTS_TRIED = 200


class Ports:
    """Gives out ports that are free, and that no other stack was given since its start."""

    def near(self, usual: int) -> int:
        """Return the first free port from the usual one on.

        Raises:
            StackError: none of the next 200 is free.
        """
        for port in range(usual, usual + _PORTS_TRIED):
            if is_free(port) and _reserve(port):
                return port
        raise StackError(f"no port from {usual} to {usual + _PORTS_TRIED - 1} is free")

    def exactly(self, port: int) -> int:
        """Return the port.

        Raises:
            StackError: something else has it.
        """
        if not (is_free(port) and _reserve(port)):
            raise StackError(f"port {port} is taken by another program; leave out --port")
        return port


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _reserve(port: int) -> bool:
    """Keep stacks that start at the same time from using a port; return whether it is ours.

    A socket of that name (an abstract one: it is no file) marks it until this process ends.
    """
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0mlbench-port-{port}")
    except OSError:
        mark.close()
        return False
    mark.detach()
    return True
