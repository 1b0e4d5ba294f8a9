"""``mlbench backup`` and ``restore``: all runs of a local stack in one file, and back.

A backup is a zip file of the database, the archives, the tokens and Prometheus's data, with a list
of their SHA-256 digests. The database is copied first, in one transaction of SQLite. The archives
and Prometheus's blocks follow, because they never change once they are written: a backup may have
more of them than its database knows, but never less.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Annotated

import httpx
import typer

from mlbench.cli.common import JsonOption, UsageError, print_outcome, warn, writing
from mlbench.contract.atomic_files import replacing
from mlbench.contract.distribution import own_version
from mlbench.contract.errors import MLBenchError
from mlbench.contract.humanize import count
from mlbench.contract.names import ENV_DATABASE_URL, ENV_HOME
from mlbench.contract.records.record import Record
from mlbench.local import launch
from mlbench.local.home import Home

FORMAT = 1
_INDEX = "backup.json"
_PIECE = 1 << 20
# Tokens of users and jobs, and the number of workers. All other files are created again.
_SMALL_FILES = ("token", "agent-secret", "pool.json")


class BackupError(MLBenchError):
    """A backup cannot be written or restored."""


# Errors of opening and reading a damaged zip file.
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Backup(Record):
    """Description of a backup, which is its last member."""

    format: int
    created_at: str
    version: str
    """Version of MLBench that wrote it."""
    runs: int
    archives: int
    has_prometheus: bool
    """Whether it has Prometheus's data, which dashboards and PromQL need."""
    missing_archives: tuple[str, ...]
    """Archives that the database names, but that did not exist: of runs deleted meanwhile."""
    digests: Mapping[str, str]
    """SHA-256 of each other member, by its path in the home folder."""


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, such as runs.zip.")],
    json: JsonOption = False,
) -> None:
    """Write the runs of the local stack to a file, even during runs.

    Active runs continue. After a restore, they have failed as if the machine had lost power now.
    """
    home = Home.from_environ()
    if os.environ.get(ENV_DATABASE_URL) or os.environ.get("MLBENCH_ARCHIVE"):
        raise UsageError(
            f"${ENV_DATABASE_URL}, $MLBENCH_ARCHIVE: a backup contains the home folder only. Copy "
            "the database with pg_dump first, then the archives."
        )
    if not home.database.exists():
        raise UsageError(f"{home.root}: no runs here. ${ENV_HOME} names the home folder.")
    with writing(file, ""), replacing(file, mode=0o600) as draft:
        written = write_backup(home, draft)
        size = draft.tell()
    if not written.has_prometheus:
        warn(
            "Prometheus's data is not in the backup, because no Prometheus of this home folder "
            "responds. Results, curves and downloads of ended runs do not need it; dashboards and "
            "PromQL do."
        )
    if written.missing_archives:
        warn(f"archives not found: {', '.join(written.missing_archives)}")
    text = f"{count(written.runs, 'run')}, {count(written.archives, 'archive')}, {size:,} B"
    fields = {"file": str(file), "size": size, **written.to_fields(), "digests": None}
    print_outcome(fields, f"{file}: {text}", as_json=json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Backup to restore.")],
    json: JsonOption = False,
) -> None:
    """Restore a backup into a new home folder, or into a volume without files.

    $MLBENCH_HOME names the folder. Each file is checked against its digest, and the
    database by SQLite, before the folder or the database appears.
    """
    home = Home.from_environ()
    # A new volume has folders, such as lost+found and the mount point of another volume.
    if launch.running_supervisor(home) or not all(path.is_dir() for path in home.root.rglob("*")):
        raise UsageError(
            f"{home.root}: is not empty. Let ${ENV_HOME} name a new folder, or move this one away."
        )
    try:
        found = read_backup(file, home)
    except _UNREADABLE as error:
        raise BackupError(f"{file}: cannot be restored ({error})") from None
    text = f"{count(found.runs, 'run')}, {count(found.archives, 'archive')} of {found.created_at}"
    fields = {"home": str(home.root), **found.to_fields(), "digests": None}
    print_outcome(fields, f"{home.root}: {text}. `mlbench up` starts the stack.", as_json=json)


