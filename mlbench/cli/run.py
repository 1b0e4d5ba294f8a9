"""``mlbench run``, ``stop``, ``edit`` and ``delete``."""

import sys
import time
from typing import Annotated

import typer

from mlbench.cli import request, spec
from mlbench.cli.common import (
    FAILED,
    INTERRUPTED,
    JsonOption,
    RunArgument,
    RunOrSetArgument,
    UsageError,
    confirm,
    connected,
    err,
    find_run,
    find_run_or_set,
    open_run,
    print_outcome,
    value_or_none,
)
from mlbench.cli.live import follow, wait_for_count
from mlbench.cli.run_tables import page_url
from mlbench.cli.show import show_run
from mlbench.client import ApiClient
from mlbench.contract.records import Run, RunSet
from mlbench.local.discovery import find_connection
from mlbench.local.home import StackConnection


def run(
    ctx: typer.Context,
    task: request.TaskArgument,
    arguments: request.ArgumentsArgument = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the run.", show_default="TASK, date and time")
    ] = None,
    workers: spec.Workers = 2,
    seed: spec.Seed = None,
    bandwidth: spec.Bandwidth = None,
    latency: spec.Latency = None,
    loss: spec.Loss = None,
    cpus: spec.Cpus = None,
    gpu: spec.Gpu = False,
    backend: spec.Backend = None,
    light: spec.Light = False,
    deadline: spec.Deadline = None,
    restarts: spec.Restarts = 0,
    faults: spec.Faults = None,
    settings: request.SettingsOption = None,
    image: request.ImageOption = None,
    from_stdout: request.FromStdoutOption = False,
    queue: request.QueueOption = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return without waiting for the end.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run a benchmark or your own code, and show its progress.

    Exit code 0 if the run FINISHED, otherwise 1. Ctrl-C ends the view, not the run.
    """
    common = spec.common_of(ctx)
    with connected() as client:
        if name and name.isdecimal():
            raise UsageError(f"--name: must not be a number, which is read as an id (got {name})")
        benchmarks = [task.name for task in client.get_benchmarks().result().value]
        is_local = image is not None and client.get_info().result().value.pool == "local"
        code = request.read_code(task, arguments or [], image, benchmarks, local=is_local)
        if from_stdout:
            code = code.with_printed_values()
        name = request.make_name(code.title) if name is None else name
        fields = code.request_fields(common, settings)
        answer = client.create_run(name, workers, seed=seed, queue=queue, **fields)
        submitted = answer.result().value
        connection, run_id = find_connection(), submitted.id
        if not detach:
            raise typer.Exit(run_and_show(client, connection, submitted, as_json=json))
        print_outcome(
            {**submitted.fields, "web_url": page_url(connection, f"/runs/{run_id}")},
            f"run {run_id} ({submitted.title}) submitted; `mlbench status {run_id}` shows it",
            _page_line(submitted, connection),
            as_json=json,
        )


def run_and_show(
    client: ApiClient,
    connection: StackConnection,
    submitted: Run,
    *,
    as_json: bool = False,
    stack_stays: bool = True,
) -> int:
    """Show the progress and result of a run, and return the exit code.

    ``stack_stays``: whether the stack, and with it the run, continues after Ctrl-C.
    """
    if not as_json:
        err.print(_page_line(submitted, connection), soft_wrap=True)
    try:
        ended = wait_for_count(client, follow(client, submitted, quiet=as_json))
    except KeyboardInterrupt:
        if stack_stays:
            err.print(f"run {submitted.id} continues; `mlbench stop {submitted.id}` stops it")
        return INTERRUPTED
    has_result = show_run(client, connection, ended, as_json=as_json, brief=True)
    return 0 if has_result and ended.state == "FINISHED" else FAILED


def stop(run_name: RunOrSetArgument, json: JsonOption = False) -> None:
    """Stop a run or a benchmark set, and wait until it has stopped."""
    with connected() as client:
        matched = find_run_or_set(client, run_name)
        if isinstance(matched, RunSet):
            run_set = client.stop_set(matched.name).result().value
            while run_set.is_active:
                time.sleep(0.1)
                run_set = client.get_set(run_set.name).result().value
            print_outcome(run_set.fields, f"set {run_set.name}: {run_set.state}", as_json=json)
            return
        stopping = client.stop_run(matched.id).result().value
        while stopping.active:
            time.sleep(0.1)
            stopping = client.get_run(stopping.id).result().value
    outcome = f"run {stopping.id} ({stopping.title}): {stopping.state}"
    print_outcome(stopping.fields, outcome, as_json=json)


def edit(
    run_name: RunArgument,
    title: Annotated[str | None, typer.Option(help="Title; '' restores the original name.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag to add (repeatable).")] = None,
    untag: Annotated[list[str] | None, typer.Option(help="Tag to remove (repeatable).")] = None,
    note: Annotated[
        str | None, typer.Option(help="Note in Markdown; - reads it from stdin.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Change the title, tags or note of a run.

    This is also possible after its end; archive and result stay unchanged.
    """
    if title is note is None and not (tag or untag):
        raise UsageError("nothing to change. Add --title, --tag, --untag or --note.")
    note = sys.stdin.read() if note == "-" else note
    with open_run(run_name) as (client, run):
        tags = {"add_tags": tag or (), "remove_tags": untag or ()}
        edited = client.edit_run(run.id, title=title, note=note, **tags).result().value
    tagged = f": {', '.join(edited.tags)}" if edited.tags else ""
    print_outcome(edited.fields, f"run {edited.id} ({edited.title}){tagged}", as_json=json)


def delete(
    run_names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Ids or names of runs; the newest if several have a name."
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete runs with their series and archives; active runs are stopped first."""
    with connected() as client:
        runs = {run.id: run for run in (find_run(client, name) for name in run_names)}
        names = [f"run {run.id} ({run.title})" for run in runs.values()]
        if not yes:
            confirm(f"Delete {', '.join(names)}, with their series and archives?")
        for run_id in runs:
            client.delete_run(run_id).result()
        for run_id in runs:
            while value_or_none(client.get_run(run_id)):
                time.sleep(0.1)
    lines = "\n".join(f"{name} deleted" for name in names)
    print_outcome({"deleted": list(runs)}, lines, as_json=json)


def _page_line(submitted: Run, connection: StackConnection) -> str:
    return f"Web page    {page_url(connection, f'/runs/{submitted.id}', err)}"
