"""Rank of a process."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from mlbench.contract.process import ProcessRank, this_process

_SECOND_OF_TWO = {"MLBENCH_RANK": "1", "MLBENCH_WORLD_SIZE": "2"}
_THIRD_OF_FOUR = _SECOND_OF_TWO | {"RANK": "2", "WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2"}
# torchrun around the recorders of a job, on two machines with two processes each.
_AROUND = {"MLBENCH_RANK": "1", "MLBENCH_WORLD_SIZE": "4", "MLBENCH_LAUNCHER": "torchrun"}
_AROUND |= {"RANK": "1", "WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "process"),
    [
        ({}, ProcessRank(0, 1)),
        (_SECOND_OF_TWO, ProcessRank(1, 2)),
        (_THIRD_OF_FOUR, ProcessRank(2, 4)),
        (_THIRD_OF_FOUR | {"TORCHELASTIC_RESTART_COUNT": "3"}, ProcessRank(2, 4, 3)),
        # torchrun --standalone, on each of two workers.
        (_THIRD_OF_FOUR | {"GROUP_WORLD_SIZE": "1"}, ProcessRank(6, 8)),
        *(
            (_SECOND_OF_TWO | {"RANK": rank, "WORLD_SIZE": size}, ProcessRank(1, 2))
            for rank, size in (("1", "2"), ("0", "1"), ("first", "4"), ("4", "4"))
        ),
        (_AROUND | {"TORCHELASTIC_RESTART_COUNT": "1"}, ProcessRank(1, 4)),
    ],
)
def test_the_rank_is_read_from_variables(environ: dict[str, str], process: ProcessRank) -> None:
    assert this_process(environ) == process


@pytest.mark.parametrize(
    ("begun", "process"), [(True, ProcessRank(3, 4)), (False, ProcessRank(1, 2))]
)
def test_the_rank_is_read_from_an_initialized_process_group(
    monkeypatch: pytest.MonkeyPatch, begun: bool, process: ProcessRank
) -> None:
    sizes: Any = {"get_rank": lambda: 3, "get_world_size": lambda: 4}
    group = SimpleNamespace(is_initialized=lambda: begun, **sizes)
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    assert this_process(_SECOND_OF_TWO) == process
