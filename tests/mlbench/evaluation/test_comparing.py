"""Runs of files are compared whatever ids they have, each once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlbench import archive
from mlbench.archive import ROWS, RUN, ArchiveError, bundle, opened
from mlbench.contract.records import Goal
from mlbench.evaluation.inputs import Criteria
from mlbench.evaluation.verification import compare_files

_SET = Path(__file__).parents[3] / "docs" / "archives" / "results-digits.mlbench"


@pytest.fixture
def files(tmp_path: Path) -> Mapping[int, Path]:
    """The archives of a set by their runs' ids."""
    found = {}
    for file in bundle.archives_in(_SET, tmp_path):
        with opened(file) as one:
            found[one.document(RUN)["run"]["id"]] = file
    return found


def elsewhere(file: Path, **run: Any) -> Path:
    """Write an archive with another installation, and other columns of its run."""
    with opened(file) as one:
        documents = {name: one.document(name) for name in (RUN, ROWS)}
        documents[RUN]["installation"] = "elsewhere"
        documents[ROWS]["run"][0] |= run
        changed = file.with_name(f"elsewhere-{file.name}")
        archive.write(changed, documents, [(name, one.read(name)) for name in one.series])
    return changed


def test_runs_of_two_installations_keep_apart(files: Mapping[int, Path]) -> None:
    found, manifest = compare_files([files[2], elsewhere(files[8], id=2), files[9]])
    assert [one.run_id for one in found.results] == [2, 4, 9]
    assert manifest.run_id == 2
    [origin] = [one for one in found.differences if one.name == "origin"]
    assert [value.run_ids for value in origin.values] == [(2, 9), (4,)]
    judged, _ = compare_files([files[2], files[8]], Criteria(Goal("val_global_Prec@1", 50.0)))
    times = [(one.results[0].target, one.results[0].time_to_accuracy) for one in (found, judged)]
    assert times[0] != times[1]


def test_a_set_keeps_its_ledger_under_other_ids(files: Mapping[int, Path]) -> None:
    found, _ = compare_files([elsewhere(files[8], id=4), _SET])
    assert [one.run_id for one in found.results] == [4, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16]
    assert found.sets == (
        "set results-digits: 10 of 10 places have a run that counts; 12 runs; 2 disturbed",
    )


def test_a_run_is_compared_once_and_only_if_it_is_whole(files: Mapping[int, Path]) -> None:
    with pytest.raises(ArchiveError, match="another file has its run, too"):
        compare_files([files[2], _SET])
    files[2].write_bytes(files[2].read_bytes()[:-1] + b"x")
    with pytest.raises(ArchiveError, match="it is damaged: the file does not match its digest"):
        compare_files([files[2]])
    with pytest.raises(ArchiveError, match="its run is invalid"):
        compare_files([elsewhere(files[3], num_workers="many")])
