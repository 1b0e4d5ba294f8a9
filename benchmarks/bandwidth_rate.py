"""How long messages take in a limited bandwidth, by how long their size says that they take.

``python -m benchmarks.bandwidth_rate MBIT`` is one of two ranks, which exchange messages of many
sizes and record how long each took. Rank 0 waits for the first byte of the answer of rank 1, which
it sends once it has the whole message, or, where both send at once, for the whole of the other's.
"""

import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Ratio
from benchmarks.stacks import local_stack, run_to_end
from mlbench import Tracker
from mlbench.local.assets import CHECKOUT

_MBIT = (5, 20, 80, 320)
# Bytes. A message of one byte measures the latency.
_SIZES = (1, 4_096, 16_384, 24_648, 65_536, 262_144, 1_048_576, 4_194_304)
# Messages are sent after a pause of 0.3 s, without a pause, or by both ranks after a pause.
_WAYS = ("idle", "back_to_back", "both")
_MAX_SECONDS = 3.0
_TIMES = 5


def measure(folder: Path) -> Iterator[Ratio]:
    """Yield for each bandwidth, way and size the time by size / bandwidth + latency."""
    with local_stack(folder) as (_, client):
        for mbit in _MBIT:
            command = shlex.join([sys.executable, "-m", "benchmarks.bandwidth_rate", str(mbit)])
            fields: dict[str, Any] = {"max_bandwidth": mbit, "working_dir": str(CHECKOUT)}
            run = run_to_end(client, 2, command=command, look_seconds=1.0, **fields)
            series = client.get_run_metrics(run.id).result().value
            for way in _WAYS:
                latency = series[f"{way} 1 @ 0"][0].number
                for size in _SIZES[1:]:
                    if points := series.get(f"{way} {size} @ 0"):
                        seconds = points[0].number
                        name = f"{mbit} Mbit/s, {way}, {size:,} bytes: {seconds * 1e3:.2f} ms"
                        yield Ratio(name, seconds / (size * 8e-6 / mbit + latency))


def main(mbit: float) -> None:
    """Send messages, as long as their size and the bandwidth say that they take no minute."""
    rank = int(os.environ["RANK"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.create_server(address) as server:
            connection, _ = server.accept()
    else:
        connection = _connect(address)
    with connection as peer, Tracker() as tracker:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in _SIZES:
            if size * 8e-6 / mbit < _MAX_SECONDS:
                for way in _WAYS:
                    seconds = [_exchange(peer, rank, size, way) for _ in range(_TIMES)]
                    tracker.log({f"{way} {size}": median(seconds)})


def _connect(address: tuple[str, int]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address)
        except OSError:
            time.sleep(0.1)


def _exchange(peer: socket.socket, rank: int, size: int, way: str) -> float:
    """Send a message, or receive it, and return the seconds until it was there."""
    if way != "back_to_back":
        time.sleep(0.3)
    began = time.perf_counter()
    if way == "both":
        sending = threading.Thread(target=peer.sendall, args=(bytes(size),))
        sending.start()
        _receive(peer, size)
        sending.join()
    elif rank == 0:
        peer.sendall(bytes(size))
        _receive(peer, 1)
    else:
        _receive(peer, size)
        peer.sendall(b"x")
    return time.perf_counter() - began


def _receive(peer: socket.socket, size: int) -> None:
    while size:
        received = len(peer.recv(min(size, 1 << 20)))
        if not received:
            raise ConnectionError("the other rank has ended")
        size -= received


if __name__ == "__main__":
    main(float(sys.argv[1]))
