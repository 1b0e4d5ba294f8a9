"""Pressure stall information of a machine, from the kernel's files."""

from pathlib import Path

import pytest

from mlbench_exporter.exported_series import SourceError
from mlbench_exporter.pressure import PressureSource

SOME = "some avg10=0.48 avg60=0.13 avg300=1.65 total={}\nfull avg10=0.00 avg60=0.00 total=7\n"


def test_the_some_totals_are_seconds_by_resource(tmp_path: Path) -> None:
    for resource, total in (("cpu", 8291540043), ("memory", 0), ("io", 1500000)):
        (tmp_path / resource).write_text(SOME.format(total))

    found = {one.labels: one.value for one in PressureSource("n", tmp_path).read()}

    assert found == {("n", "cpu"): 8291.540043, ("n", "memory"): 0, ("n", "io"): 1.5}


def test_a_text_without_a_total_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "cpu").write_text("full total=1\n")
    with pytest.raises(SourceError, match=r"cpu: must begin with `some` and its total \(got 'full"):
        list(PressureSource("n", tmp_path).read())
