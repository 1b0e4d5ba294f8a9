"""The client of the API: each method against the real master, and what goes wrong on the way."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mlbench import ApiClient, MLBenchError
from mlbench.client import ApiError, NoAnswerError, Point, Run
from mlbench.home import Home, NotConnectedError
from tests.conftest import free_port, wait_for
from tests.mlbench.conftest import wait_for_end

# --- What it reads. ---


def test_it_finds_the_stack_by_its_home(stack: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLBENCH_HOME", str(stack.root))
    with ApiClient.from_home() as client:
        assert len(client.get_worker_pods()) == 2


def test_a_run_is_described_in_full(finished: Run) -> None:
    assert (finished.name, finished.benchmark, finished.num_workers) == ("finished", "steps", 2)
    assert finished.args == {"steps": "200", "rate": "1000"}
    assert (finished.state, finished.active, finished.reason) == ("FINISHED", False, "")
    assert [(rank.rank, rank.exit_code) for rank in finished.ranks] == [(0, 0), (1, 0)]
    assert finished.started_at is not None
    assert finished.finished_at is not None
    assert finished.created_at <= finished.started_at <= finished.finished_at
    assert finished.delivery is not None
    # Of each rank: 200 losses and steps; 2 epochs and the end with their totals and steps.
    assert finished.delivery.recorded == 2 * (200 * 2 + 2 * 4 + 3)
    assert finished.fields["job_id"]


def test_all_runs_are_listed_the_oldest_first(client: ApiClient, finished: Run, going: Run) -> None:
    ids = [run.id for run in client.get_runs()]
    assert ids == sorted(ids)
    assert {finished.id, going.id} <= set(ids)
    assert client.get_run(going.id).active


def test_every_value_of_a_run_comes_back(client: ApiClient, finished: Run) -> None:
    series = client.get_run_metrics(finished.id)
    losses = [point.number for point in series["train_loss @ 1"]]
    assert losses == [1 / (1 + step / 100) for step in range(1, 201)]
    dates = [point.date for point in series["train_loss @ 1"]]
    assert dates == sorted(dates)


def test_a_part_of_the_values_can_be_asked_for(client: ApiClient, finished: Run) -> None:
    losses = client.get_run_metrics(finished.id, metric_filter="train_loss")
    assert set(losses) == {"train_loss @ 0", "train_loss @ 1"}
    last = client.get_run_metrics(finished.id, metric_filter="train_loss", last_n=3)
    assert last == {name: points[-3:] for name, points in losses.items()}
    since = losses["train_loss @ 0"][99].date
    later = client.get_run_metrics(finished.id, metric_filter="train_loss", since=since)
    assert later["train_loss @ 0"] == losses["train_loss @ 0"][100:]


def test_a_posted_sample_can_be_read_at_once(client: ApiClient, finished: Run) -> None:
    date = "2018-08-03T09:21:29.347000Z"
    client.post_metric("note", "a text", date, run_id=finished.id)
    found = client.get_run_metrics(finished.id, metric_filter="note")
    assert found == {"note": [Point(date, "a text")]}
    with pytest.raises(ValueError, match="a text"):
        _ = found["note"][0].number


def test_a_sample_can_be_posted_to_a_pod(client: ApiClient, finished: Run) -> None:
    pod, date = finished.ranks[0].pod, "2018-08-03T09:21:29.347000Z"
    client.post_metric("temperature", 41.5, date, pod_name=pod)
    found = client.get_pod_metrics(pod, metric_filter="temperature")
    assert found == {"temperature": [Point(date, "41.5")]}


def test_a_log_is_read_from_an_offset_or_by_its_last_lines(
    client: ApiClient, finished: Run
) -> None:
    whole = client.get_logs(finished.id, rank=1)
    assert whole.text.startswith("step 100 of 200: ")
    assert (whole.rank, whole.stream, whole.complete) == (1, "stdout", True)
    assert whole.offset == len(whole.text)
    rest = client.get_logs(finished.id, rank=1, offset=10)
    assert rest.text == whole.text[10:]
    tail = client.get_logs(finished.id, rank=1, tail=1)
    assert tail.text == whole.text.splitlines(keepends=True)[-1]
    assert client.get_logs(finished.id, rank=1, stream="stderr").text == ""


def test_a_run_is_stopped_and_deleted(client: ApiClient) -> None:
    run = client.create_run("to-stop", "steps", args={"steps": "6000", "rate": "100"})
    wait_for(lambda: client.get_run_metrics(run.id, last_n=1), what="the run records")
    with pytest.raises(ApiError, match="stop it first") as refused:
        client.delete_run(run.id)
    assert refused.value.status == 409
    client.stop_run(run.id)
    assert wait_for_end(client, run).state == "STOPPED"
    client.delete_run(run.id)
    with pytest.raises(ApiError, match=f"no run {run.id}") as gone:
        client.get_run(run.id)
    assert gone.value.status == 404


# --- What goes wrong. ---


def test_a_refusal_names_the_field(client: ApiClient) -> None:
    with pytest.raises(ApiError, match="num_workers: at most 16") as refused:
        client.create_run("a", "steps", num_workers=17)
    assert refused.value.status == 400


def test_a_wrong_token_is_refused(stack: Home) -> None:
    with (
        ApiClient(stack.read_connection().url, "wrong") as client,
        pytest.raises(ApiError, match="show the token") as refused,
    ):
        client.get_runs()
    assert refused.value.status == 401


def test_a_master_that_is_away_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with (
        ApiClient(url, "token") as client,
        pytest.raises(NoAnswerError, match=f"the master at {url} does not answer") as error,
    ):
        client.get_runs()
    assert "`mlbench up` starts it" in str(error.value)
    assert isinstance(error.value, MLBenchError)


def test_without_a_stack_there_is_no_client(
    stack: Home, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("MLBENCH_HOME", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(NotConnectedError):
        ApiClient.from_home()


class _Gateway(BaseHTTPRequestHandler):
    """Answers as a gateway in front of a master that is away."""

    def do_GET(self) -> None:
        self.send_response(502)
        self.end_headers()
        self.wfile.write(b"<h1>no JSON</h1>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def gateway() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Gateway) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_error_that_is_not_the_masters_own_is_told_too(gateway: str) -> None:
    with ApiClient(gateway, "token") as client, pytest.raises(ApiError, match="502 Bad Gateway"):
        client.get_runs()


def test_a_proxy_is_not_asked_for_this_machine(
    gateway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with ApiClient(gateway, "token") as client, pytest.raises(ApiError, match="502 Bad Gateway"):
        client.get_runs()
