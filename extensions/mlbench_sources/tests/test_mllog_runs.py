"""A run with MLPerf's own logger, in code without any call of MLBench."""

import json
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.records import Target
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.pages import order_as_printed, values
from tests.support.stacks import assert_counted, kill_service, losses, run_to_end


@pytest.mark.slow
def test_logged_events_become_values_settings_a_target_and_epochs(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    run = order_as_printed(client, stack, "mllog", tmp_path)
    wait_for(lambda: losses(client, run), what="it logs")
    kill_service(stack, "gunicorn")
    ended = run_to_end(client, run)
    assert ended.state == "FINISHED", ended.reason
    assert_counted(ended)
    settings = {"submission_benchmark": "resnet", "batch_size": 96, "learning_rate": 0.1}
    assert ended.settings == settings
    assert ended.target == Target("eval_accuracy", 0.75)
    series = client.get_run_metrics(run.id).result().value
    for rank in (0, 1):
        lines = client.get_logs(run.id, rank).result().value.text.splitlines()
        events = [json.loads(line.partition(":::MLLOG ")[2]) for line in lines]
        for key, metric in (("eval_accuracy", "eval_accuracy"), ("tracked_stats", "train_loss")):
            wanted = [
                (event["time_ms"], event["value"][metric] if key != metric else event["value"])
                for event in events
                if event["key"] == key
            ]
            points = values(client, run, metric, rank)
            assert [(at // 1000, value) for at, value in points] == wanted
        assert [point.number for point in series[f"epoch @ {rank}"]] == list(range(60))
        assert [point.number for point in series[f"step @ {rank}"]] == list(range(15, 901, 15))
        assert series[f"run_status @ {rank}"][0].value == "success"
    result = client.get_result(run.id).result().value
    assert (result.epochs, result.samples) == (60, 2 * 1440 * 60)
    # The ranks do not synchronize, and the next epoch may start in the same millisecond.
    assert known(result.time_to_target).epochs in (1, 2, 3)
