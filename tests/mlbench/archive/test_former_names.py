"""Archives of earlier versions are read with the current field names."""

from pathlib import Path
from typing import Any

from mlbench.archive import ROWS, RUN, opened
from mlbench.archive.bundle import archives_in
from mlbench.archive.former_names import with_current_names
from mlbench.contract.results import Result

_ARCHIVES = Path(__file__).parents[3] / "docs" / "archives"


def test_an_archive_of_an_earlier_version_has_current_names(tmp_path: Path) -> None:
    archive, *_ = archives_in(_ARCHIVES / "results-digits.mlbench", tmp_path)
    with opened(archive) as earlier:
        run, row = earlier.document(RUN), earlier.document(ROWS)["run"][0]
    assert row["target"] == run["manifest"]["target"]
    assert "goal" in row["settings"], "option names of tasks are not renamed"
    result = Result.from_fields(run["result"])
    assert result.contention_share == run["result"]["contention_share"]
    assert "waiting_share" not in run["result"]


def test_verdicts_of_earlier_versions_have_current_names() -> None:
    verdict = {"kind": "behind", "culprits": [1], "certainty": "likely"}
    current = {"kind": "not_in_collective", "at_fault": [1], "certainty": "likely"}
    assert with_current_names([{"verdict": verdict}]) == [{"verdict": current}]


def test_keys_chosen_by_users_and_names_of_programs_are_not_renamed() -> None:
    document: Any = {"args": {"goal": 1}, "settings": {"goal": 2}, "swept": {"goal": "3"}}
    document["interferences"] = [{"rank": 0, "top": {"place": 0.2, "goal": 0.1}}]
    assert with_current_names(document) == document
