"""The command line with a remote master from the environment, instead of a local stack."""

from dataclasses import replace

import pytest

from mlbench.client import transport
from mlbench.contract.records import Run
from mlbench.local.home import StackConnection
from tests.conftest import free_port
from tests.mlbench.cli.conftest import Mlbench
from tests.support.scripted import Reply, serving


@pytest.fixture
def there(mlbench: Mlbench) -> StackConnection:
    """The shared stack, used like a remote master."""
    return mlbench.home.read_connection()


@pytest.fixture
def elsewhere(alone: Mlbench, there: StackConnection) -> Mlbench:
    """A command line without a local stack, configured for the remote master."""
    return replace(alone, more={"MLBENCH_URL": there.url, "MLBENCH_TOKEN": there.token})


def test_remote_runs_are_read(elsewhere: Mlbench, mlbench: Mlbench, finished: Run) -> None:
    for command in ("logs", "metrics", "manifest", "compare"):
        words = (command, "finished", "--json")
        assert elsewhere(*words).json == mlbench(*words).json


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"MLBENCH_TOKEN": ""}, "$MLBENCH_URL is set, but $MLBENCH_TOKEN is not. "),
        ({"MLBENCH_URL": ""}, "$MLBENCH_TOKEN is set, but $MLBENCH_URL is not. "),
        ({"MLBENCH_TOKEN": "wrong"}, "refused the token: is $MLBENCH_TOKEN the token of this"),
        ({"MLBENCH_URL": f"http://127.0.0.1:{free_port()}"}, "is $MLBENCH_URL right? For a forwar"),
    ],
)
def test_a_wrong_environment_is_reported_in_one_line(
    elsewhere: Mlbench, changed: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_PAUSES_SECONDS", ())
    refused = replace(elsewhere, more={**elsewhere.more, **changed})("status").refusal
    assert message in refused
    assert refused.count("\n") == 1


def test_a_refusal_by_the_master_is_reported(alone: Mlbench) -> None:
    for status, message in (
        (421, "$MLBENCH_URL must contain a host name or address that the master accepts"),
        (403, "is $MLBENCH_TOKEN the user's token, not the agents'?"),
    ):
        with serving(Reply(status, {"message": "not you"})) as master:
            given = {"MLBENCH_URL": master.url, "MLBENCH_TOKEN": "t"}
            refused = replace(alone, more=given)("status").refusal
        assert refused == f"mlbench: the master at {master.url} refused (not you): {message}\n"


@pytest.mark.slow
def test_stack_commands_ignore_the_remote_master(elsewhere: Mlbench) -> None:
    named = {**elsewhere.more, "MLBENCH_PROMETHEUS_URL": "http://127.0.0.1:9"}
    command = ("up", "--detach", "--workers", "1", "--json")
    up = replace(elsewhere, more=named).process(*command)
    try:
        assert up.json["url"] != elsewhere.more["MLBENCH_URL"]
        assert up.err.splitlines() == [
            "$MLBENCH_URL is set: other commands use the master there, not this stack",
            "$MLBENCH_PROMETHEUS_URL belongs to that master: this stack does not use it",
        ]
        demo = elsewhere.process("demo", "steps", "--workers", "1")
        assert demo.code == 0, demo.err
        assert f"{up.json['url']}/runs/1" in demo.out
    finally:
        assert elsewhere("down").out == "stopped\n"
