"""Whichever change of the cluster the controller is killed at, the next one puts all to rights."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from master.pools.base import Shape
from master.pools.manifests import load, make_stateful_set
from tests.conftest import wait_for
from tests.master.pools.made import DEFAULTS, OWNER, OWNER_NAME
from tests.master.pools.proxy import Fault, Proxy, Request, serve
from tests.master.pools.standin import StandIn

CHANGES = ("PATCH", "DELETE")


@contextmanager
def drive(manifest: Path, workers: int, cores: float) -> Iterator[subprocess.Popen[bytes]]:
    """Run the pool in a process of its own, as long as it lives."""
    shape = json.dumps({"num_cpus": cores})
    words = [sys.executable, "-m", "tests.master.pools.driving", str(manifest), "here"]
    process = subprocess.Popen([*words, str(workers), shape], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill_at(proxy: Proxy, process: subprocess.Popen[bytes], nth: int, *, after: bool) -> None:
    """Have the process killed at its nth change, before or after the cluster carries it out."""
    before = sum(verb in CHANGES for verb, _ in proxy.asked)

    def spoil(request: Request) -> Fault | None:
        changed = sum(verb in CHANGES for verb, _ in proxy.asked) - before
        if request.verb not in CHANGES or changed < nth:
            return None
        process.kill()
        return Fault(after=after)

    proxy.spoil = spoil
    process.wait(60)
    proxy.spoil = lambda request: None


@pytest.mark.slow
@pytest.mark.parametrize(("nth", "after"), [(1, True), (2, True), (3, False)])
def test_killed_at_a_change(
    manifest_path: Path, lead_here: Callable[[Proxy], None], nth: int, after: bool
) -> None:
    cluster = StandIn({"deployments": {OWNER_NAME: OWNER}})

    def is_right(workers: int, cores: float) -> bool:
        shape = Shape(num_cpus=cores)
        made = make_stateful_set(load(manifest_path), DEFAULTS, shape, workers)
        return cluster.has_exactly(made)

    with serve(cluster) as proxy:
        lead_here(proxy)
        with drive(manifest_path, 2, 0.5) as first:
            # It makes the Service, and the StatefulSet.
            kill_at(proxy, first, min(nth, 2), after=after)
        with drive(manifest_path, 2, 0.5):
            wait_for(lambda: is_right(2, 0.5))
        with drive(manifest_path, 3, 0.25) as second:
            # It changes the StatefulSet, and ends the two pods of before.
            kill_at(proxy, second, nth, after=after)
        with drive(manifest_path, 3, 0.25):
            wait_for(lambda: is_right(3, 0.25))
