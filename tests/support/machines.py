"""Two machines: network namespaces of this one, which reach each other and its master."""

import os
import shutil
import signal
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import pytest

from tests.support.processes import run_text

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Machines:
    """How to run a command on each of two machines, at what address each is, and the master."""

    enter: list[list[str]]
    addresses: list[str]
    master_url: str


def host_address() -> str:
    """Return the address at which the machines of this process reach the host."""
    # RFC 2544 reserves this network for tests, so it is not routed.
    return f"198.18.{os.getpid() % 256}.1"


@contextmanager
def two_machines(master_port: int) -> Iterator[Machines]:
    """Make two machines until the block ends; what still runs on them is killed then."""
    number = os.getpid()
    bridge, names = f"mlb{number}", [f"mlb{number}-{node}" for node in (1, 2)]
    here = host_address()
    addresses = [f"{here.removesuffix('1')}{host}" for host in (2, 3)]
    with ExitStack() as leaving:
        _make(leaving, "link", bridge, "type", "bridge", "forward_delay", "0")
        _ip("address", "add", f"{here}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for node, (name, address) in enumerate(zip(names, addresses, strict=True)):
            _make(leaving, "netns", name)
            leaving.callback(_kill_all, name)
            cable = f"{bridge}-{node}"
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", cable, "master", bridge, "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
        port = leaving.enter_context(_relay(here, master_port))
        enter = [["ip", "netns", "exec", name] for name in names]
        yield Machines(enter, addresses, f"http://{here}:{port}")


def _make(leaving: ExitStack, kind: str, name: str, *words: str) -> None:
    if shutil.which("ip") is None:
        pytest.skip("ip is missing (iproute2)")
    result = run_text(["ip", kind, "add", name, *words])
    if result.returncode:
        pytest.skip(f"no network namespaces behind a bridge here: {result.stderr.strip()}")
    leaving.callback(_ip, kind, "delete", name)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def _kill_all(name: str) -> None:
    for pid in _ip("netns", "pids", name).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


@contextmanager
def _relay(here: str, master_port: int) -> Iterator[int]:
    """Pass on to the master, which listens on its loopback alone, what comes from elsewhere."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", master_port)) as master:
                back = threading.Thread(target=_copy, args=(master, self.request))
                back.start()
                _copy(self.request, master)
                back.join()

    with socketserver.ThreadingTCPServer((here, 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        yield server.server_address[1]
        server.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
