"""The communication task measures and checks each message size, and counts wrong values."""

from pathlib import Path

import pytest
import torch

from mlbench.contract import names
from mlbench_worker.ranks.distributed import World
from mlbench_worker.tasks.communication import COLLECTIVES, Message
from tests.support.ranks import Rank, finish, run_ranks, start_ranks

_TASK = ("-m", "mlbench_worker.tasks.communication")
_QUICK = ("--max-bytes", "8192", "--factor", "8", "--seconds", "0", "--warmup", "1")
_OPERATIONS = ("all_reduce", "broadcast", "all_gather")
_BUS_FACTORS = {2: (1, 1, 1 / 2), 3: (4 / 3, 1, 2 / 3)}
_SIZES = [4, 32, 256, 2048]
# An all-gather divides its size among the ranks in whole values.
_GATHERED = {
    2: {"float32": [8, 32, 256, 2048], "int8": [4, 32, 256, 2048]},
    3: {"float32": [12, 24, 252, 2040], "int8": [3, 30, 255, 2046]},
}


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    folder = tmp_path_factory.mktemp("measured")
    return run_ranks(folder, request.param, *_TASK, *_QUICK, "--dtypes", "float32,int8")


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_every_size_has_the_metrics_of_nccl_tests(ranks: list[Rank], dtype: str) -> None:
    for operation, factor in zip(_OPERATIONS, _BUS_FACTORS[len(ranks)], strict=True):
        metrics = [
            names.message_metric(operation, dtype, figure)
            for figure in (
                "seconds",
                "algorithm_bandwidth_bytes_per_second",
                "bus_bandwidth_bytes_per_second",
                "wrong_values",
            )
        ]
        lines = [line.get("metrics", {}) for line in ranks[0].lines()]
        measured = [line for line in lines if metrics[0] in line]
        gathers = operation == "all_gather"
        sizes = _GATHERED[len(ranks)][dtype] if gathers else _SIZES
        assert [line[names.MESSAGE_BYTES] for line in measured] == sizes
        for line, size in zip(measured, sizes, strict=True):
            seconds, algorithm, bus, wrong = (line[metric] for metric in metrics)
            assert 0 < seconds < 60
            assert algorithm == pytest.approx(size / seconds)
            assert bus == pytest.approx(algorithm * factor)
            assert wrong == 0


def test_all_ranks_record_progress_and_only_rank_0_records_results(ranks: list[Rank]) -> None:
    for rank in ranks:
        assert rank.lines()[-1]["step"] == 24
        assert rank.series(names.phase_metric("communication"))[-1] > 0
        assert rank.series(names.EPOCH) == list(range(6))
        settings = rank.stated("settings")
        if rank is ranks[0]:
            assert (
                settings[0].items() >= {"backend": "gloo", "device": "cpu", "rounds": 1000}.items()
            )
        else:
            assert settings == []
            assert rank.series(names.MESSAGE_BYTES) == []


def test_unchecked_values_are_not_reported_as_correct(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, *_TASK, *_QUICK, "--check=false", "--operations=broadcast")
    printed, _ = finish(ranks)
    assert [line.split()[-1] for line in printed.splitlines()[3:]] == ["-"] * 4
    assert ranks[0].series(names.message_metric("broadcast", "float32", "wrong_values")) == []


def test_after_the_deadline_nothing_more_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_DEADLINE, "1")
    ranks = start_ranks(tmp_path, 2, *_TASK, *_QUICK)
    outputs = finish(ranks)
    assert outputs == ["the deadline has passed: training ends\n"] * 2
    assert ranks[0].series(names.MESSAGE_BYTES) == []


# Rank 1 corrupts a value after each operation.
_LIE = """
import sys
from mlbench_worker.tasks import communication
from mlbench_worker.ranks import rank_process
honest = communication.COLLECTIVES["all_reduce"].run
def lie(message):
    honest(message)
    if message.world.rank == 1:
        message.whole[0] = 7
object.__setattr__(communication.COLLECTIVES["all_reduce"], "run", lie)
communication.main(rank_process.parse(communication.CommunicationOptions))
"""


def test_wrong_values_fail_the_run(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, "-c", _LIE, *_QUICK, "--operations=all_reduce")
    printed, errors = ranks[0].output()
    ranks[1].output()
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert [line.split()[-1] for line in printed.splitlines()[3:]] == ["1"] * 4
    assert errors.splitlines()[-1].endswith("4 values were wrong: see the column #wrong")


_CPU = torch.device("cpu")
_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64]
_RANKS = 3


def messages(count: int, dtype: torch.dtype = torch.float32) -> list[Message]:
    """Return the input of an operation on each of three ranks."""
    made = [Message(count, dtype, World(rank, _RANKS), _CPU) for rank in range(_RANKS)]
    for message in made:
        message.fill()
    return made


def right_result(operation: str, given: list[Message]) -> torch.Tensor:
    match operation:
        case "all_reduce":
            whole = torch.stack([message.whole for message in given])
            return whole.sum(0, dtype=given[0].whole.dtype)
        case "broadcast":
            return given[0].whole.clone()
        case _:
            return torch.cat([message.part for message in given])


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("operation", COLLECTIVES)
@pytest.mark.parametrize("count", [3, 750, 753, 10_002])
def test_a_correct_result_has_no_wrong_value(
    operation: str, count: int, dtype: torch.dtype
) -> None:
    given = messages(count, dtype)
    given[1].whole = right_result(operation, given)
    assert COLLECTIVES[operation].count_wrong(given[1]) == 0


@pytest.mark.parametrize("operation", COLLECTIVES)
@pytest.mark.parametrize("place", [0, 250, 251, 5_000, 10_001])
def test_each_wrong_value_is_counted(operation: str, place: int) -> None:
    given = messages(10_002)
    given[1].whole = right_result(operation, given)
    given[1].whole[place] += 1
    assert COLLECTIVES[operation].count_wrong(given[1]) == 1
    given[1].whole[[3, 9_999]] = torch.nan
    assert COLLECTIVES[operation].count_wrong(given[1]) == 3


@pytest.mark.parametrize("operation", COLLECTIVES)
def test_a_missing_or_displaced_result_is_wrong(operation: str) -> None:
    given = messages(10_002)
    collective, right = COLLECTIVES[operation], right_result(operation, given)
    assert collective.count_wrong(given[1]) > 1_000, "the input counts as a result"
    for wrong in (torch.zeros_like(right), right.roll(1), right.roll(1_024), right.flip(0)):
        given[1].whole = wrong
        assert collective.count_wrong(given[1]) > 1_000
