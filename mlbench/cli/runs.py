"""``mlbench run``, ``status``, ``stop`` and ``delete``: what happens to runs."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from mlbench.cli.alerts import Alert, AlertWatch, NoAlertsError, firing
from mlbench.cli.common import (
    INTERRUPTED,
    JsonOption,
    RunArgument,
    WrongCallError,
    connected,
    err,
    find_run,
    out,
    print_json,
)
from mlbench.cli.live import follow
from mlbench.cli.report import result_fields, show_alerts, show_result, show_runs
from mlbench.client import ApiClient, Run
from mlbench.home import Home
from mlbench.results import evaluate

_FAILED = 1


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("run")(run)
    app.command()(status)
    app.command()(stop)
    app.command()(delete)


def run(
    benchmark: Annotated[str, typer.Argument(help="What to run, e.g. digits.")],
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker pods, one rank each.")] = 2,
    cpus: Annotated[int | None, typer.Option(min=1, help="Cores of each worker.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the task.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of every random choice.")] = None,
    light: Annotated[bool, typer.Option("--light", help="Aim for the easier goal.")] = False,
    backend: Annotated[
        str | None, typer.Option(help="What the workers communicate with, e.g. gloo.")
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Train on GPUs.")] = False,
    restarts: Annotated[int, typer.Option(min=0, help="How often to go on after a failure.")] = 0,
    queue: Annotated[
        bool, typer.Option("--queue", help="Wait for the active run to end, instead of failing.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for its end.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a benchmark and show how it goes; exit with 0 if it FINISHED, 1 if not."""
    raise typer.Exit(
        run_and_show(
            benchmark,
            name=name,
            num_workers=workers,
            num_cpus=cpus,
            settings=settings or [],
            seed=seed,
            light=light,
            backend=backend,
            gpu=gpu,
            restarts=restarts,
            queue=queue,
            detach=detach,
            as_json=json,
        )
    )


def run_and_show(
    benchmark: str,
    *,
    num_workers: int,
    name: str | None = None,
    num_cpus: int | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
    light: bool = False,
    backend: str | None = None,
    gpu: bool = False,
    restarts: int = 0,
    queue: bool = False,
    detach: bool = False,
    as_json: bool = False,
    stack_stays: bool = True,
) -> int:
    """Order a run, show its progress and result, and return the exit code.

    ``stack_stays`` says whether the stack, and with it the run, goes on after Ctrl-C.
    """
    with connected() as client:
        order = client.create_run(
            name or f"{benchmark.lower()}-{time.strftime('%Y%m%d-%H%M%S')}",
            num_workers,
            num_cpus,
            benchmark=benchmark,
            backend=backend,
            gpu_enabled=gpu,
            light_target=light,
            args=_parse_settings(settings),
            seed=seed,
            max_restarts=restarts,
            queue=queue,
        )
        ordered = order.result().value
        if detach:
            _show_ordered(ordered, as_json=as_json)
            return 0
        try:
            prometheus_url = Home.from_environ().read_connection().prometheus_url
            watch = AlertWatch(prometheus_url, ordered.id)
            ended = follow(client, ordered, watch, quiet=as_json)
        except KeyboardInterrupt:
            if stack_stays:
                err.print(f"run {ordered.id} goes on; `mlbench stop {ordered.id}` stops it")
            return INTERRUPTED
        _show_run(client, ended, as_json=as_json)
        return 0 if ended.state == "FINISHED" else _FAILED


def status(
    wanted: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Id or name.")] = None,
    json: JsonOption = False,
) -> None:
    """Show all runs, workers and alerts that fire, or one run."""
    with connected() as client:
        if wanted is not None:
            _show_run(client, find_run(client, wanted), as_json=json)
            return
        listed, found = client.get_runs(), client.get_worker_pods()
        runs, pods, alerts = listed.result().value, found.result().value, _firing()
        if json:
            print_json(
                {
                    "runs": [run.fields for run in runs],
                    "pods": [pod.fields for pod in pods],
                    "alerts": None if alerts is None else [asdict(one) for one in alerts],
                }
            )
        else:
            show_runs(runs, pods)
            show_alerts(alerts or [])


def stop(wanted: RunArgument, json: JsonOption = False) -> None:
    """Stop a run, and wait until it has."""
    with connected() as client:
        stopping = client.stop_run(find_run(client, wanted).id).result().value
        while stopping.active:
            time.sleep(0.1)
            stopping = client.get_run(stopping.id).result().value
    if json:
        print_json(stopping.fields)
    else:
        out.print(f"run {stopping.id} ({stopping.name}): {stopping.state}")


def delete(wanted: RunArgument, json: JsonOption = False) -> None:
    """Delete a run that has ended."""
    with connected() as client:
        found = find_run(client, wanted)
        client.delete_run(found.id).result()
    if json:
        print_json({"deleted": found.id})
    else:
        out.print(f"run {found.id} ({found.name}) is deleted")


def _firing() -> list[Alert] | None:
    """Return the alerts that fire; nothing, and a line about it, where Prometheus is silent."""
    try:
        return firing(Home.from_environ().read_connection().prometheus_url)
    except NoAlertsError as error:
        err.print(f"mlbench: {error}", style="yellow", soft_wrap=True)
        return None


def _show_ordered(ordered: Run, *, as_json: bool) -> None:
    if as_json:
        print_json(ordered.fields)
    else:
        out.print(f"run {ordered.id} ({ordered.name}) is ordered; `mlbench status {ordered.id}`")


def _show_run(client: ApiClient, run: Run, *, as_json: bool) -> None:
    result = evaluate(run, client.get_run_metrics(run.id).result().value)
    if as_json:
        print_json({**run.fields, "result": result_fields(result)})
    else:
        show_result(run, result, Home.from_environ().read_connection())


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise WrongCallError(f"--set {setting}: it must be KEY=VALUE, e.g. epochs=3")
        parsed[key] = value
    return parsed
