"""Runs as Arrow tables: of an archive, of a set's file, or of a run that a master has.

``mlbench.open("digits-7.mlbench").to_pandas()`` has a row for each value that the run has recorded.
This needs pyarrow and NumPy: the extra ``report``.
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
from mlbench.contract.address import Address, parse_address
from mlbench.contract.errors import ApiError, MLBenchError, NotConnectedError
from mlbench.contract.records import Point, Run
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
    """A run with all that it has recorded."""

    run: Run
    _series: Mapping[SeriesName, "pa.Table"]
    """The columns ``time``, ``value`` and ``text`` of each series."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its metrics."""
        return tuple(dict.fromkeys(name.metric for name in self._series))

    def table(self, *metrics: str) -> "pa.Table":
        """Return a row for each value of these metrics, or of all, series after series.

        The columns are ``run`` (its name and id), ``rank`` (null where a value is of none),
        ``metric``, ``step`` and ``epoch`` (what the rank had recorded last by then, or null),
        ``time`` (microseconds, UTC), ``value`` (null for a text) and ``text`` (null for a number).

        Raises:
            MLBenchError: the run has no metric of that name.
        """
        for metric in metrics:
            if metric not in self.metrics:
                recorded = ", ".join(self.metrics) or "none"
                raise MLBenchError(f"run {self.run.id} has no metric {metric!r}; it has {recorded}")
        wanted = metrics or self.metrics
        # Columns of the same value and length share their memory.
        repeated = cache(_repeated)
        tables = [
            self._described(name, samples, repeated)
            for name, samples in self._series.items()
            if name.metric in wanted
        ]
        pa, _ = pyarrow()
        return pa.concat_tables(tables) if tables else _schema().empty_table()

    def _described(
        self, name: SeriesName, samples: "pa.Table", repeated: Callable[..., Any]
    ) -> "pa.Table":
        pa, _ = pyarrow()
        times = _microseconds(samples["time"])
        if (times[1:] < times[:-1]).any():
            samples = samples.sort_by("time")  # Prometheus's samples come before the kept ones.
        same = {
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
                value, kind = same[column.name], column.type
                if pa.types.is_dictionary(kind):  # of texts, each row has but a number
                    numbers = repeated(0, kind.index_type, len(samples))
                    repeats = pa.DictionaryArray.from_arrays(numbers, [value], safe=False)
                else:
                    repeats = repeated(value, kind, len(samples))
                columns[column.name] = repeats
        return pa.table([columns[name] for name in _schema().names], _schema())

    @cached_property
    def _progress(self) -> Mapping[str, "_Progress"]:
        """The steps and epochs of each rank."""
        ranks = {name.rank for name in self._series if name.rank}
        return {rank: _Progress.of(rank, self._series) for rank in ranks}


@dataclass(frozen=True)
class Opened:
    """The runs of a file, or one run of a master."""

    opened: Sequence[OpenedRun]

    @property
    def runs(self) -> tuple[Run, ...]:
        """What is known of each run: its order, state, times, and so on."""
        return tuple(one.run for one in self.opened)

    def __iter__(self) -> Iterator[OpenedRun]:
        return iter(self.opened)

    def table(self, *metrics: str) -> "pa.Table":
        """Return the rows of all runs; see ``OpenedRun.table``."""
        pa, _ = pyarrow()
        return pa.concat_tables([one.table(*metrics) for one in self.opened])

    def to_pandas(self, *metrics: str) -> Any:
        """Return the same as a data frame of pandas."""
        return self.table(*metrics).to_pandas()


def open_runs(source: str | int | Path, client: ApiClient | None = None) -> Opened:
    """Open the runs of a file, or a run by its id, its name, or the URL of its page.

    A run is asked for at ``client``, or else at the master that ``mlbench status`` finds. The
    master of a URL gets the token in the URL (``http://user:TOKEN@host/runs/9``), or the user's
    token if it is the master that ``mlbench status`` finds.

    Raises:
        ArchiveError: the file is not an archive, a digest in it differs, or pyarrow is missing.
        MLBenchError: there is no such file or run, or no master.
    """
    pyarrow()  # says how to install it
    path, wanted = Path(str(source)), str(source)
    if path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            return Opened(_read_archives(archives_in(path, Path(folder))))
    if path.suffix == SUFFIX:
        raise MLBenchError(f"there is no file {path}")
    if client is not None:
        return Opened([_ask(client, wanted)])
    url, page, run = wanted.partition(_PAGE)
    if not page:
        with ApiClient.from_home() as connected:
            return Opened([_ask(connected, wanted)])
    address = parse_address(url)
    try:
        with _connect(address) as connected:
            return Opened([_ask(connected, run.strip("/"))])
    except ApiError as error:
        if error.status != HTTPStatus.UNAUTHORIZED:
            raise
        raise MLBenchError(
            f"{address.url}: the token is missing or wrong. The token of another master is never "
            f"sent there: write one into the address (http://user:TOKEN@host{_PAGE}ID), or set "
            f"${names.ENV_URL} and ${names.ENV_TOKEN}"
        ) from None


def _connect(address: Address) -> ApiClient:
    """Connect to the master of a link, which gets a token of its own alone."""
    token = address.token
    with suppress(NotConnectedError):
        connection = find_connection()
        if token is None and parse_address(connection.url).url == address.url:
            token = connection.token
    return ApiClient(url=address.url, token=token or "")


def _ask(client: ApiClient, wanted: str) -> OpenedRun:
    run = client.find_run(wanted)
    if run is None:
        raise MLBenchError(f"there is no file and no run {wanted!r}")
    if run.archive is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{run.id}{SUFFIX}")
            with path.open("wb") as file:
                client.download_archive(run.id, file)
            return _read_archives([path])[0]
    points = client.get_run_metrics(run.id).result().value
    series = {SeriesName(*split_name(name)): _to_table(its) for name, its in points.items()}
    return OpenedRun(run, series)


def _to_table(points: Sequence[Point]) -> "pa.Table":
    pa, _ = pyarrow()
    values = [number_or_text(point.value) for point in points]
    columns = {
        "time": [datetime.fromisoformat(point.date) for point in points],
        "value": [value if isinstance(value, float) else None for value in values],
        "text": [value if isinstance(value, str) else None for value in values],
    }
    return pa.table(columns, pa.schema([_schema().field(name) for name in columns]))


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


def _repeated(value: object, kind: Any, length: int) -> Any:
    """Return a column that has a value, or null, so many times."""
    pa, _ = pyarrow()
    return pa.repeat(pa.scalar(value, kind), length)


@dataclass
class _Progress:
    """What a rank had recorded last of ``step`` and ``epoch`` at any time."""

    _recorded: Mapping[str, tuple["NDArray[Any]", "NDArray[Any]"]]
    """Times and values of each, in order of time."""
    _last: tuple["NDArray[Any]", dict[str, Any]] | None = field(default=None, init=False)

    @classmethod
    def of(cls, rank: str, series: Mapping[SeriesName, "pa.Table"]) -> "_Progress":
        """Find the steps and epochs of a rank."""
        recorded = {}
        for metric in (names.STEP, names.EPOCH):
            if (samples := series.get(SeriesName(metric, rank))) is not None:
                samples = samples.filter(samples["value"].is_valid()).sort_by("time")
                recorded[metric] = _microseconds(samples["time"]), samples["value"].to_numpy()
        return cls(recorded)

    def at(self, times: Any) -> dict[str, Any]:
        """Return the columns ``step`` and ``epoch`` of these times."""
        import numpy as np  # noqa: PLC0415

        pa, _ = pyarrow()
        when = _microseconds(times)
        # Metrics that a rank records together share their times.
        if self._last is None or not np.array_equal(self._last[0], when):
            columns = {}
            for metric, (recorded_at, values) in self._recorded.items():
                before = np.searchsorted(recorded_at, when, side="right") - 1
                if len(values):
                    columns[metric] = pa.array(
                        values[before].astype(np.int64), mask=before < 0, type=pa.int64()
                    )
            self._last = when, columns
        return self._last[1]


def _microseconds(times: Any) -> "NDArray[Any]":
    pa, _ = pyarrow()
    numbers: NDArray[Any] = times.cast(pa.int64()).to_numpy()
    return numbers
