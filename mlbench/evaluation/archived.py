"""The run of an archive: its rows, and its result, computed from its samples and nothing else.

Of an archive that is damaged, or whose run is invalid, an ArchiveError tells.
"""

from array import array
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial

from mlbench.archive import AUTOPSIES, ROWS, RUN, Archive, ArchiveError, Piece, SeriesName
from mlbench.contract.autopsy import Autopsy
from mlbench.contract.records import Manifest
from mlbench.contract.results import Result
from mlbench.contract.series import EXACT_INTEGERS, number_or_text, spell
from mlbench.evaluation.inputs import OWN_CRITERIA, Column, Columns, Criteria, RankRow, RunRow
from mlbench.evaluation.result import RunContext, evaluate, read_series


@contextmanager
def errors_of_archives() -> Iterator[None]:
    """Have what a description of no run causes, wherever it is used first, be an ArchiveError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ArchiveError(f"its run is invalid: {error!r}") from None


@errors_of_archives()
def context_of(archive: Archive, criteria: Criteria = OWN_CRITERIA) -> RunContext:
    """Return the run of an archive, which has ended, to be evaluated."""
    rows = archive.document(ROWS)
    run = RunRow.from_fields(rows["run"][0])
    ranks = [RankRow.from_fields(row) for row in rows["rank"]]
    listed = archive.document(AUTOPSIES) if AUTOPSIES in archive.members else ()
    asked = [Autopsy.from_fields(fields) for fields in listed]
    return RunContext(run, ranks, float(rows["run"][0]["finished_at"]), criteria, asked)


@errors_of_archives()
def recompute(archive: Archive, context: RunContext) -> Result:
    """Compute the result of an archive's run from its samples."""
    return evaluate(context, read_series(context, partial(_read, archive)))


@errors_of_archives()
def origin_of(archive: Archive) -> tuple[str, Manifest]:
    """Return the host of the master that sealed an archive, if that is said, and the manifest."""
    about = archive.document(RUN)
    return str(about.get("installation", "")), Manifest.from_fields(about["manifest"])


def _read(archive: Archive, names: Collection[str], since_us: int) -> Columns:
    columns = {
        (name.metric, name.rank): _column(archive, name, since_us)
        for name in archive.series
        if not name.pod and (name.metric in names or str(name) in names)
    }
    return {key: column for key, column in columns.items() if column.times_us}


def _column(archive: Archive, name: SeriesName, since_us: int) -> Column:
    """Read the numbers of a series, of which those that Prometheus did not hold come last."""
    times, values = array("q"), array("d")
    for piece in archive.read(name):
        for time_us, number in _numbers(piece):
            if time_us >= since_us:
                times.append(time_us)
                values.append(number)
    if not archive.series[name].kept:
        return Column(times, values)
    order = sorted(range(len(times)), key=times.__getitem__)
    return Column([times[i] for i in order], [values[i] for i in order])


def _numbers(piece: Piece) -> Iterator[tuple[int, float]]:
    for i, (time_us, value) in enumerate(zip(piece.times_us, piece.values, strict=True)):
        text = piece.more[i].text if i in piece.more else None
        # As the API has it: what it spells with more digits than a float has is no number.
        if text is None and abs(value) > EXACT_INTEGERS:
            text = spell(value)
        number = value if text is None else number_or_text(text)
        if isinstance(number, float):
            yield time_us, number
