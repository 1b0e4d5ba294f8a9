"""What ``GET /api/metrics/`` answers: which series, in which format."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from master.models import Run
from master.reading import archive, export
from master.reading.completeness import LostSamplesError
from master.reading.selection import Selection
from master.reading.series import NamedSeries, SeriesReader

FORMATS = ("json", "zip", "csv")


@dataclass(frozen=True)
class Answer:
    """What goes to the client. The first piece is made when it is taken, and so are the others."""

    pieces: Iterator[bytes]
    """At least one."""
    content_type: str
    file_name: str = ""
    """What to save it as; empty if it is to be shown."""


def run(reader: SeriesReader, found: Run, selection: Selection, form: str) -> Answer:
    """Answer with a run's series; as a zip file, with those of its pods beside."""
    if form == "zip":
        files = archive.in_folders([("", archive.run_files(reader, found, selection))])
        return _zip(files, found.name)
    return _plain(reader.run(found.id, selection), form)


def pod(reader: SeriesReader, name: str, selection: Selection, form: str) -> Answer:
    """Answer with a pod's series."""
    series = reader.pod(name, selection)
    if form == "zip":
        return _zip(archive.in_folders([("", archive.series_files(series))]), name)
    return _plain(series, form)


def all_runs(reader: SeriesReader, selection: Selection, form: str) -> Answer:
    """Answer with the series of each run, by its id; as a zip file, with a folder for each."""
    ids = [found.id for found in Run.select(Run.id).order_by(Run.id)]
    if form == "zip":
        found = (one for run_id in ids if (one := Run.get_or_none(Run.id == run_id)))
        files = archive.in_folders(
            (str(one.id), archive.or_words(archive.run_files(reader, one, selection)))
            for one in found
        )
        return _zip(files, "runs")
    return _everything("run", ((str(one), reader.run(one, selection)) for one in ids), form)


def all_pods(reader: SeriesReader, selection: Selection, form: str) -> Answer:
    """Answer with the series of each pod, by its name; as a zip file, with a folder for each."""
    everything = reader.pods(selection)
    if form == "zip":
        files = archive.in_folders(
            (name, archive.or_words(archive.series_files(series))) for name, series in everything
        )
        return _zip(files, "pods")
    return _everything("pod", everything, form)


def _plain(series: NamedSeries, form: str) -> Answer:
    return _csv(export.to_csv(series)) if form == "csv" else _json(export.to_json(series))


def _everything(kind: str, found: Iterable[tuple[str, NamedSeries]], form: str) -> Answer:
    everything = ((owner, _or_words(series)) for owner, series in found)
    if form == "csv":
        return _csv(export.all_to_csv(kind, everything))
    return _json(export.all_to_json(everything))


def _or_words(series: NamedSeries) -> NamedSeries | str:
    """Return the series, or a text if Prometheus has lost some: the others' can still be read."""
    try:
        first = next(series, None)
    except LostSamplesError as error:
        return str(error)
    return iter(()) if first is None else chain([first], series)


def _json(pieces: Iterator[bytes]) -> Answer:
    return Answer(export.in_blocks(pieces), "application/json")


def _csv(pieces: Iterator[bytes]) -> Answer:
    return Answer(export.in_blocks(pieces), "text/csv; charset=utf-8")


def _zip(files: archive.FilesInFolders, name: str) -> Answer:
    pieces = export.in_blocks(archive.to_zip(files))
    return Answer(pieces, "application/zip", f"metrics_{name}.zip")
