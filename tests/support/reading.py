"""Read metrics, with a reader or through the API in each format."""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from falcon.testing import Result, TestClient

from mlbench_master.database.models import Run
from mlbench_master.reading.points import Points
from mlbench_master.reading.selection import NamedSeries, Selection
from mlbench_master.reading.series import SeriesReader, Source
from mlbench_master.recording.blocks import Note
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.timestamps import to_text
from tests.support.rows import TimeSeries, send

CPU = "container_cpu_usage_seconds_total"
OLD_US = 1_533_288_089_347_960
OLD = "2018-08-03T09:21:29.347960Z"


def get(api: TestClient, owner: object = "", **params: Any) -> Result:
    path = f"/api/metrics/{owner}/" if owner else "/api/metrics/"
    return api.simulate_get(path, params=params)


def get_run(api: TestClient, run: Run, **params: Any) -> Result:
    return get(api, run.id, metric_type="run", **params)


def point(time_us: int, value: str, **fields: Any) -> dict[str, Any]:
    """Return a point in its JSON form."""
    return {"date": to_text(time_us), "value": value, **fields}


def scrape(writer: RemoteWriter, pod: str, at_ms: int, value: float) -> None:
    labels = {"__name__": CPU, "pod": pod, "container": "worker"}
    send(writer, TimeSeries(labels, [(at_ms, value)]))


def opened(answer: Result) -> dict[str, Any]:
    """Return the files of a zip response, with JSON files decoded."""
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    return {
        name: json.loads(text) if name.endswith(".json") else text for name, text in files.items()
    }


def rows(answer: Result) -> list[list[str]]:
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.text, newline="")))


class StoredPoint(NamedTuple):
    """A value and its time, as text."""

    time_us: int
    value: str
    note: Note = Note()


def points_of(chunks: Iterable[Points]) -> list[StoredPoint]:
    return [
        StoredPoint(time_us, value, points.notes.get(i, Note()))
        for points in chunks
        for i, (time_us, value) in enumerate(
            zip(points.times_us.tolist(), points.values, strict=True)
        )
    ]


def to_dict(series: NamedSeries) -> dict[str, list[StoredPoint]]:
    return {name: points_of(chunks) for name, chunks in series}


def read(
    reader: SeriesReader,
    run: Run,
    selection: Selection = Selection(),  # noqa: B008
) -> dict[str, list[StoredPoint]]:
    """Read a run from its record."""
    return to_dict(reader.run(run.id, selection))


def read_published(
    reader: SeriesReader,
    run: Run,
    selection: Selection = Selection(),  # noqa: B008
) -> tuple[Source, dict[str, list[StoredPoint]]]:
    """Read a run as the API does, and return the source too."""
    source, series = reader.published(run, selection)
    return source, to_dict(series)


def values(points: Sequence[StoredPoint]) -> list[str]:
    return [point.value for point in points]
