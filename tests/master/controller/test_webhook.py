"""The webhook: each end and each hang is sent once, and retried if the receiver fails."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from mlbench.contract.records import Outcome
from mlbench.evaluation.summary_metrics import SummaryMetrics
from mlbench_master.controller.webhook import Webhook
from mlbench_master.database.models import Diagnosis, Notification, Run
from mlbench_master.runs import lifecycle
from tests.conftest import free_port, wait_for
from tests.support.rows import make_ranks, make_run, reload
from tests.support.scripted import Asked, Reply, Scripted, answering, endless, serving

DAY = 86_400.0
STOPPED = Outcome("stopped", "stopped", "stopped")
COMPLETED = Outcome("completed", "completed", "completed")


@pytest.fixture
def receiver() -> Iterator[Scripted]:
    with answering(lambda asked: Reply(body=b"ok")) as server:
        yield server


def webhook(url: str) -> Webhook:
    return Webhook(f"{url}/services/T0/token", "https://ml.example.org/mlbench")


def texts(receiver: Scripted) -> list[str]:
    for asked in receiver.asked:
        assert (asked.method, asked.path) == ("POST", "/services/T0/token")
        assert asked.headers["Content-Type"] == "application/json"
    bodies = [json.loads(asked.body) for asked in receiver.asked]
    assert all(body.keys() == {"text"} for body in bodies)
    return [body["text"] for body in bodies]


def end(run: Run, state: str, outcome: Outcome | None = None, **columns: Any) -> None:
    """End a run 65 s after its start; with an outcome it is sealed and has summary metrics."""
    figures = asdict(SummaryMetrics(outcome=outcome, best_value=97.25)) if outcome else None
    at = {"started_at": 100.0, "finished_at": 165.0}
    last: dict[str, Any] = {"state": state, "reason": "", "figures": figures, "announces": True}
    lifecycle.end(run.id, **last | at | columns)


@pytest.mark.both_databases
def test_an_end_is_sent_once(run: Run, receiver: Scripted) -> None:
    target = {"metric": "val_global_Prec@1", "value": 97.0, "lower_is_better": False}
    reached = Outcome("reached", "target reached in 40 s of training", "target reached")
    end(run, "FINISHED", reached, user="ada", title="A <!channel> & more", target=target)
    for _ in range(2):
        assert webhook(receiver.url).send_due(time.time()) == ""
    assert texts(receiver) == [
        f"Run {run.id} (A &lt;!channel&gt; &amp; more) of ada finished after 1 min 05 s: "
        "target reached in 40 s of training; Validation accuracy ≥ 97 %, best 97.25\n"
        f"https://ml.example.org/mlbench/runs/{run.id}"
    ]


def test_messages_of_failed_and_stopped_runs_give_the_reason(run: Run, receiver: Scripted) -> None:
    crashed = "crashed: rank 1 on w-1 exited with code 3: no"
    end(run, "FAILED", Outcome("crashed", crashed, "crashed"))
    stopped = make_run(name="second")
    end(stopped, "STOPPED", STOPPED, stopped_by="ben")
    queued = make_run(name="third", state="INITIALIZED")
    end(queued, "STOPPED", STOPPED, started_at=None)
    webhook(receiver.url).send_due(time.time())
    first_lines = [text.splitlines()[0] for text in texts(receiver)]
    assert first_lines == [
        f"Run {run.id} (made) failed after 1 min 05 s: {crashed}",
        f"Run {stopped.id} (second) was stopped by ben after 1 min 05 s",
        f"Run {queued.id} (third) was stopped before it started",
    ]


def test_the_message_of_a_hang_has_its_diagnosis(run: Run, receiver: Scripted) -> None:
    make_ranks(run)
    now = time.time()
    Run.update(started_at=now - 65.0).execute()
    Notification.create(run=run, attempt=1, event="hung", at=now)
    diagnosis = Diagnosis.create(run=run, attempt=1, reason="stalled", asked_at=now)
    webhook(receiver.url).send_due(now)
    assert texts(receiver) == [], "the ranks may still send evidence"
    Diagnosis.update(asked_at=now - 60.0).execute()
    webhook(receiver.url).send_due(now)
    Diagnosis.delete().execute()
    Notification.create(run=run, attempt=2, event="hung", at=now)
    webhook(receiver.url).send_due(now)
    first, second = texts(receiver)
    assert first.startswith(f"Run {run.id} (made) hung after 1 min 05 s: "), diagnosis
    assert second.startswith(f"Run {run.id} (made) hung after 1 min 05 s: a rank makes no progress")


def test_a_message_waits_for_the_result_until_a_timeout(run: Run, receiver: Scripted) -> None:
    end(run, "FAILED", reason="rank 0 is lost: no report\nand more")
    now = time.time()
    webhook(receiver.url).send_due(now)
    assert texts(receiver) == []
    webhook(receiver.url).send_due(now + 61.0)
    [text] = texts(receiver)
    assert "failed after 1 min 05 s: rank 0 is lost: no report\nhttps:" in text


def test_no_message_for_other_runs(run: Run, receiver: Scripted) -> None:
    """Runs without the setting, imported runs and deleted runs have no event."""
    end(run, "FINISHED", COMPLETED, announces=False)
    make_run(state="FINISHED", origin={"installation": "x", "run_id": 1, "imported_at": 1.0})
    end(make_run(delete_requested=True), "STOPPED", STOPPED)
    assert webhook(receiver.url).send_due(time.time()) == ""
    assert texts(receiver) == []


def test_messages_expire(run: Run, receiver: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    end(run, "FINISHED", COMPLETED)
    webhook(receiver.url).send_due(time.time() + DAY + 1)
    webhook(receiver.url).send_due(time.time())
    assert texts(receiver) == []
    assert f"no message that run {run.id} ended" in caplog.text


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(404, body=b"no_service"), "it answered 404"),
        (Reply(302, headers=(("Location", "/token"),)), "it answered 302"),
        (Reply(None), "Server disconnected without sending a response."),
    ],
)
def test_a_refused_message_is_sent_again(run: Run, reply: Reply, problem: str) -> None:
    end(run, "FINISHED", COMPLETED)
    with serving(reply, Reply(204, body=b"")) as receiver:
        assert webhook(receiver.url).send_due(time.time()) == problem
        assert webhook(receiver.url).send_due(time.time()) == ""
        assert webhook(receiver.url).send_due(time.time()) == ""
        assert len(receiver.asked) == 2


def test_a_refused_message_does_not_block_the_next(run: Run) -> None:
    other = make_run(name="other", state="STARTED")
    for ended in (run, other):
        end(ended, "FINISHED", COMPLETED)

    def accept_other(asked: Asked) -> Reply:
        return Reply(200 if b"other" in asked.body else 400, body=b"")

    with answering(accept_other) as receiver:
        for _ in range(2):
            assert webhook(receiver.url).send_due(time.time()) == "it answered 400"
        assert [b"other" in asked.body for asked in receiver.asked] == [False, True, False]


def test_an_endless_response_is_not_read(run: Run) -> None:
    end(run, "FINISHED", COMPLETED)
    with endless() as url:
        assert webhook(url).send_due(time.time()) == ""


def test_retries_log_no_token(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # like the controller
    end(run, "FINISHED", COMPLETED)
    port, stop = free_port(), threading.Event()
    sending = webhook(f"http://127.0.0.1:{port}")
    thread = threading.Thread(target=sending.run, args=(Soon(stop), stop))
    thread.start()
    try:
        warning = f"webhook http://127.0.0.1:{port}: [Errno 111] Connection refused, trying again"
        wait_for(lambda: warning in caplog.messages, what="the problem in the log")
        with answering(lambda asked: Reply(), port) as receiver:
            wait_for(lambda: receiver.asked, what="the message")
            wait_for(lambda: not Notification.rows("sent_at IS NULL"), what="the event was sent")
            assert len(texts(receiver)) == 1
    finally:
        stop.set()
        thread.join()
    assert "token" not in caplog.text + repr(sending)
    assert reload(run).state == "FINISHED"


class Soon:
    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop

    def wait(self, seconds: float, /) -> bool:
        return self.stop.wait(min(seconds, 0.02))
