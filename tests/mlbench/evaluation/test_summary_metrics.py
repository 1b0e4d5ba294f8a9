"""Summary metrics of a run: figures that are stored with it at its end."""

import math
from array import array
from pathlib import Path

from mlbench import archive
from mlbench.archive import RUN, Piece, SeriesName
from mlbench.archive.reading import opened
from mlbench.evaluation.summary_metrics import metrics_of


def _piece(times: list[int], values: list[float], *, kept: bool = False) -> Piece:
    return Piece(array("q", times), array("d", values), kept=kept)


def test_the_last_value_of_a_metric_is_the_latest_one(tmp_path: Path) -> None:
    path = tmp_path / "first-7.mlbench"
    pieces = [
        # Prometheus has no two values of a millisecond. The archive has such values at the end.
        _piece([10, 20, 4000], [9.0, 8.0, 1.5]),
        _piece([15, 16], [70.0, math.nan], kept=True),
    ]
    late = [_piece([30], [3.0]), _piece([10], [1.0])]
    series = [(SeriesName("loss", "0"), iter(pieces)), (SeriesName("acc", "0"), iter(late))]
    archive.write(path, {RUN: {}}, series)
    with opened(path) as written:
        assert metrics_of(written) == {
            "acc": {"min": 1.0, "max": 3.0, "last": 3.0},
            "loss": {"min": 1.5, "max": 70.0, "last": 1.5},
        }
