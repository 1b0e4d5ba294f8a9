"""A local stack for a measurement, and runs on it from submission to end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from mlbench import ApiClient
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.records import Run
from mlbench.local import launch
from mlbench.local.home import Home


@contextmanager
def local_stack(folder: Path, workers: int = 2) -> Iterator[tuple[Home, ApiClient]]:
    """Run a stack, and give its home folder and a client of its master."""
    home = Home(folder / "home")
    launch.start_detached(home, workers=workers)
    try:
        with ApiClient.from_home(home) as client:
            yield home, client
    finally:
        launch.stop(home)


@contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    """Have processes stand still until the block ends."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # it was replaced meanwhile
                process.resume()


def run_to_end(
    client: ApiClient, workers: int, *, command: str = "", look_seconds: float = 0.2, **fields: Any
) -> Run:
    """Run a command on this machine, or a run with other fields, and return the run.

    Raises:
        AssertionError: the run is not FINISHED.
    """
    if command:
        fields |= {"custom_image_name": THIS_MACHINE, "custom_image_command": command}
    submitted = client.create_run("measured", workers, **{"num_cpus": None, **fields})
    return wait_for_end(client, submitted.result().value, look_seconds)


def wait_for_end(client: ApiClient, run: Run, look_seconds: float) -> Run:
    """Wait for the end of a run and return it.

    Args:
        client: client of the run's master.
        run: the run.
        look_seconds: time between two looks. Each look takes CPU time from the training.

    Raises:
        AssertionError: it is not FINISHED.
    """
    while run.active:
        time.sleep(look_seconds)
        run = client.get_run(run.id).result().value
    assert run.state == "FINISHED", run.reason
    return run
