"""Reading what ranks left in their output folders; of an imported run, from its archive."""

from collections.abc import Iterator
from typing import Any

from mlbench.archive import RUN, file_member
from mlbench.contract.output import MAX_BYTES, OutputList, is_name
from mlbench.contract.records import RunFile
from mlbench_master.database.models import Chunk, Profile, Run, Stream, run_owner
from mlbench_master.errors import NotFoundError
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording import streams
from mlbench_master.recording.streams import FILES

_LEFT_OUT = f"the files of the attempt have more than {MAX_BYTES >> 20} MiB in all"
_LOST = "it did not come from its rank, which was lost"


_Place = tuple[Stream, int] | Profile
"""Location of a file: a stream and an offset in it, or a profile."""


def find(archives: ArchiveStore, run: Run, attempt: int) -> list[RunFile]:
    """Return the files of an attempt, by rank and name."""
    if not run.origin:
        return [file for file, _ in stored(run, attempt=attempt)]
    with archives.open(str(run.archive)) as archive:
        listed = listed_in(archive.document(RUN))
    return [file for file in listed if file.attempt == attempt]


def read(archives: ArchiveStore, run: Run, attempt: int, rank: int, name: str) -> bytes:
    """Return the content of a file.

    Raises:
        NotFoundError: there is none of this name, or the master does not hold it.
    """
    places: dict[str, tuple[RunFile, _Place | None]]
    if run.origin:
        listed = find(archives, run, attempt)
        places = {file.name: (file, None) for file in listed if file.rank == rank}
    else:
        found = stored(run, attempt=attempt, rank=rank)
        places = {file.name: (file, place) for file, place in found}
    if name not in places:
        raise NotFoundError(f"file: rank {rank} left none of this name; there is a list")
    file, place = places[name]
    if file.left:
        raise NotFoundError(f"file: it is at {file.path} on the rank's machine: {file.left}")
    if place is not None:
        return _read(file, place)
    with archives.open(str(run.archive)) as archive:
        return archive.text(file_member(attempt, rank, name))


def listed_in(document: Any) -> list[RunFile]:
    """Return the files that an archive's description of its run lists; ValueError if malformed."""
    listed = [RunFile.from_fields(fields) for fields in document.get("files", [])]
    if not all(is_name(file.name) for file in listed):
        raise ValueError("the name of a file leads out of its folder")
    return listed


def stored(run: Run, **of: int) -> Iterator[tuple[RunFile, _Place]]:
    """Yield the files of a run, profiles among them, with where each is.

    ``of`` may name an attempt and a rank.
    """
    profiles = set()
    for row in Profile.of_run(run, **of):
        if row.file:
            profiles.add(row.file)
            yield RunFile(row.rank, row.attempt, row.file, row.size, row.sha256, None, ""), row
    packs = Stream.select().where(Stream.owner == run_owner(run.id), Stream.name == FILES)
    for stream in list(packs.filter(**of).order_by(Stream.attempt, Stream.rank)):
        first = Chunk.get_or_none(Chunk.stream == stream, Chunk.offset == 0)
        line = bytes(first.data) if first else b""
        try:
            listed = OutputList.read(line)
        except ValueError:
            continue  # none has come, or no agent has sent it
        end = stream.gap_start if stream.gap_end else stream.size
        start = len(line)
        for file, position in listed.positions():
            if file.name in profiles:
                continue
            left = file.left
            if not left and start + position + file.size > end:
                left = _LEFT_OUT if stream.gap_end else _LOST
            path = f"{listed.folder}/{file.name}" if left else None
            its = (stream.rank, stream.attempt, file.name, file.size, file.sha256, path, left)
            yield RunFile(*its), (stream, start + position)


def contents(run: Run) -> Iterator[tuple[RunFile, bytes]]:
    """Yield the files that the master holds of all attempts, with their contents."""
    for file, place in stored(run):
        if not file.left:
            yield file, _read(file, place)


def _read(file: RunFile, place: _Place) -> bytes:
    if isinstance(place, Profile):
        return bytes(Profile.get_by_id(place.get_id()).content or b"")
    stream, start = place
    return streams.read(stream, start, start + file.size)
