"""Real stacks: their processes, and runs on them."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local import launch
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.known import known

# --- processes ---


def service(home: Home, word: str) -> psutil.Process:
    """Return the supervisor's child whose command line contains a word."""
    supervisor = known(launch.running_supervisor(home))
    children = psutil.Process(supervisor).children()
    [process] = [child for child in children if any(word in part for part in _command(child))]
    return process


def kill_service(home: Home, *words: str) -> None:
    """Kill parts of a stack with -9, and wait until each has restarted and the API responds."""
    killed = {word: service(home, word) for word in words}
    for process in killed.values():
        process.kill()

    def restarted(word: str) -> bool:
        try:
            return service(home, word).pid != killed[word].pid
        except (ValueError, psutil.Error):
            return False

    wait_for(lambda: all(map(restarted, words)), what=f"{words} were started again")
    with ApiClient.from_home(home) as client:
        wait_for(lambda: _answers(client), what="the API answers")


# Shorter look-back ranges, stall limits and ``for`` durations of the rules.
_SHORTER = {
    r"\[1m\]": "[10s]",
    r"(?m)^( +)30$": r"\g<1>6",
    "for: 10s": "for: 2s",
    "for: 90s": "for: 15s",
    "evaluation_interval: 5s": "evaluation_interval: 1s",
}


def shorten_rules(home: Home) -> None:
    """Use rules with shorter times in a stack's Prometheus."""
    for path in home.prometheus.rglob("*.yml"):
        text = path.read_text()
        for pattern, shorter in _SHORTER.items():
            text = re.sub(pattern, shorter, text)
        path.write_text(text)
    service(home, "--web.enable-remote-write-receiver").send_signal(signal.SIGHUP)


def training(home: Home, rank: int) -> list[psutil.Process]:
    """Return the processes that the agent of this home folder started for a rank."""
    variables = {(names.ENV_HOME, str(home.root)), (names.ENV_RANK, str(rank))}
    return [process for process in psutil.process_iter() if variables <= _environ(process).items()]


def files_of(home: Home) -> Iterator[Path]:
    """Yield the regular files of a stack, some of which may vanish meanwhile."""
    for parent, _, files in os.walk(home.root):
        yield from (path for name in files if (path := Path(parent, name)).is_file())


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # a zombie, not yet reaped by the supervisor
        return []


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def _answers(client: ApiClient) -> bool:
    try:
        client.get_runs().result()
    except Exception:
        return False
    return True


# --- runs ---

# The controller verifies sample counts every five seconds, and later on a busy machine.
_COUNTED_SECONDS = 30.0


FAILS = "sh -c 'echo what is wrong >&2; exit 2'"
"""A command that fails at once."""


def order_steps(
    client: ApiClient,
    name: str,
    *,
    num_workers: int = 2,
    max_restarts: int = 0,
    queue: bool = False,
    **args: object,
) -> Run:
    """Start a run of the quick task ``steps``, with arguments such as ``steps=200, rate=1000``."""
    order = client.create_run(
        name,
        num_workers,
        num_cpus=None,
        benchmark="steps",
        max_restarts=max_restarts,
        queue=queue,
        args={key: str(value) for key, value in args.items()},
    )
    return order.result().value


def order_command(
    client: ApiClient, name: str, command: str, *, num_workers: int = 1, **options: Any
) -> Run:
    image = {"custom_image_name": names.THIS_MACHINE, "custom_image_command": command}
    order = client.create_run(name, num_workers, **{"num_cpus": None, **image, **options})
    return order.result().value


def reload(client: ApiClient, run: Run) -> Run:
    return client.get_run(run.id).result().value


def run_to_end(client: ApiClient, run: Run, seconds: float = 180.0) -> Run:
    """Wait until a run has ended and its samples are counted (if Prometheus is reachable)."""
    wait_for(lambda: not reload(client, run).active, seconds, f"run {run.id} ends")
    until = time.monotonic() + _COUNTED_SECONDS
    while (ended := reload(client, run)).delivery is None and ended.started_at:
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return ended


def losses(client: ApiClient, run: Run, rank: int = 0) -> list[float]:
    """Return the training losses of a rank that can be read so far."""
    series = client.get_run_metrics(run.id).result().value
    return [point.number for point in series.get(f"train_loss @ {rank}", [])]


def assert_counted(run: Run) -> None:
    """Assert that each sample is in Prometheus, or in the record only."""
    assert run.delivery is not None
    assert run.delivery.recorded == run.delivery.in_prometheus + run.delivery.record_only


def assert_complete(client: ApiClient, run: Run, steps: int) -> None:
    """Assert that a run of ``steps`` steps has FINISHED, and that all its values can be read."""
    assert run.state == "FINISHED", run.reason
    assert_counted(run)
    series = client.get_run_metrics(run.id).result().value
    assert sum(len(points) for points in series.values()) == known(run.delivery).recorded
    for rank in range(run.num_workers):
        dates = [point.date for point in series[f"train_loss @ {rank}"]]
        assert len(dates) == steps
        assert dates == sorted(dates)
