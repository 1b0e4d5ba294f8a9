"""Where the ranks of a framework meet: each tells the others an address of its own."""

import os
import socket
from collections.abc import Mapping

import torch

from mlbench_worker.ranks.distributed import World

_LONGEST = 64  # [IPv6]:port


def exchange_addresses(world: World, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return a ``host:port`` of each rank, which is free, and the same list on all ranks.

    The host is what a rank has towards rank 0.
    """
    at = (environ["MASTER_ADDR"], int(environ["MASTER_PORT"]))
    family, *_ = socket.getaddrinfo(*at, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as towards:
        towards.connect(at)  # sends nothing
        host = towards.getsockname()[0]
    # Held until all have told theirs: no two get the same.
    with socket.create_server((host, 0), family=family) as holder:
        port = holder.getsockname()[1]
        own = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        sent = torch.zeros(world.size, _LONGEST, dtype=torch.int32)
        sent[world.rank, : len(own)] = torch.tensor(list(own.encode()), dtype=torch.int32)
        world.sum_(sent)
    return [bytes(one).rstrip(b"\0").decode() for one in sent.tolist()]
