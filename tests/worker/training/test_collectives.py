"""Collective operations: a wrong value anywhere in a result is counted, and sizes are whole."""

import pytest
import torch

from worker.training.collectives import COLLECTIVES, Message, count_wrong
from worker.training.distributed import World

_CPU = torch.device("cpu")
_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64]
_RANKS = 3


def messages(count: int, dtype: torch.dtype = torch.float32) -> list[Message]:
    """Return what each of three ranks puts into an operation."""
    made = [Message(count, dtype, World(rank, _RANKS), _CPU) for rank in range(_RANKS)]
    for message in made:
        message.fill()
    return made


def sums(given: list[Message]) -> torch.Tensor:
    return torch.stack([message.whole for message in given]).sum(0, dtype=given[0].whole.dtype)


def first(given: list[Message]) -> torch.Tensor:
    return given[0].whole


def parts(given: list[Message]) -> torch.Tensor:
    return torch.cat([message.part for message in given])


_RIGHT = {"all_reduce": sums, "broadcast": first, "all_gather": parts}


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("operation", COLLECTIVES)
@pytest.mark.parametrize("count", [3, 750, 753, 10_002])
def test_the_right_result_has_no_wrong_value(
    operation: str, count: int, dtype: torch.dtype
) -> None:
    given = messages(count, dtype)
    given[1].whole = _RIGHT[operation](given).clone()
    assert COLLECTIVES[operation].count_wrong(given[1]) == 0


@pytest.mark.parametrize("operation", COLLECTIVES)
@pytest.mark.parametrize("place", [0, 250, 251, 5_000, 10_001])
def test_each_wrong_value_is_counted(operation: str, place: int) -> None:
    given = messages(10_002)
    given[1].whole = _RIGHT[operation](given).clone()
    given[1].whole[place] += 1
    assert COLLECTIVES[operation].count_wrong(given[1]) == 1
    given[1].whole[[3, 9_999]] = torch.nan
    assert COLLECTIVES[operation].count_wrong(given[1]) == 3


@pytest.mark.parametrize("operation", COLLECTIVES)
def test_a_result_that_never_came_or_lies_elsewhere_is_wrong(operation: str) -> None:
    given = messages(10_002)
    collective, right = COLLECTIVES[operation], _RIGHT[operation](given).clone()
    assert collective.count_wrong(given[1]) > 1_000, "a rank's own values"
    for wrong in (torch.zeros_like(right), right.roll(1), right.roll(1_024), right.flip(0)):
        given[1].whole = wrong
        assert collective.count_wrong(given[1]) > 1_000


def test_values_shorter_than_the_pattern_are_compared_with_its_beginning() -> None:
    pattern = torch.arange(251.0)
    assert count_wrong(torch.arange(7.0), pattern) == 0
    assert count_wrong(torch.arange(7.0) + 1, pattern) == 7


@pytest.mark.parametrize(
    ("operation", "size", "dtype", "ranks", "count"),
    [
        ("all_reduce", 4, torch.float32, 3, 1),
        ("all_reduce", 4, torch.float64, 3, 1),
        ("broadcast", 1, torch.float16, 3, 1),
        ("broadcast", 1 << 28, torch.int8, 2, 1 << 28),
        ("all_gather", 4, torch.float32, 3, 3),
        ("all_gather", 32, torch.float32, 3, 6),
        ("all_gather", 1 << 28, torch.float32, 3, (1 << 26) - 1),
    ],
)
def test_a_message_has_whole_values_and_equal_parts(
    operation: str, size: int, dtype: torch.dtype, ranks: int, count: int
) -> None:
    assert COLLECTIVES[operation].count(size, dtype, ranks) == count


@pytest.mark.parametrize(
    ("operation", "factors"),
    [
        ("all_reduce", [1, 4 / 3, 1.5]),
        ("broadcast", [1, 1, 1]),
        ("all_gather", [1 / 2, 2 / 3, 3 / 4]),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(operation: str, factors: list[float]) -> None:
    found = [COLLECTIVES[operation].bus_factor(ranks) for ranks in (2, 3, 4)]
    assert found == pytest.approx(factors)
