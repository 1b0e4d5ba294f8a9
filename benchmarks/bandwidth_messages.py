"""Two ranks that exchange messages of many sizes, and record how long each took.

Run as a rank of a run. Rank 0 waits for the first byte of the answer of rank 1, which it sends once
it has the whole message, or, where both send at once, for the whole of the other's message.
"""

import os
import socket
import threading
import time
from statistics import median

from mlbench import Tracker

SIZES = (1, 4_096, 16_384, 24_648, 65_536, 262_144, 1_048_576, 4_194_304)
"""Bytes; a message of one byte takes what the network needs besides."""
WAYS = ("idle", "back_to_back", "both")
"""After a pause of 0.3 s; one right after the other; both ranks at once, after a pause."""
_MOST_SECONDS = 3.0
_TIMES = 5


def main() -> None:
    """Send messages, as long as their size and the bandwidth say that they take no minute."""
    rank, bandwidth = int(os.environ["RANK"]), float(os.environ["BENCH_MBIT"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    with _connected(rank, address) as peer, Tracker() as tracker:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in SIZES:
            if size * 8e-6 / bandwidth < _MOST_SECONDS:
                for way in WAYS:
                    took = [_exchange(peer, rank, size, way) for _ in range(_TIMES)]
                    tracker.log({f"{way} {size}": median(took)})


def _connected(rank: int, address: tuple[str, int]) -> socket.socket:
    if rank == 0:
        with socket.create_server(address) as server:
            return server.accept()[0]
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
        got = len(peer.recv(min(size, 1 << 20)))
        if not got:
            raise ConnectionError("the other rank has ended")
        size -= got


if __name__ == "__main__":
    main()
