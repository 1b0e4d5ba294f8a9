"""Recorded values of runs as Arrow tables, from an archive, a set's file, or a master.

``mlbench.open("digits-7.mlbench").to_pandas()`` has a row for each value that the run recorded. It
needs pyarrow and NumPy, the extra ``report``.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.archive import RUN, SUFFIX, SeriesName, opened, pyarrow
from mlbench.archive.bundle import archives_in
from mlbench.client import ApiClient
from mlbench.contract import names
from mlbench.contract.address import parse_address
from mlbench.contract.errors import ApiError, MLBenchError, NotConnectedError
from mlbench.contract.records import Run
from mlbench.contract.series import number_or_text, split_name
from mlbench.evaluation.sandbox import check_digests
from mlbench.evaluation.verification import errors_of_archives
from mlbench.local.discovery import find_connection

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_PAGE = "/runs/"


@dataclass(frozen=True)
class OpenedRun:
    """A run with all values that it recorded."""

    run: Run
    _series: Mapping[SeriesName, "pa.Table"]
    """Columns ``time``, ``value`` and ``text`` of each series."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the run's metrics."""
        return tuple(dict.fromkeys(name.metric for name in self._series))

    def table(self, *metrics: str) -> "pa.Table":
        """Return a row for each value of these metrics, or of all metrics, series after series.

        The columns are ``run`` (name and id), ``rank``, ``metric``, ``step``, ``epoch``, ``time``
        (microseconds, UTC), ``value`` and ``text``. A value without a rank has a null rank. Step
        and epoch are the last ones that the rank recorded before the value, or null. A text has a
        null value, and a number a null text.

        Raises:
            MLBenchError: the run has no metric of that name.
        """
        for metric in metrics:
            if metric not in self.metrics:
                recorded = ", ".join(self.metrics) or "none"
                raise MLBenchError(f"run {self.run.id} has no metric {metric!r}; it has {recorded}")
        pa, _ = pyarrow()

        @cache  # columns with the same value and length share their memory
        def repeat(value: object, kind: Any, length: int) -> Any:
            return pa.repeat(pa.scalar(value, kind), length)

        tables = [
            self._add_columns(name, samples, repeat)
            for name, samples in self._series.items()
            if name.metric in (metrics or self.metrics)
        ]
        return pa.concat_tables(tables) if tables else _schema().empty_table()

    def _add_columns(
        self, name: SeriesName, samples: "pa.Table", repeat: Callable[..., Any]
    ) -> "pa.Table":
        """Return the samples of a series with all columns of the schema."""
        pa, _ = pyarrow()
        times = _microseconds(samples["time"])
        if (times[1:] < times[:-1]).any():
            # An archive has samples that Prometheus stores before samples that it cannot store.
            samples = samples.sort_by("time")
        constants = {
            "run": f"{self.run.resource_name}-{self.run.id}",
            "rank": int(name.rank) if name.rank else None,
            "metric": name.metric,
            **dict.fromkeys((names.STEP, names.EPOCH)),
        }
        progress = self._progress.get(name.rank)
        columns = dict(zip(samples.column_names, samples.columns, strict=True))
        columns |= progress.at(samples["time"]) if progress else {}
        for column in _schema():
            if column.name not in columns:
                value, kind = constants[column.name], column.type
                if pa.types.is_dictionary(kind):  # the text once, and an index in each row
                    indices = repeat(0, kind.index_type, len(samples))
                    array = pa.DictionaryArray.from_arrays(indices, [value], safe=False)
                else:
                    array = repeat(value, kind, len(samples))
                columns[column.name] = array
        return pa.table([columns[name] for name in _schema().names], _schema())

    @cached_property
    def _progress(self) -> Mapping[str, "_Progress"]:
        """Steps and epochs of each rank."""
        ranks = {name.rank for name in self._series if name.rank}
        return {rank: _Progress.of(rank, self._series) for rank in ranks}


@dataclass(frozen=True)
class Opened:
    """The runs of a file, or one run of a master."""

    opened: Sequence[OpenedRun]

    @property
    def runs(self) -> tuple[Run, ...]:
        """Description of each run: settings, state, times, and so on."""
        return tuple(run_data.run for run_data in self.opened)

    def __iter__(self) -> Iterator[OpenedRun]:
        return iter(self.opened)

    def table(self, *metrics: str) -> "pa.Table":
        """Return the rows of all runs; see ``OpenedRun.table``."""
        pa, _ = pyarrow()
        return pa.concat_tables([run_data.table(*metrics) for run_data in self.opened])

    def to_pandas(self, *metrics: str) -> Any:
        """Return the rows of ``table`` as a pandas data frame."""
        return self.table(*metrics).to_pandas()


