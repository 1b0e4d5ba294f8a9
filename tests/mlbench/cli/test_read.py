"""``mlbench benchmarks``, ``logs``, ``metrics``: what can be run, and all of what a run wrote."""

import re

import pytest

from mlbench import ApiClient
from mlbench.client import Run
from tests.mlbench.cli.conftest import Mlbench
from tests.mlbench.conftest import wait_for_end
from tests.stacks import order_steps

_DATE = "2018-08-03T09:21:29.347000Z"


def test_the_benchmarks_are_listed(mlbench: Mlbench, client: ApiClient) -> None:
    listed = mlbench("benchmarks", "--json").json
    assert listed == client.get_benchmarks().result().json()
    done = mlbench("benchmarks")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^digits +A small ResNet on scikit-learn's", done.out, re.MULTILINE)
    assert all(benchmark["name"] in done.out for benchmark in listed)


def test_a_log_is_printed_as_it_was_written(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    done = mlbench("logs", "finished", "--rank", "1")
    assert done.code == 0
    assert done.out == client.get_logs(finished.id, rank=1).result().value.text
    assert len(done.out.splitlines()) == 2


def test_the_log_of_an_attempt(mlbench: Mlbench, finished: Run) -> None:
    of_latest = mlbench("logs", "finished")
    assert mlbench("logs", "finished", "--attempt", "1").out == of_latest.out
    as_json = mlbench("logs", "finished", "--attempt", "1", "--json")
    assert as_json.json["text"] == of_latest.out


def test_the_other_stream_of_a_quiet_run_is_empty(mlbench: Mlbench, finished: Run) -> None:
    done = mlbench("logs", "finished", "--stream", "stderr")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_log_as_json_is_one_document(mlbench: Mlbench, client: ApiClient, finished: Run) -> None:
    assert mlbench("logs", "finished", "--json").json == {
        "rank": 0,
        "stream": "stdout",
        "text": client.get_logs(finished.id).result().value.text,
    }


def test_a_log_is_followed_until_the_run_ends(mlbench: Mlbench, client: ApiClient) -> None:
    run = order_steps(client, "followed", steps=200, rate=100)
    following = mlbench.start("logs", "followed", "--follow")
    assert following.stdout is not None
    first = following.stdout.readline()
    assert first.startswith("step 100 of 200: ")
    assert client.get_run(run.id).result().value.active, "it was printed while the run went on"
    rest, _ = following.communicate(timeout=60)
    assert following.returncode == 0
    assert not client.get_run(run.id).result().value.active
    assert first + rest == client.get_logs(run.id).result().value.text
    assert len((first + rest).splitlines()) == 2
    client.delete_run(wait_for_end(client, run).id).result()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rank", "2"), "mlbench: rank: run"),
        (("--attempt", "2"), "mlbench: attempt: run"),
        (("--attempt", "0"), "Invalid value for '--attempt'"),
        (("--rank", "-1"), "Invalid value for '--rank'"),
        (("--stream", "metrics"), "Invalid value for '--stream'"),
    ],
)
def test_what_there_is_no_log_of_is_refused(
    mlbench: Mlbench, finished: Run, arguments: tuple[str, ...], message: str
) -> None:
    done = mlbench("logs", "finished", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_the_overview_has_a_line_for_each_series(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    done = mlbench("metrics", "finished")
    assert done.code == 0
    heading, *lines = done.out.splitlines()
    assert heading.split() == ["metric", "values", "first", "last"]
    assert len(lines) == len(client.get_run_metrics(finished.id).result().value)
    assert re.search(r"^train_loss @ 0 +200 +0\.990099 +0\.333333$", done.out, re.MULTILINE)


def test_one_metric_is_printed_value_by_value(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    done = mlbench("metrics", "finished", "--metric", "train_loss")
    series = client.get_run_metrics(finished.id, metric_filter="train_loss").result().value
    assert done.code == 0
    assert [line.split("  ") for line in done.out.splitlines()] == [
        [name, point.date, point.value] for name, points in series.items() for point in points
    ]


def test_metrics_as_json_are_what_the_api_says(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    found = mlbench("metrics", "finished", "--json").json
    assert found == client.get_run_metrics(finished.id).result().json()
    only = mlbench("metrics", "finished", "--metric", "epoch", "--json").json
    assert only == {name: points for name, points in found.items() if name.startswith("epoch")}


def test_a_metric_that_is_not_there_is_named(mlbench: Mlbench, finished: Run) -> None:
    done = mlbench("metrics", "finished", "--metric", "nothing")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"mlbench: run {finished.id} has no metric 'nothing'; "
        f"`mlbench metrics {finished.id}` lists them\n"
    )


def test_names_and_texts_are_printed_as_they_are(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    name = "a_name_of_a_layer." * 6 + "[/bold] :100: [weight]"
    client.post_metric(finished.id, name, "[/] text :smile:", date=_DATE).result()
    overview, values = (
        mlbench("metrics", "finished"),
        mlbench("metrics", "finished", "--metric", name),
    )
    assert overview.code == values.code == 0
    assert re.search(rf"^{re.escape(name)} +1 ", overview.out, re.MULTILINE)
    assert values.out == f"{name}  {_DATE}  [/] text :smile:\n"


def test_a_text_where_a_number_belongs_does_no_harm(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    before = mlbench("status", "finished").out
    for metric in ("epoch", "samples", "train_seconds", "forward_seconds"):
        client.post_metric(
            finished.id, f"{metric} @ 0", "a text", date="2035-01-01T00:00:00Z"
        ).result()
    done = mlbench("status", "finished")
    assert (done.code, done.out) == (0, before)


def test_the_manifest_says_what_ran_and_on_what(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    done = mlbench("manifest", "finished")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^division +closed *$", done.out, re.MULTILINE)
    assert re.search(r"^task +steps *$", done.out, re.MULTILINE)
    assert re.search(r"^ranks 0, 1 .* cores; .* Python 3\.", done.out, re.MULTILINE)
    said = client.get_manifest(finished.id).result().value
    assert mlbench("manifest", "finished", "--json").json == said