def write_backup(home: Home, target: IO[bytes]) -> Backup:
    """Write a backup of a home folder, whose stack may be running.

    Raises:
        BackupError: the database cannot be read.
        OSError: a file cannot be read or written.
    """
    digests: dict[str, str] = {}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as members:

        def add(path: Path, name: str) -> None:
            digest = hashlib.sha256()
            with path.open("rb") as source, members.open(name, "w", force_zip64=True) as member:
                while piece := source.read(_PIECE):
                    digest.update(piece)
                    member.write(piece)
            digests[name] = digest.hexdigest()

        # In the folder of the database, because this disk has enough space if any disk has.
        with TemporaryDirectory(dir=home.root, prefix=".backup-") as folder:
            copy = Path(folder) / home.database.name
            try:
                with (
                    closing(sqlite3.connect(f"{home.database.as_uri()}?mode=ro", uri=True)) as own,
                    closing(sqlite3.connect(copy)) as other,
                ):
                    own.backup(other)
            except sqlite3.Error as error:
                raise BackupError(f"{home.database}: cannot be copied ({error})") from None
            runs, archives = _contents(copy)
            add(copy, home.database.name)
        missing = []
        for name in archives:
            try:
                add(home.archive / name, f"archive/{name}")
            except FileNotFoundError:
                missing.append(name)
        for name in _SMALL_FILES:
            if (home.root / name).exists():
                add(home.root / name, name)
        with _prometheus_data(home) as data:
            if data is not None:
                for path in sorted(data.rglob("*")):
                    if path.is_file() and path.name not in {"lock", "queries.active"}:
                        add(path, f"prometheus/data/{path.relative_to(data).as_posix()}")
        created = datetime.now(UTC).isoformat(timespec="seconds")
        written = Backup(
            FORMAT,
            created,
            own_version(),
            runs,
            len(archives) - len(missing),
            data is not None,
            tuple(missing),
            digests,
        )
        members.writestr(_INDEX, json.dumps(written.to_fields(), indent=1))
    return written


def read_backup(file: Path, home: Home) -> Backup:
    """Restore a backup as a home folder that does not exist yet, or has no files.

    Raises:
        BackupError: the file is not a backup, is damaged, or is newer than this version.
        OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError: it
            cannot be read, or the folder cannot be written.
    """
    with zipfile.ZipFile(file) as members:
        try:
            fields = json.loads(members.read(_INDEX))
            if fields["format"] > FORMAT:
                raise BackupError(f"{file}: was written by a newer version ({fields['version']})")
            found = Backup.from_fields(fields)
        except (KeyError, TypeError, ValueError):
            raise BackupError(f"{file}: is not a backup of `mlbench backup`") from None
        paths = map(PurePosixPath, found.digests)
        leave = any(p.is_absolute() or ".." in p.parts or "\\" in str(p) for p in paths)
        if leave or {*members.namelist()} - {_INDEX} != found.digests.keys():
            raise BackupError(f"{file}: is damaged: its members are not those that it lists")
        # A folder that exists may be the mount point of a volume, which cannot be renamed. Its
        # database comes last: without a database, the folder has no runs.
        in_place = home.root.exists()
        parent = home.root if in_place else home.root.parent
        parent.mkdir(parents=True, exist_ok=True)
        with (
            TemporaryDirectory(dir=parent, prefix=f".{home.root.name}-") as folder,
            ExitStack() as undo,
        ):
            draft = Home(Path(folder) / "home")
            draft.make()
            place = home if in_place else draft
            for name, digest in found.digests.items():
                path = (draft if name == home.database.name else place).root / name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                undo.callback(path.unlink, missing_ok=True)
                with members.open(name) as member, path.open("xb") as target:
                    path.chmod(0o600)
                    shutil.copyfileobj(member, target, _PIECE)
                with path.open("rb") as written:
                    if hashlib.file_digest(written, "sha256").hexdigest() != digest:
                        raise BackupError(f"{file}: is damaged: {name} does not match its digest")
            absent = {*_contents(draft.database)[1]} - {p.name for p in place.archive.glob("*")}
            if absent != {*found.missing_archives}:
                raise BackupError(f"{file}: is damaged: it has not the archives that it names")
            if in_place:
                draft.database.rename(home.database)
            else:
                draft.root.rename(home.root)
            undo.pop_all()
    return found


def _contents(database: Path) -> tuple[int, list[str]]:
    """Return the number of runs of a database, and the names of the archives that it refers to."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
            [[verdict]] = opened.execute("PRAGMA quick_check(1)")
            if verdict != "ok":
                raise BackupError(f"{database}: is damaged ({verdict})")
            [[runs]] = opened.execute("SELECT count(*) FROM run")
            rows = opened.execute(
                "SELECT archive FROM run WHERE archive > '' UNION "
                "SELECT json_extract(added, '$.archive') FROM run WHERE added IS NOT NULL"
            )
            return runs, sorted(name for (name,) in rows if name)
    except sqlite3.Error as error:
        raise BackupError(f"{database}: cannot be read ({error})") from None


@contextmanager
def _prometheus_data(home: Home) -> Iterator[Path | None]:
    """Yield a folder with Prometheus's data that does not change; None if it does not respond."""
    data = home.prometheus / "data"
    # A running stack may use an existing Prometheus instead of starting one.
    is_unchanging = not launch.running_supervisor(home)
    with suppress(MLBenchError):
        is_unchanging |= home.read_connection().existing_prometheus
    if is_unchanging:
        yield data if data.is_dir() else None
        return
    try:
        url = home.read_connection().prometheus_url
        response = httpx.post(f"{url}/api/v1/admin/tsdb/snapshot", timeout=120.0)
        snapshot = (
            data / "snapshots" / Path(response.raise_for_status().json()["data"]["name"]).name
        )
    except (httpx.HTTPError, MLBenchError, KeyError, ValueError):
        yield None
        return
    try:
        yield snapshot
    finally:
        # Its files are links to Prometheus's blocks, which would stay on the disk for ever.
        shutil.rmtree(snapshot, ignore_errors=True)
