"""``mlbench run``, ``status``, ``stop`` and ``delete``: what happens to runs."""

import time
from dataclasses import asdict
from typing import Annotated

import typer

from mlbench.cli.alerts import Alert, AlertWatch, NoAlertsError, firing
from mlbench.cli.common import (
    FAILED,
    INTERRUPTED,
    JsonOption,
    RunArgument,
    connected,
    err,
    find_run,
    out,
    print_json,
)
from mlbench.cli.live import AWAY_SECONDS, follow, patiently
from mlbench.cli.options import (
    ArgumentsArgument,
    BackendOption,
    BandwidthOption,
    CpusOption,
    DeadlineOption,
    GpuOption,
    ImageOption,
    LightOption,
    NameOption,
    QueueOption,
    RestartsOption,
    SettingsOption,
    TaskArgument,
)
from mlbench.cli.ordering import check_name, make_name, read_code, read_order
from mlbench.cli.pages import page_url, run_path
from mlbench.cli.report import show_alerts, show_result, show_runs
from mlbench.client import ApiClient, ApiError, Run
from mlbench.client.connection import find_connection
from mlbench.home import Connection
from mlbench.results import Result

# How long a run without a count is waited for: the master may just not have asked yet.
_COUNT_SECONDS = 5.0


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("run")(run)
    app.command()(status)
    app.command()(stop)
    app.command()(delete)


def run(
    task: TaskArgument,
    arguments: ArgumentsArgument = None,
    name: NameOption = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker pods, one rank each.")] = 2,
    cpus: CpusOption = None,
    bandwidth: BandwidthOption = None,
    settings: SettingsOption = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of what is random; own code finds it as $MLBENCH_SEED."),
    ] = None,
    light: LightOption = False,
    backend: BackendOption = None,
    gpu: GpuOption = False,
    restarts: RestartsOption = 0,
    deadline: DeadlineOption = None,
    image: ImageOption = None,
    queue: QueueOption = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for its end.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a benchmark or your own code, and show how it goes.

    Exits with 0 if it FINISHED, 1 if not. Ctrl-C ends the view, not the run.
    """
    with connected() as client:
        check_name(name or "")
        known = [one.name for one in client.get_benchmarks().result().value]
        order = read_order(
            read_code(task, arguments or [], image, known),
            settings=settings or [],
            num_cpus=cpus,
            max_bandwidth=bandwidth,
            backend=backend,
            gpu=gpu,
            light=light,
            restarts=restarts,
            deadline_seconds=deadline,
        )
        called = name or make_name(order.code.title)
        ordered = order.place(client, called, workers, seed, queue=queue)
        connection = find_connection()
        if detach:
            _show_ordered(ordered, connection, as_json=json)
            return
        raise typer.Exit(watch(client, connection, ordered, as_json=json))


def watch(
    client: ApiClient,
    connection: Connection,
    ordered: Run,
    *,
    as_json: bool = False,
    stack_stays: bool = True,
) -> int:
    """Show a run's progress and result, and return the exit code.

    ``stack_stays`` says whether the stack, and with it the run, goes on after Ctrl-C.
    """
    if not as_json:
        err.print(_page_line(ordered, connection), soft_wrap=True)
    try:
        alerts = AlertWatch(connection.prometheus_url, ordered.id)
        ended = follow(client, ordered, alerts, quiet=as_json)
    except KeyboardInterrupt:
        if stack_stays:
            err.print(f"run {ordered.id} goes on; `mlbench stop {ordered.id}` stops it")
        return INTERRUPTED
    known = _show_run(client, connection, ended, as_json=as_json)
    return 0 if known and ended.state == "FINISHED" else FAILED


def status(
    wanted: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Id or name.")] = None,
    json: JsonOption = False,
) -> None:
    """Show all runs, workers and alerts that fire, or one run."""
    with connected() as client:
        if wanted is not None:
            one = find_run(client, wanted)
            if not _show_run(client, find_connection(), one, as_json=json):
                raise typer.Exit(FAILED)
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
    prometheus_url = find_connection().prometheus_url
    if prometheus_url is None:
        err.print(
            "alerts are not known here: $MLBENCH_PROMETHEUS_URL names the Prometheus to ask",
            style="yellow",
            soft_wrap=True,
        )
        return None
    try:
        return firing(prometheus_url)
    except NoAlertsError as error:
        err.print(f"mlbench: {error}", style="yellow", soft_wrap=True)
        return None


def _show_ordered(ordered: Run, connection: Connection, *, as_json: bool) -> None:
    if as_json:
        print_json({**ordered.fields, "web_url": page_url(connection, run_path(ordered.id))})
    else:
        out.print(f"run {ordered.id} ({ordered.name}) is ordered; `mlbench status {ordered.id}`")
        out.print(_page_line(ordered, connection), soft_wrap=True)


def _show_run(client: ApiClient, connection: Connection, run: Run, *, as_json: bool) -> bool:
    """Show a run, and return whether its result is known: if not, also why it is not."""
    result, problem = _result(client, run)
    if as_json:
        web_url = page_url(connection, run_path(run.id))
        fields = result.to_fields() if result else None
        print_json({**run.fields, "web_url": web_url, "result": fields})
    else:
        show_result(run, result, connection)
    if problem:
        err.print(f"mlbench: the result is not known: {problem}", style="red", soft_wrap=True)
    return result is not None


def _result(client: ApiClient, run: Run) -> tuple[Result | None, str]:
    """Return what a run reached, or why that is not known now."""
    try:
        ask = client.get_result
        # An ended run without a count is one that Prometheus gives no answer about.
        seconds = _COUNT_SECONDS if run.delivery is None else AWAY_SECONDS
        return patiently(lambda: ask(run.id).result().value, seconds), ""
    except ApiError as error:
        return None, str(error)


def _page_line(run: Run, connection: Connection) -> str:
    return f"Web page    {page_url(connection, run_path(run.id))}"
