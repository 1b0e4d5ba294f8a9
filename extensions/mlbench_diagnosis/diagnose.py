"""``mlbench diagnose`` and ``mlbench stacks``: diagnosis of a hung run."""

import time
from typing import Annotated

import typer

from mlbench.cli.common import (
    JsonOption,
    RunArgument,
    UsageError,
    open_run,
    out,
    print_json,
    print_outcome,
    value_or_none,
)
from mlbench.client import ApiClient
from mlbench.contract.diagnosis import Diagnosis
from mlbench.contract.humanize import spans
from mlbench.contract.records import Run

_PROCESS_STATES = {"T": "stopped", "t": "stopped", "D": "blocked in I/O", "Z": "exited"}
AgainOption = Annotated[
    bool, typer.Option("--again", help="Ask the ranks again, even if a diagnosis exists.")
]


def diagnose(run_name: RunArgument, again: AgainOption = False, json: JsonOption = False) -> None:
    """Diagnose why a run hangs, and which rank is at fault.

    The ranks are asked for evidence, unless a diagnosis exists. The run is not interrupted.
    """
    with open_run(run_name) as (client, run):
        latest = _find(client, run, again=again)
    ranks = []
    for evidence in latest.evidence:
        findings = []
        if evidence.exit_code is not None:
            findings.append(f"exited with code {evidence.exit_code}")
        for process in evidence.processes:
            if process.state in _PROCESS_STATES:
                findings.append(f"process {process.pid} {_PROCESS_STATES[process.state]}")
        findings += [
            f"{'after' if last.retired else 'in'} {last.name} {last.number}"
            for last in evidence.collectives[:1]
        ]
        if evidence.quiet_seconds is not None:
            findings.append(f"last step {evidence.quiet_seconds:.0f} s ago")
        if evidence.stacks_by:
            findings.append(f"stacks by {evidence.stacks_by}")
        findings += evidence.missing
        ranks.append(f"rank {evidence.rank}: {', '.join(findings) or 'no evidence'}")
    print_outcome(latest.to_fields(), latest.verdict.sentence, *ranks, as_json=json)


def stacks(
    run_name: RunArgument,
    rank: Annotated[int | None, typer.Option(min=0, help="Show only this rank.")] = None,
    again: AgainOption = False,
    native: Annotated[
        bool,
        typer.Option(help="Show the C frames of --rank, or of the rank at fault."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show the Python stacks of all ranks of a run, as one tree."""
    with open_run(run_name) as (client, run):
        latest = _find(client, run, again=again and not native)
        if native:
            at_fault = latest.verdict.at_fault if rank is None else (rank,)
            if len(at_fault) != 1:
                raise UsageError("--native: the rank at fault is unknown. Choose it with --rank.")
            _show_native(client, run, at_fault[0], json=json)
            return
    lines = [line for line in latest.stacks if rank is None or rank in line.here]
    if json:
        print_json([line.to_fields() for line in lines])
        return
    if not lines:
        source = "any rank" if rank is None else f"rank {rank}"
        raise UsageError(
            f"no stack from {source}. `mlbench diagnose {run_name}` shows what is known."
        )
    for line in lines:
        frame = line.frame
        text = f"{'  ' * line.depth}{frame.function} ({frame.file}:{frame.line})"
        if rank is None and (not line.depth or line.elsewhere):  # a branch of the tree
            text += f"  <- {', '.join(spans(line.here))}"
            if line.elsewhere:
                text += f", not {', '.join(spans(line.elsewhere))}"
        out.print(text, soft_wrap=True)


def _show_native(client: ApiClient, run: Run, rank: int, *, json: bool) -> None:
    """Ask a rank for its C frames, and print them, the innermost first."""
    client.ask_diagnosis(run.id, native=rank).result()
    evidence = next((answer for answer in _wait(client, run).evidence if answer.rank == rank), None)
    threads = evidence.native if evidence else ()
    if json:
        print_json([thread.to_fields() for thread in threads])
        return
    if evidence is None or not threads:
        reason = evidence.missing[-1] if evidence and evidence.missing else "no evidence"
        raise UsageError(f"no C frames from rank {rank}: {reason}")
    for thread in threads:
        out.print(f"process {thread.pid}, {thread.name or 'unnamed thread'}", soft_wrap=True)
        for frame in thread.frames:
            line = f":{frame.line}" if frame.line else ""
            out.print(f"  {frame.function} ({frame.file}{line})", soft_wrap=True)


def _find(client: ApiClient, run: Run, *, again: bool) -> Diagnosis:
    """Return the latest diagnosis of a run; ask for one if it has none."""
    latest = value_or_none(client.get_diagnosis(run.id, evidence=False))
    if run.active and (again or latest is None or latest.attempt != run.attempt):
        client.ask_diagnosis(run.id).result()
    elif latest is None:
        reason = f": {run.reason}" if run.reason else ""
        raise UsageError(f"run {run.id} ({run.title}) ended without a diagnosis{reason}")
    return _wait(client, run)


def _wait(client: ApiClient, run: Run) -> Diagnosis:
    while not (diagnosis := client.get_diagnosis(run.id).result().value).done:
        time.sleep(0.5)
    return diagnosis
