"""A run is disturbed if a rank waited for others, or had its cores stolen, for too long."""

from typing import Any

import pytest

from mlbench.contract.records import Disturbance
from mlbench.evaluation.inputs import RankRow
from mlbench.evaluation.stragglers import disturbances
from tests.support.rows import QUIET


def make_rank(rank: int, attempt: int, **measured: Any) -> RankRow:
    disturbance = Disturbance.from_fields(QUIET | measured)
    return RankRow(rank=rank, attempt=attempt, disturbance=disturbance)


@pytest.mark.parametrize(
    ("measured", "disturbed", "text"),
    [
        ({}, False, "rank 1 waited for a core 1 % of the time; others used 0.1 of 2 cores"),
        (
            {"waiting_seconds": 4.1, "others_core_seconds": 11.0, "top": {"a": 8.0, "b": 2.9}},
            True,
            "rank 1 waited for a core 41 % of the time; others used 1.1 of 2 cores "
            "(top: a 0.8, b 0.3)",
        ),
        (
            {"own_waiting_seconds": 7.5, "others_core_seconds": None, "cores": 1},
            False,
            "rank 1 waited for a core 1 % of the time, 75 % more by its own doing",
        ),
        (
            {"stolen_seconds": 0.6, "cores": 1},
            True,
            "rank 1 waited for a core 1 % of the time; others used 0.1 of 1 core; "
            "its cores were stolen 6 % of the time",
        ),
        (
            {"profiled": [(100.0, 102.5), (200.0, 203.0)]},
            True,
            "rank 1 waited for a core 1 % of the time; others used 0.1 of 2 cores; "
            "it was profiled for 5.5 s",
        ),
    ],
)
def test_waiting_and_stealing_disturb(measured: Any, disturbed: bool, text: str) -> None:
    [found] = disturbances([make_rank(1, 1, **measured)])
    assert (found.disturbed, found.text) == (disturbed, text)


def test_every_attempt_counts_as_far_as_it_was_measured() -> None:
    ranks = [make_rank(0, 2), make_rank(1, 1, waiting_seconds=5.0), RankRow(rank=0, attempt=1)]
    entries = disturbances(ranks)
    assert [(entry.attempt, entry.rank, entry.disturbed) for entry in entries] == [
        (1, 1, True),
        (2, 0, False),
    ]
    assert entries[0].text.startswith("rank 1, attempt 1, waited for a core 50 % of the time")