def open_runs(source: str | int | Path, client: ApiClient | None = None) -> Opened:
    """Open the runs of a file, or a run by its id, its name, or the URL of its page.

    A run is requested from ``client``, or else from the master that ``mlbench status`` finds. The
    master of a URL gets the token in the URL (``http://user:TOKEN@host/runs/9``), or the user's
    token if it is the master that ``mlbench status`` finds.

    Raises:
        ArchiveError: the file is not an archive, a digest in it differs, or pyarrow is missing.
        MLBenchError: the file, the run or the master does not exist.
    """
    pyarrow()  # raises an error with installation instructions if it is missing
    path, name = Path(str(source)), str(source)
    if path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            return Opened(_read_archives(archives_in(path, Path(folder))))
    if path.suffix == SUFFIX:
        raise MLBenchError(f"file {path} not found")
    if client is not None:
        return Opened([_load_run(client, name)])
    url, page, run = name.partition(_PAGE)
    if not page:
        with ApiClient.from_home() as connected:
            return Opened([_load_run(connected, name)])
    address = parse_address(url)
    token = address.token
    with suppress(NotConnectedError):
        connection = find_connection()
        # The user's token is sent to the user's own master only.
        if token is None and parse_address(connection.url).url == address.url:
            token = connection.token
    try:
        with ApiClient(url=address.url, token=token or "") as connected:
            return Opened([_load_run(connected, run.strip("/"))])
    except ApiError as error:
        if error.status != HTTPStatus.UNAUTHORIZED:
            raise
        raise MLBenchError(
            f"{address.url}: the token is missing or wrong. The token of another master is never "
            f"sent there: write one into the address (http://user:TOKEN@host{_PAGE}ID), or set "
            f"${names.ENV_URL} and ${names.ENV_TOKEN}"
        ) from None


def _load_run(client: ApiClient, name: str) -> OpenedRun:
    """Load a run from its archive, or from the master's series if it has no archive yet."""
    run = client.find_run(name)
    if run is None:
        raise MLBenchError(f"no such file or run: {name!r}")
    if run.archive is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{run.id}{SUFFIX}")
            with path.open("wb") as file:
                client.download_archive(run.id, file)
            return _read_archives([path])[0]
    pa, _ = pyarrow()
    tables = {}
    # Like an archive, with the values that a restart discarded.
    series = client.get_run_metrics(run.id, lineage="all", exact=True).result().value
    for name_of_series, points in series.items():
        values = [number_or_text(point.value) for point in points]
        columns = {
            "time": [datetime.fromisoformat(point.date) for point in points],
            "value": [value if isinstance(value, float) else None for value in values],
            "text": [value if isinstance(value, str) else None for value in values],
        }
        schema = pa.schema([_schema().field(column) for column in columns])
        tables[SeriesName(*split_name(name_of_series))] = pa.table(columns, schema)
    return OpenedRun(run, tables)


def _read_archives(paths: Sequence[Path]) -> list[OpenedRun]:
    check_digests(paths)
    runs = []
    for path in paths:
        with opened(path) as archive, errors_of_archives():
            run = Run.from_fields(archive.document(RUN)["run"])
            runs.append(OpenedRun(run, archive.tables()))
    return runs


@cache
def _schema() -> "pa.Schema":
    pa, _ = pyarrow()
    names_of = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            ("run", names_of),
            ("rank", pa.int32()),
            ("metric", names_of),
            *((name, pa.int64()) for name in (names.STEP, names.EPOCH)),
            ("time", pa.timestamp("us", "UTC")),
            ("value", pa.float64()),
            ("text", names_of),
        ]
    )


@dataclass
class _Progress:
    """The last ``step`` and ``epoch`` that a rank had recorded at any time."""

    _recorded: Mapping[str, tuple["NDArray[Any]", "NDArray[Any]"]]
    """Times and values of ``step`` and ``epoch``, in order of time."""
    _last: tuple["NDArray[Any]", dict[str, Any]] | None = field(default=None, init=False)

    @classmethod
    def of(cls, rank: str, series: Mapping[SeriesName, "pa.Table"]) -> "_Progress":
        """Return the steps and epochs of a rank."""
        recorded = {}
        for metric in (names.STEP, names.EPOCH):
            if (samples := series.get(SeriesName(metric, rank))) is not None:
                samples = samples.filter(samples["value"].is_valid()).sort_by("time")
                recorded[metric] = _microseconds(samples["time"]), samples["value"].to_numpy()
        return cls(recorded)

    def at(self, times: Any) -> dict[str, Any]:
        """Return the columns ``step`` and ``epoch`` at these times."""
        import numpy as np  # noqa: PLC0415

        pa, _ = pyarrow()
        times_us = _microseconds(times)
        # Metrics that a rank records together have the same times, so the last result is cached.
        if self._last is None or not np.array_equal(self._last[0], times_us):
            columns = {}
            for metric, (recorded_at, values) in self._recorded.items():
                before = np.searchsorted(recorded_at, times_us, side="right") - 1
                if len(values):
                    columns[metric] = pa.array(
                        values[before].astype(np.int64), mask=before < 0, type=pa.int64()
                    )
            self._last = times_us, columns
        return self._last[1]


def _microseconds(times: Any) -> "NDArray[Any]":
    pa, _ = pyarrow()
    numbers: NDArray[Any] = times.cast(pa.int64()).to_numpy()
    return numbers
