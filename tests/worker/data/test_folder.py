"""Data sets are looked for where the user says, or beside the rest of the stack's state."""

from pathlib import Path

import pytest

from mlbench import names
from worker.data.folder import datasets_folder


def test_the_variable_names_the_folder(tmp_path: Path) -> None:
    assert datasets_folder({names.ENV_DATASETS: str(tmp_path), names.ENV_HOME: "/home"}) == tmp_path


@pytest.mark.parametrize("unset", [{}, {names.ENV_DATASETS: ""}])
def test_without_the_variable_it_is_in_the_home_folder(
    unset: dict[str, str], tmp_path: Path
) -> None:
    assert datasets_folder({**unset, names.ENV_HOME: str(tmp_path)}) == tmp_path / "datasets"


def test_a_relative_folder_is_that_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert datasets_folder({names.ENV_DATASETS: "data"}) == tmp_path / "data"
