"""The live view of a run, and the output that remains after it."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mlbench import ApiClient
from mlbench.cli import live
from mlbench.cli.live import LiveProgress, last_numbers, progress
from mlbench.contract.records import Point, Run, Series, Target
from tests.mlbench.cli.conftest import Mlbench, Terminal
from tests.support.scripted import Asked, Reply, answering

_NOW = datetime(2018, 8, 3, 9, 21, 40, tzinfo=UTC)


def points(*values: str) -> list[Point]:
    return [Point("2018-08-03T09:21:29.347000Z", value) for value in values]


@pytest.fixture
def run(finished: Run) -> Run:
    return replace(
        finished,
        created_at="2018-08-03T09:21:20.000000Z",
        started_at="2018-08-03T09:21:30.000000Z",
        target=Target("acc", 97.0, lower_is_better=False),
    )


def test_progress_is_read_from_the_last_values(run: Run) -> None:
    series = {"epoch @ 0": points("2"), "train_loss @ 0": points("0.25"), "acc @ 0": points("91.5")}
    series |= {f"samples @ {rank}": points("600") for rank in range(2)}
    series |= {f"train_seconds @ {rank}": points("6") for rank in range(2)}
    assert progress(run, series, _NOW) == LiveProgress(2, 0.25, 91.5, 200.0, seconds=10.0)


@pytest.mark.parametrize(
    ("losses", "shown"),
    [
        ({"loss": 0.3}, 0.3),  # Keras, MLLOG
        ({"train/loss": 0.2, "val/loss": 0.4}, 0.2),  # Lightning
        ({"eval_loss": 0.5, "global_cum_comp_loss": 7.0}, 0.5),
        ({"global_cum_comp_loss": 7.0}, None),
    ],
)
def test_the_loss_is_found_by_the_names_that_libraries_use(
    run: Run, losses: dict[str, float], shown: float | None
) -> None:
    series = {f"{name} @ 0": points(str(value)) for name, value in losses.items()}
    assert progress(run, series, _NOW).loss == shown


def test_last_numbers_are_sorted_by_rank_and_texts_are_ignored() -> None:
    series: Series = {"loss @ 10": points("3"), "loss @ 2": points("1", "2", "a text")}
    series |= {"lossy": points("9"), "note @ 0": points("a text")}
    assert last_numbers(series) == {"loss": [2.0, 3.0], "lossy": [9.0]}


def test_only_time_is_shown_before_the_first_number(run: Run) -> None:
    waiting = replace(run, started_at=None, target=None)
    found = progress(waiting, {"epoch @ 0": points("NaN")}, _NOW)
    assert found == LiveProgress(None, None, None, None, seconds=20.0)


def check_cursor(terminal: Terminal) -> str:
    """Check that the cursor is shown again; return the text that remains."""
    assert terminal.raw.count("\x1b[?25l") == terminal.raw.count("\x1b[?25h") == 1
    return terminal.raw.rpartition("\x1b[2K")[2]


def test_the_view_is_redrawn_in_place_and_replaced_by_the_result(mlbench: Mlbench) -> None:
    arguments = ("run", "steps", "--name", "drawn", "--set", "steps=240", "--set", "rate=60")
    with mlbench.on_terminal(*arguments, columns=60) as terminal:
        assert terminal.wait() == 0
    assert re.search(r"run \d+ \(drawn\) on 2 workers: training", terminal.text)
    assert re.search(r"epoch 0  loss 0\.\d{4}", terminal.text)
    assert re.search(r"epoch 1  loss 0\.\d{4}  \d+ samples/s  \d+\.\d s", terminal.text)
    # Addresses are never cut, so that users can open them.
    drawn = re.sub(r"Web page .*", "", terminal.text.partition("completed")[0])
    assert max(map(len, re.split(r"[\r\n]+", drawn))) <= 60
    left_on_screen = check_cursor(terminal)
    assert re.match(r"run \d+ \(drawn\): \x1b\[32mcompleted", left_on_screen)


def test_ctrl_c_leaves_the_run_active(mlbench: Mlbench, client: ApiClient) -> None:
    arguments = ("run", "steps", "--name", "left", "--set", "steps=6000", "--set", "rate=100")
    with mlbench.on_terminal(*arguments, columns=60) as terminal:
        terminal.read_until("on 2 workers: training")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    run = next(run for run in client.get_runs().result().value if run.name == "left")
    assert run.active
    left_on_screen = check_cursor(terminal)
    assert left_on_screen == f"run {run.id} continues; `mlbench stop {run.id}` stops it\r\n"


def test_each_reason_for_waiting_is_shown_once(
    finished: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_REFRESH_SECONDS", 0.0)
    room = "the cluster has room for {} of 4 workers"
    waits = ["", room.format(2), room.format(2), room.format(3), "", ""]
    states = ["INITIALIZED"] * 4 + ["STARTED", "FINISHED"]
    pairs = zip(states, waits, strict=True)
    changes = ({"state": state, "waiting": waiting, "ranks": []} for state, waiting in pairs)
    bodies = [{**finished.fields, **changed} for changed in changes]

    def answer(asked: Asked) -> Reply:
        return Reply(body=bodies.pop(0) if "runs" in asked.path else [])

    ordered = replace(finished, state="INITIALIZED")
    with answering(answer) as master, ApiClient(url=master.url) as client:
        live.follow(client, ordered, quiet=False)
    assert capsys.readouterr().err.splitlines() == [
        f"run {finished.id} (finished) on 2 workers",
        f"waiting: {room.format(2)}",
        f"waiting: {room.format(3)}",
        "starting",
    ]
