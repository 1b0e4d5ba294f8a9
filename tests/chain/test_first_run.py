"""The run that a new user sees: digits on two workers, to its goal, with all its figures."""

from mlbench import ApiClient
from mlbench.home import Home
from mlbench.results import evaluate
from tests.chain.test_nothing_is_lost import run_to_end


def test_digits_reaches_its_goal(stack: Home) -> None:
    with ApiClient.from_home(stack) as client:
        ordered = client.create_run("first", 2, benchmark="digits").result().value
        ended = run_to_end(client, ordered, seconds=100)
        series = client.get_run_metrics(ended.id).result().value
        pod = client.get_pod_metrics(ended.ranks[0].pod, last_n=1).result().value
    assert ended.state == "FINISHED", ended.reason
    assert ended.delivery is not None
    assert ended.delivery.recorded == ended.delivery.in_prometheus + ended.delivery.kept > 500

    result = evaluate(ended, series)
    assert result.accuracy is not None
    assert result.accuracy >= 97
    assert result.train_seconds_to_goal is not None
    assert result.wall_seconds_to_goal is not None
    assert 0 < result.train_seconds_to_goal < result.wall_seconds_to_goal
    assert result.samples_per_second is not None
    assert result.samples_per_second > 0
    assert result.phase_seconds.keys() == {
        "data",
        "forward",
        "backward",
        "communication",
        "optimizer",
        "metrics",
        "evaluation",
    }
    # The phases make up the training time, but for what lies between them.
    assert result.other_seconds < 0.2 * sum(result.phase_seconds.values())
    # The exporter saw the worker work.
    assert float(pod["container_cpu_usage_seconds_total"][-1].value) > 1
