"""``mlbench export``, ``import`` and ``publish``: runs as files, for others to see and check."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps, loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from mlbench.archive import ANNOTATIONS_SUFFIX, SUFFIX, bundle, file_stem, signature
from mlbench.cli.common import (
    JsonOption,
    RunOrSetArgument,
    UsageError,
    connected,
    find_run_or_set,
    print_outcome,
    wait_until_sealed,
    writing,
)
from mlbench.contract.atomic_files import replacing
from mlbench.contract.distribution import how_to_install
from mlbench.contract.errors import ApiError
from mlbench.contract.humanize import count
from mlbench.contract.records import Annotations, Run, RunSet
from mlbench.evaluation import sandbox

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Files written by `mlbench export`.")
]


def export(
    run_name: RunOrSetArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write.",
            show_default=f"NAME{SUFFIX}",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--sign", metavar="KEY", help="SSH key to sign the file with, into FILE.sig."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write the archive of a run or of a benchmark set to a file."""
    with connected() as client, TemporaryDirectory() as folder:
        run_set = find_run_or_set(client, run_name)
        if isinstance(run_set, Run):
            stem, runs = run_set.resource_name, [run_set]
        else:
            if not run_set.counted:
                raise UsageError(f"benchmark set {run_name}: no run that counts yet")
            # All ended runs, including those that do not count.
            ended = [t.run_id for t in run_set.trials if not t.deleted and not t.active]
            stem = file_stem(run_set.name)
            runs = [client.get_run(run_id).result().value for run_id in ended]
        target = output or Path(f"{stem}{SUFFIX}")
        files = []
        for run in runs:
            wait_until_sealed(client, run)
            files.append(Path(folder) / f"{run.id}{SUFFIX}")
            with files[-1].open("wb") as archive:
                client.download_archive(run.id, archive)
        with writing(target), replacing(target.resolve()) as file:
            source = files[0]
            if isinstance(run_set, RunSet):
                source = Path(folder) / "set"
                archives = {run.id: path for run, path in zip(runs, files, strict=True)}
                bundle.write(source, archives, run_set)
            with source.open("rb") as archive:
                shutil.copyfileobj(archive, file)
        words = _write_annotations(target, runs)
        signed = signature.sign(target, key) if key else None
    summary = {"file": str(target), "runs": [run.id for run in runs]}
    lines = [f"{target}: {count(len(runs), 'run')}"]
    if words:
        summary["words"] = str(words)
        lines.append(f"{words}: titles, tags and notes")
    if signed:
        summary["signature"] = str(signed)
        lines.append(f"{signed}: signature")
    print_outcome(summary, *lines, as_json=json)


def import_(files: FilesArgument, json: JsonOption = False) -> None:
    """Import exported runs, read only."""
    annotations_of = {
        job: words for file in files for job, words in _read_annotations(file).items()
    }
    with connected() as client, _archives(files) as archives:
        imported, lines = [], []
        for archive in archives:
            try:
                with archive.open("rb") as file:
                    answer = client.import_archive(file).value
            except ApiError as error:  # the API does not know the name of the file
                message = str(error).replace("body: it ", f"{archive} ")
                raise ApiError(error.status, message) from None
            run, fields, words = answer.run, answer.fields, annotations_of.get(answer.run.job_id)
            if answer.added and words:
                run = client.edit_run(run.id, **asdict(words)).result().value
                fields = {**fields, "run": run.fields}
            outcome = "imported" if answer.added else "exists already"
            origin = f", {run.origin}" if run.origin else ""
            imported.append(fields)
            lines.append(f"run {run.id} ({run.title}{origin}) {outcome}")
    print_outcome(imported, *lines, as_json=json)


def publish(
    files: FilesArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the site.")
    ],
    json: JsonOption = False,
) -> None:
    """Build a static website from archives.

    It contains results, curves, manifests and commands to repeat the runs. Any web server can serve
    it.

    To add archives to an existing site, name the site's archives too: SITE/archives/*.
    """
    with _archives(files) as archives:
        try:
            from mlbench_publish import site  # noqa: PLC0415 - in the extra `report`
        except ImportError as error:
            raise UsageError(f"{error.name} is required. Run {how_to_install('report')}.") from None
        # By digest: the same archive twice is one result.
        entries = {entry.digest: entry for entry in site.read_entries(archives)}
        sets = [
            site.SetEntry(file, run_set, *sandbox.compare([file]))
            for file in files
            if (run_set := bundle.read_set(file))
        ]
        with writing(output):
            site.write([*entries.values()], sets, output)
    page = output / "index.html"
    fields = {"page": str(page), "runs": len(entries)}
    print_outcome(fields, f"{page}: {count(len(entries), 'run')}", as_json=json)


def _annotations_file(file: Path) -> Path:
    """Return the path of the titles, tags and notes of an exported file."""
    return file.with_name(f"{file.name}{ANNOTATIONS_SUFFIX}")


def _write_annotations(file: Path, runs: Iterable[Run]) -> Path | None:
    """Write titles, tags and notes of runs by job id; return the file, None without annotations."""
    annotations_of = {
        run.job_id: asdict(run.annotations) for run in runs if run.annotations != Annotations()
    }
    target = _annotations_file(file)
    with writing(target):
        if not annotations_of:
            target.unlink(missing_ok=True)
            return None
        target.write_text(dumps(annotations_of, indent=1), encoding="utf-8")
    return target


def _read_annotations(file: Path) -> dict[str, Annotations]:
    """Return the titles, tags and notes of an exported file, by job id."""
    source = _annotations_file(file)
    try:
        annotations_of = loads(source.read_bytes())
        return {job: Annotations.from_fields(words) for job, words in annotations_of.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{source}: cannot read titles, tags and notes: {error}") from None


@contextmanager
def _archives(files: Iterable[Path]) -> Iterator[list[Path]]:
    with TemporaryDirectory() as folder:
        yield [archive for file in files for archive in bundle.archives_in(file, Path(folder))]
