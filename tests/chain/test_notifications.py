"""A real stack notifies a webhook and its Alertmanager of runs that end or hang."""

import json
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.conftest import free_port, running_stack, wait_for
from tests.support.debian import alertmanager
from tests.support.scripted import Reply, Scripted, answering
from tests.support.stacks import (
    FAILS,
    kill_service,
    losses,
    order_command,
    order_steps,
    reload,
    run_to_end,
    shorten_rules,
    training,
)

pytestmark = pytest.mark.slow

_CONTROLLER = "mlbench_master.controller"


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the webhook, where nothing may listen."""
    return free_port()


@pytest.fixture(scope="module")
def channel() -> Iterator[Scripted]:
    """The receiver of the Alertmanager, which keeps its connections."""
    with answering(lambda request: Reply()) as server:
        yield server


@pytest.fixture(scope="module")
def root(prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of a stack with a run that ended without the webhook."""
    root = tmp_path_factory.mktemp("notifications")
    with running_stack(prometheus_binary, root) as home, ApiClient.from_home(home) as client:
        run_to_end(client, order_steps(client, "before", steps=5))
    return root


@pytest.fixture(scope="module")
def stack(prometheus_binary: Path, root: Path, port: int, channel: Scripted) -> Iterator[Home]:
    """The same stack with the webhook, and with an Alertmanager that it starts."""
    program = root / "alertmanager.sh"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(alertmanager())} "$@"\n')
    program.chmod(0o700)
    hook = {"url": channel.url, "send_resolved": False}
    config = {
        "route": {"receiver": "hook", "group_by": ["alertname", "run_id"], "group_wait": "1s"},
        "receivers": [{"name": "hook", "webhook_configs": [hook]}],
    }
    (root / "alertmanager.yml").write_text(yaml.safe_dump(config))
    environ = {
        names.ENV_NOTIFY_URL: f"http://127.0.0.1:{port}/token",
        names.ENV_ALERTMANAGER_CONFIG: str(root / "alertmanager.yml"),
        "ALERTMANAGER": str(program),
        "MLBENCH_PUBLIC_URL": "https://ml.example.org",
    }
    with running_stack(prometheus_binary, root, 2, **environ) as home:
        shorten_rules(home)
        yield home


@pytest.fixture
def receiver(port: int) -> Iterator[Scripted]:
    with answering(lambda request: Reply(body=b"ok"), port) as server:
        yield server


def texts(receiver: Scripted, run: Run) -> list[str]:
    """Return the messages about a run that the webhook received."""
    assert {request.path for request in receiver.asked} <= {"/token"}
    bodies = [json.loads(request.body) for request in receiver.asked]
    return [body["text"] for body in bodies if body["text"].endswith(f"/runs/{run.id}")]


def all_are_marked(stack: Home) -> bool:
    """Return whether all messages are marked as sent, so that a kill repeats none."""
    with closing(sqlite3.connect(f"file:{stack.database}?mode=ro", uri=True)) as database:
        query = "SELECT COUNT(*) FROM notification WHERE sent_at IS NULL"
        return bool(database.execute(query).fetchone() == (0,))


def follow(client: ApiClient, receiver: Scripted) -> None:
    """Wait for the message about a later run, which follows all pending messages."""
    last = order_steps(client, "last", steps=5)
    wait_for(lambda: texts(receiver, last), what="the message of a later run")


def test_a_killed_controller_repeats_no_sent_message(
    client: ApiClient, stack: Home, receiver: Scripted
) -> None:
    finished = order_steps(client, "finished", steps=20)
    wait_for(lambda: texts(receiver, finished), what="the message of the end")
    failed = order_command(client, "failed", FAILS)
    wait_for(lambda: texts(receiver, failed), what="the message of the failure")
    wait_for(lambda: all_are_marked(stack), what="the messages are marked as sent")
    kill_service(stack, _CONTROLLER)
    follow(client, receiver)
    [end] = texts(receiver, finished)
    subject = f"Run {finished.id} (finished) of {reload(client, finished).user} finished after "
    assert end.startswith(subject)
    assert end.endswith(f"\nhttps://ml.example.org/runs/{finished.id}")
    [failure] = texts(receiver, failed)
    assert "failed after" in failure
    assert "exited with code 2: what is wrong" in failure
    [before] = [run for run in client.get_runs().result().value if run.name == "before"]
    assert texts(receiver, before) == []


def test_webhook_and_alertmanager_are_notified_of_a_hung_rank(
    client: ApiClient, stack: Home, receiver: Scripted, channel: Scripted
) -> None:
    run = order_steps(client, "hung", steps=100_000, rate=20)
    wait_for(lambda: losses(client, run, rank=1), what="rank 1 trains")
    [victim] = training(stack, rank=1)
    victim.suspend()
    try:
        wait_for(lambda: texts(receiver, run), 120, "the message about the hang")
        alert = f"Rank 1 of run {run.id} makes no progress.".encode()
        wait_for(lambda: any(alert in request.body for request in channel.asked), 120, "the alert")
        wait_for(lambda: all_are_marked(stack), what="the message is marked as sent")
        kill_service(stack, _CONTROLLER)
    finally:
        with suppress(psutil.NoSuchProcess):
            victim.resume()
    client.stop_run(run.id).result()
    wait_for(lambda: len(texts(receiver, run)) > 1, what="the message of the end")
    hung, end = texts(receiver, run)
    assert f"Run {run.id} (hung) of" in hung
    assert "hung after" in hung
    assert "was stopped by" in end


def test_a_controller_killed_before_the_response_sends_again(
    client: ApiClient, stack: Home, port: int
) -> None:
    slow = [Reply(seconds=60.0)]
    with answering(lambda request: slow.pop() if slow else Reply(), port) as receiver:
        run = order_steps(client, "twice", steps=5)
        wait_for(lambda: texts(receiver, run), what="the message")
        kill_service(stack, _CONTROLLER)
        wait_for(lambda: len(texts(receiver, run)) == 2, what="the message again")
        follow(client, receiver)
        assert len(texts(receiver, run)) == 2
