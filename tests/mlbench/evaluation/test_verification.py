"""Verification: forgeries with correct digests are detected, and archives are compared."""

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlbench import archive
from mlbench.archive import ROWS, RUN, ArchiveError, More, Piece, SeriesName, bundle, opened
from mlbench.contract import names
from mlbench.contract.records import Target
from mlbench.evaluation.inputs import Criteria
from mlbench.evaluation.verification import compare_files, contradictions

_STARTED_US = 1_700_000_000_000_000


def _found(
    folder: Path, *, slower: float = 1.0, seconds: float = 8.0, attempt: int = 1, restarts: int = 0
) -> Any:
    """Return the contradictions of a run of 10 s (2 s of evaluation) with such slow clocks."""
    times = array("q", [_STARTED_US + i * 1_000_000 for i in range(11)])
    training = Piece(times, array("d", [0.8 * i * slower for i in range(11)]))
    evaluation = Piece(times, array("d", [0.2 * i * slower for i in range(11)]))
    text = More("90% Top 1 Validation Accuracy reached in 8.000 seconds, Compute: 6.000 seconds")
    sentence = Piece(times[-1:], array("d", [float("nan")]), {0: text}, kept=True)
    pieces = {names.TRAIN_SECONDS: training, names.phase_metric("evaluation"): evaluation}
    pieces[names.TASK_RESULT] = sentence
    series = [(SeriesName(metric, "0"), [piece]) for metric, piece in pieces.items()]
    result = {"time_to_target": {"training_seconds": seconds}, "clock_faults": []}
    result |= {"goodput": {"ranks": [{"restarts": restarts}]}}
    documents = {RUN: {"result": result}, ROWS: {"run": [{"attempt": attempt}]}}
    archive.write(folder / "a", documents, series)
    with opened(folder / "a") as file:
        return contradictions(file)


def test_halved_clocks_contradict_the_timestamps(tmp_path: Path) -> None:
    assert _found(tmp_path) == [], "an unmodified run has no contradiction"
    [clocks, sentence] = _found(tmp_path, slower=0.5, seconds=4.0)
    assert clocks == ("the clocks of rank 0 tell 5.00 s, and the dates of its samples 10.00 s")
    assert sentence == ("the task states 8.0 s until its target, its result 4.000 s")


@pytest.mark.parametrize("by", [{"attempt": 2}, {"attempt": 3}, {"restarts": 1}])
def test_clocks_of_a_restarted_run_may_lack_time(tmp_path: Path, by: dict[str, int]) -> None:
    """Restarts by torchrun within one attempt count, too."""
    assert _found(tmp_path, slower=0.5, seconds=8.0, **by) == []


_SET = Path(__file__).parents[3] / "docs" / "archives" / "results-digits.mlbench"


@pytest.fixture
def files(tmp_path: Path) -> Mapping[int, Path]:
    """Archives of a set by run ID."""
    found = {}
    for file in bundle.archives_in(_SET, tmp_path):
        with opened(file) as one:
            found[one.document(RUN)["run"]["id"]] = file
    return found


def elsewhere(file: Path, **run: Any) -> Path:
    """Write an archive of another installation with these columns of its run."""
    with opened(file) as one:
        documents = {name: one.document(name) for name in (RUN, ROWS)}
        documents[RUN]["installation"] = "elsewhere"
        documents[ROWS]["run"][0] |= run
        changed = file.with_name(f"elsewhere-{file.name}")
        archive.write(changed, documents, [(name, one.read(name)) for name in one.series])
    return changed


def test_runs_of_two_installations_are_distinguished(files: Mapping[int, Path]) -> None:
    found, digests = compare_files([files[2], elsewhere(files[8], id=2), files[9]])
    assert [one.run_id for one in found.results] == [2, 4, 9]
    with opened(files[9]) as third:
        assert ([*digests], digests[9]) == ([2, 4, 9], third.digest)
    [origin] = [one for one in found.differences if one.name == "origin"]
    assert [value.run_ids for value in origin.values] == [(2, 9), (4,)]
    judged, _ = compare_files([files[2], files[8]], Criteria(Target("val_global_Prec@1", 50.0)))
    times = [(one.results[0].target, one.results[0].time_to_target) for one in (found, judged)]
    assert times[0] != times[1]


def test_a_set_keeps_its_ledger_with_other_run_ids(files: Mapping[int, Path]) -> None:
    found, _ = compare_files([elsewhere(files[8], id=4), _SET])
    assert [one.run_id for one in found.results] == [4, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16]
    [ledger] = found.sets
    counts = "10 of 10 slots have a run that counts; 12 runs; 2 disturbed"
    assert ledger == f"set results-digits: {counts}"


def test_duplicate_damaged_and_invalid_runs_are_refused(files: Mapping[int, Path]) -> None:
    with pytest.raises(ArchiveError, match="another file has its run, too"):
        compare_files([files[2], _SET])
    files[2].write_bytes(files[2].read_bytes()[:-1] + b"x")
    with pytest.raises(ArchiveError, match="it is damaged: the file does not match its digest"):
        compare_files([files[2]])
    with pytest.raises(ArchiveError, match="its run is invalid"):
        compare_files([elsewhere(files[3], num_workers="many")])
