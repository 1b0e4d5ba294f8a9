"""``mlbench verify``: check that archives and Prometheus contain all samples of a run."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Annotated

import typer

from mlbench.archive import RUN, bundle, opened, signature
from mlbench.cli.common import (
    FAILED,
    JsonOption,
    UsageError,
    connected,
    find_run,
    out,
    print_json,
    wait_until_sealed,
    warn,
)
from mlbench.contract import names
from mlbench.contract.errors import NotConnectedError
from mlbench.contract.records import Verification
from mlbench.evaluation import sandbox
from mlbench.evaluation.official_rules import check_ledger
from mlbench.local.discovery import find_connection
from mlbench.local.stack_services import find_prometheus

# Escapes in labels of Prometheus's text format.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def verify(
    run_name: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE", help="Id or name of a run, or a file written by `mlbench export`."
        ),
    ],
    blocks: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Prometheus data folder into which to write the archive's samples as blocks.",
        ),
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Accepted signers of the file, one `NAME KEYTYPE KEY` per line.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check the archive of a run: digests, counts and result.

    A run is also compared with Prometheus. Exit code 1 if anything is wrong.
    """
    file, added, signer, notes, written = Path(run_name), None, "", Counter[str](), 0
    if file.is_file():
        problems, notes, signer = _check(file, signers)
        if blocks and not problems:
            written = _write_blocks(file, blocks)
    elif blocks or signers:
        option = "--blocks" if blocks else "--signers"
        raise typer.BadParameter(f"requires a file (got {run_name})", param_hint=option)
    else:
        verified = _verify_run(run_name)
        problems, added = list(verified.problems), verified.added
    if json:
        summary = {"problems": problems, "written": written}
        summary |= {"added": added.to_fields() if added else None, "signed_by": signer}
        print_json(summary | {"notes": list(notes)})
    else:
        for problem in problems:
            warn(problem)
        for note, archives in notes.items():
            out.print(f"note: {note}" + (f" ({archives} archives)" if archives > 1 else ""))
        if written:
            out.print(f"{written:,} samples were written")
        if added:
            when = f"{added.first_at} to {added.last_at}"
            late = added.of_lost_ranks
            of_lost = f", {late:,} of them from lost ranks" if late else ""
            out.print(
                f"not part of the result: {added.samples:,} samples added after the end{of_lost} "
                f"({when})"
            )
        if signer:
            out.print(f"signed by {signer}", soft_wrap=True)
        out.print("not verified" if problems else "verified: nothing is missing or damaged")
    if problems:
        raise typer.Exit(FAILED)


def _verify_run(run_name: str) -> Verification:
    """Have the master verify a run."""
    try:
        connection = find_connection()
    except NotConnectedError as error:
        raise UsageError(f"{run_name}: file not found. To verify a run: {error}") from None
    with connected(connection) as client:
        try:
            run = find_run(client, run_name)
        except UsageError:
            raise UsageError(f"{run_name}: no such run or file") from None
        wait_until_sealed(client, run)
        return client.verify_run(run.id).result().value


def _check(file: Path, signers: Path | None) -> tuple[list[str], Counter[str], str]:
    """Check an archive, or a set's file and its archives, and the signature.

    Returns:
        The problems, the number of archives of each note, and the signer, empty without one.
    """
    run_set = bundle.read_set(file)
    if run_set is None:
        [check] = sandbox.check([file])
        problems, notes = [*check.problems], Counter(check.notes)
    else:
        with TemporaryDirectory() as folder:
            archives = bundle.archives_in(file, Path(folder))
            problems = bundle.check(file, archives)
            checks = sandbox.check(archives)
        for i, (archive, check) in enumerate(zip(archives, checks, strict=True), 1):
            texts = (text.replace(str(archive), "it") for text in check.problems)
            problems += [f"archive {i}: {text}" for text in texts]
        archived = {check.run.id: (check.run, check.in_set) for check in checks if check.run}
        ledger_problems, ledger_notes = check_ledger(run_set, archived)
        problems += ledger_problems
        notes = Counter(note for check in checks for note in check.notes)
        notes.update([*ledger_notes, f"ledger {run_set.ledger_sha256}"])
    signer = ""
    if signers or signature.signature_of(file).exists():
        try:
            signer = signature.check(file, signers)
        except signature.SignatureError as error:
            problems.append(str(error))
    return problems, notes, signer


def _write_blocks(file: Path, folder: Path) -> int:
    """Write an archive's samples into a data folder by promtool; return their number."""
    beside = find_prometheus().with_name("promtool")
    promtool = str(beside) if beside.is_file() else shutil.which("promtool")
    if promtool is None:
        raise UsageError("promtool not found. It is part of Prometheus.")
    with opened(file) as archive, NamedTemporaryFile("w", suffix=".om") as lines:
        run_id = archive.document(RUN)["run"]["id"]
        lines.write(f"# TYPE {names.RUN_METRIC} gauge\n")
        for name in archive.series:
            if name.pod:
                continue
            labels = {"run_id": str(run_id), "metric": name.metric, "rank": name.rank}
            texts = {label: text.translate(_ESCAPES) for label, text in labels.items() if text}
            pairs = ",".join(f'{label}="{text}"' for label, text in texts.items())
            series = f"{names.RUN_METRIC}{{{pairs}}}"
            for piece in archive.read(name, kept=False):
                for time_us, value in zip(piece.times_us, piece.values, strict=True):
                    lines.write(f"{series} {value!r} {time_us // 1000 / 1000:.3f}\n")
        lines.write("# EOF\n")
        lines.flush()
        command = [promtool, "tsdb", "create-blocks-from", "openmetrics", lines.name, str(folder)]
        written = subprocess.run(command, capture_output=True, text=True, check=False)
        if written.returncode:
            raise UsageError(f"promtool could not write blocks: {written.stderr.strip()[-500:]}")
        return sum(sealed.samples for name, sealed in archive.series.items() if not name.pod)
