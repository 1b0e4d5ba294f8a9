"""Files of benchmark sets: zip files that contain the archives of a set's runs unchanged.

``set.json`` has the set with its ledger, and the SHA-256 of each archive. The zip file's comment is
the SHA-256 of all bytes before it, as in an archive.
"""

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mlbench.archive import (
    DIGEST_BYTES,
    SUFFIX,
    ArchiveError,
    digest_before_comment,
    opened,
    put_digest,
    read_bounded,
)
from mlbench.archive.former_names import with_current_names
from mlbench.contract.records import RunSet

_SET = "set.json"
_DIGESTS = "archives"
"""Key in ``set.json`` for the digest of each archive, by the id of its run."""


def write(target: Path, archives: Mapping[int, Path], run_set: RunSet) -> None:
    """Write a file with a set and the archives of its runs, by run id."""
    digests = {run_id: _digest_of(archive) for run_id, archive in archives.items()}
    with target.open("w+b") as content:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as bundle:
            bundle.writestr(_SET, json.dumps({"set": run_set.to_fields(), _DIGESTS: digests}))
            for archive in archives.values():
                bundle.write(archive, archive.name)
            bundle.comment = b"0" * DIGEST_BYTES
        put_digest(content)


def read_set(file: Path) -> RunSet | None:
    """Return the set in a file; None for an archive. Raises ArchiveError for a malformed set."""
    content = _read_document(file)
    try:
        return RunSet.from_fields(content["set"]) if content else None
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(f"{file}: its set: {error}") from None


def check(file: Path, archives: Sequence[Path]) -> list[str]:
    """Return the problems of a set's file that contains these archives, a sentence each.

    Checks that the file is unchanged, and that it has every run of the ledger that is not deleted.
    """
    document, run_set = _read_document(file), read_set(file)
    if document is None or run_set is None:
        return [f"{file} has no set"]
    with file.open("rb") as content, zipfile.ZipFile(content) as bundle:
        if digest_before_comment(content).encode() != bundle.comment:
            return ["the set's file has changed since it was written, or is of an earlier version"]
    listed = {str(run_id): digest for run_id, digest in document.get(_DIGESTS, {}).items()}
    digests = [_digest_of(archive) for archive in archives]
    problems = [
        f"the archive of run {run_id} is missing, or another one"
        for run_id, digest in listed.items()
        if digest not in digests
    ]
    trials = [trial for slot in run_set.slots for trial in slot.trials]
    problems += [
        f"run {trial.run_id} of slot {trial.slot} has no archive"
        for trial in trials
        if not trial.deleted and not trial.active and str(trial.run_id) not in listed
    ]
    if len(digests) != len(listed):
        problems.append(f"it has {len(digests)} archives, and lists {len(listed)}")
    return problems


def _digest_of(file: Path) -> str:
    """Return the digest of an archive; empty if the file is not an archive."""
    with suppress(ArchiveError), opened(file) as archive:
        return archive.digest
    return ""


def _read_document(file: Path) -> Any:
    """Return the content of ``set.json``; None for an archive."""
    with _reading(file) as bundle:
        if _SET not in bundle.namelist():
            return None
        # 10,000 runs take about 5 MB. Parsed JSON needs up to twenty times as much memory.
        return with_current_names(json.loads(read_bounded(bundle, _SET, 16 << 20)))


def archives_in(file: Path, folder: Path) -> list[Path]:
    """Copy the archives in a file to a folder, and return them; an archive is returned itself."""
    archives = []
    with _reading(file) as bundle:
        members = [member for member in bundle.infolist() if member.filename.endswith(SUFFIX)]
        # Members may overlap: a small malicious file could list one of its archives 10,000 times.
        if sum(member.compress_size for member in members) > file.stat().st_size:
            raise ArchiveError(f"{file}: its archives have more bytes than the file")
        for i, member in enumerate(members):
            # A compressed member could grow to any size.
            if member.compress_type != zipfile.ZIP_STORED:
                raise ArchiveError(f"{file}: {member.filename} is compressed")
            archives.append(folder / f"{file.stem}-{i}{SUFFIX}")
            with bundle.open(member) as source, archives[-1].open("wb") as target:
                shutil.copyfileobj(source, target)
    return archives or [file]


@contextmanager
def _reading(file: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file. Raises ArchiveError if it is unreadable or damaged."""
    try:
        with zipfile.ZipFile(file) as bundle:
            yield bundle
    except ArchiveError:
        raise
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zipfile raises exceptions of many kinds, json a RecursionError
        raise ArchiveError(f"{file} is no archive, or a damaged one: {error}") from None
