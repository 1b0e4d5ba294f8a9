"""Values are read from the printed lines of common scripts, and not from other lines."""

import math
from pathlib import Path

import pytest

from mlbench.contract import printed_values
from mlbench_sources.printed_values import PrintedValues, values_in
from tests.mlbench.cli.conftest import Mlbench


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("epoch 3 loss 0.41 acc 0.87", {"epoch": 3, "loss": 0.41, "acc": 0.87}),
        ("Epoch: 3/10, train loss: 1e-3", {"epoch": 3, "train_loss": 1e-3}),
        ("Train Epoch: 3 [640/60000 (1%)]\tLoss: 0.4100", {"epoch": 3, "loss": 0.41}),
        (printed_values.EXAMPLES[1], {"average_loss": 0.0523, "accuracy": 0.9832}),
        (printed_values.EXAMPLES[2], {"loss": 0.41, "learning_rate": 1e-5, "epoch": 0.5}),
        (printed_values.EXAMPLES[3], {"loss": 0.41, "acc": 0.87}),
        ("Epoch 3:  40%|█| 40/100 [00:05<00:07, 8it/s, loss=.5]", {"epoch": 3, "loss": 0.5}),
        ("[1,  2000] loss: 2.184", {"loss": 2.184}),
        (
            "25/25 [====] - 5s 3ms/step - accuracy: 0.35 - loss: 1.76",
            {"accuracy": 0.35, "loss": 1.76},
        ),
        ("2026-11-30 09:10:11,123 INFO val/loss=0.5 took 3.5s.", {"val/loss": 0.5, "took": 3.5}),
        ("INFO:root:step 100 \x1b[31mloss 0.4\x1b[0m", {"step": 100, "loss": 0.4}),
        (
            "train loss 0.4 val loss 0.5 acc: 87.5%",
            {"train_loss": 0.4, "val_loss": 0.5, "acc": 87.5},
        ),
        ("iteration 3/100 reward=-1.5", {"iteration": 3, "reward": -1.5}),
        ("listening on localhost:8080", {}),
        ("loaded 50000 images in 3.2 s", {}),
        ("found 2 GPUs, seed: 1", {}),
        ("  File train.py, line 42, in step", {}),
        ("loss is going down", {}),
        ("loss 0.4 " + "x" * 2000, {}),
    ],
)
def test_values_are_read_from_a_printed_line(line: str, values: dict[str, float]) -> None:
    assert values_in(line) == pytest.approx(values)


def test_a_loss_may_be_nan() -> None:
    assert math.isnan(values_in("epoch 1 loss nan")["loss"])


def test_repeated_values_and_earlier_steps_are_skipped() -> None:
    said: list[str] = []
    values = PrintedValues(said.append)
    printed = ["step 1 loss 2", "step 1 loss 2", "step 2 loss 1", "step 1 loss 3 lr 1", "hello"]
    lines = [line for text in printed for line in values.lines(text.encode())]
    assert lines == [
        {"step": 1, "metrics": {"step": 1, "loss": 2}},
        {"step": 2, "metrics": {"step": 2, "loss": 1}},
        {"metrics": {"step": 1, "loss": 3, "lr": 1}},
    ]
    assert said == [
        "mlbench: step, loss: read from the line 'step 1 loss 2'",
        "mlbench: lr: read from the line 'step 1 loss 3 lr 1'",
    ]
    for own in (':::MLLOG {"key": "loss 3"}', said[0]):
        assert [*values.lines(own.encode())] == []


_SCRIPT = """
import sys
for epoch in range(3):
    for batch in range(2):
        bar = f"epoch {epoch}: 50%|█| {batch}/2 [00:01<00:01, 8.10it/s, loss={3 - epoch}.{batch}]"
        print(bar, end=chr(13), file=sys.stderr, flush=True)
    print(f"epoch {epoch} val_loss {epoch / 2}", flush=True)
"""


@pytest.mark.parametrize("is_requested", [True, False])
def test_values_printed_by_an_unchanged_script_are_recorded_on_request(
    here: Mlbench, tmp_path: Path, is_requested: bool
) -> None:
    (tmp_path / "train.py").write_text(_SCRIPT)
    option = ["--from-stdout"] if is_requested else []
    name = f"printed-{is_requested}"
    printed = here("run", *option, "./train.py", "--workers", "1", "--name", name)
    assert printed.code == 0
    assert ("epoch 3 loss 0.41 acc 0.87" in printed.err) == is_requested
    shown = here("metrics", name, "--metric", "val_loss", "--json")
    assert ("0.5" in shown.out) == is_requested
    log = here("logs", name, "--stream", "stderr").out
    assert ("read from the line 'epoch 0 val_loss 0.0'" in log) == is_requested


def test_a_benchmark_refuses_from_stdout(here: Mlbench) -> None:
    refused = here("run", "--from-stdout", "digits").refusal
    assert "--from-stdout: only for your own code" in refused
