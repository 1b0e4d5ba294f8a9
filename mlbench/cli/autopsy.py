"""``mlbench autopsy`` and ``mlbench stacks``: why a run does not go on."""

import time
from typing import Annotated

import typer

from mlbench.cli.common import (
    JsonOption,
    RunArgument,
    UsageError,
    connected_to,
    if_there,
    out,
    print_json,
    tell,
)
from mlbench.client import ApiClient
from mlbench.contract.autopsy import Autopsy, Evidence, StackLine
from mlbench.contract.records import Run
from mlbench.contract.words import spans

_LOOK_SECONDS = 0.5
_SPELLED = {"T": "stopped", "t": "stopped", "D": "blocked in I/O", "Z": "exited"}
AgainOption = Annotated[
    bool, typer.Option("--again", help="Ask the ranks again, even if a diagnosis exists.")
]


def autopsy(wanted: RunArgument, again: AgainOption = False, json: JsonOption = False) -> None:
    """Diagnose why a run hangs, and which rank is at fault.

    The ranks are asked for evidence, unless a diagnosis exists. The run is not interrupted.
    """
    with connected_to(wanted) as (client, run):
        latest = _find(client, run, again=again)
    ranks = [f"rank {one.rank}: {', '.join(_parts(one))}" for one in latest.evidence]
    tell(latest.to_fields(), latest.verdict.sentence, *ranks, as_json=json)


def stacks(
    wanted: RunArgument,
    rank: Annotated[int | None, typer.Option(min=0, help="Show only this rank.")] = None,
    again: AgainOption = False,
    native: Annotated[
        bool,
        typer.Option(help="Show the C frames of --rank, or of the rank at fault."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show the Python stacks of all ranks of a run, as one tree."""
    with connected_to(wanted) as (client, run):
        latest = _find(client, run, again=again and not native)
        if native:
            _show_native(client, run, _suspect(latest) if rank is None else rank, json=json)
            return
    lines = [line for line in latest.stacks if rank is None or rank in line.here]
    if json:
        print_json([line.to_fields() for line in lines])
        return
    if not lines:
        source = "any rank" if rank is None else f"rank {rank}"
        raise UsageError(f"no stack from {source}. `mlbench autopsy {wanted}` shows what is known.")
    for line in lines:
        frame = line.frame
        where = f"{frame.function} ({frame.file}:{frame.line})"
        _print(f"{'  ' * line.depth}{where}{_whose(line) if rank is None else ''}")


def _suspect(found: Autopsy) -> int:
    culprits = found.verdict.culprits
    if len(culprits) != 1:
        raise UsageError("--native: the rank at fault is unknown. Choose a rank with --rank.")
    return culprits[0]


def _show_native(client: ApiClient, run: Run, rank: int, *, json: bool) -> None:
    """Ask a rank for its frames of C, and print them, the innermost first."""
    client.ask_autopsy(run.id, native=rank).result()
    evidence = next((answer for answer in _wait(client, run).evidence if answer.rank == rank), None)
    threads = evidence.native if evidence else ()
    if json:
        print_json([thread.to_fields() for thread in threads])
        return
    if evidence is None or not threads:
        why = evidence.missing[-1] if evidence and evidence.missing else "no evidence"
        raise UsageError(f"no C frames from rank {rank}: {why}")
    for thread in threads:
        _print(f"process {thread.pid}, {thread.name or 'unnamed thread'}")
        for frame in thread.frames:
            line = f":{frame.line}" if frame.line else ""
            _print(f"  {frame.function} ({frame.file}{line})")


def latest_autopsy(client: ApiClient, run: Run) -> Autopsy | None:
    """Return the latest autopsy of a run, without its evidence; None if there is none."""
    return if_there(client.get_autopsy(run.id, evidence=False))


def _find(client: ApiClient, run: Run, *, again: bool) -> Autopsy:
    """Return the latest autopsy of a run, and ask for one if there is none; wait until done."""
    latest = latest_autopsy(client, run)
    if run.active and (again or latest is None or latest.attempt != run.attempt):
        client.ask_autopsy(run.id).result()
    elif latest is None:
        why = f": {run.reason}" if run.reason else ""
        raise UsageError(f"run {run.id} ({run.title}) ended without a diagnosis{why}")
    return _wait(client, run)


def _wait(client: ApiClient, run: Run) -> Autopsy:
    while not (asked := client.get_autopsy(run.id).result().value).done:
        time.sleep(_LOOK_SECONDS)
    return asked


def _parts(evidence: Evidence) -> list[str]:
    parts = []
    if evidence.exit_code is not None:
        parts.append(f"exited with code {evidence.exit_code}")
    for process in evidence.processes:
        if process.state in _SPELLED:
            parts.append(f"process {process.pid} {_SPELLED[process.state]}")
    parts += [
        f"{'after' if last.retired else 'in'} {last.name} {last.number}"
        for last in evidence.collectives[:1]
    ]
    if evidence.quiet_seconds is not None:
        parts.append(f"last step {evidence.quiet_seconds:.0f} s ago")
    parts += [f"stacks by {evidence.stacks_by}"] if evidence.stacks_by else []
    return [*parts, *evidence.missing] or ["no evidence"]


def _whose(line: StackLine) -> str:
    """Say which ranks are in a frame, and not, where ranks part."""
    if line.depth and not line.elsewhere:
        return ""
    here = f"  <- {', '.join(spans(line.here))}"
    return here + (f", not {', '.join(spans(line.elsewhere))}" if line.elsewhere else "")


def _print(text: str) -> None:
    out.print(text, soft_wrap=True)
