"""``mlbench status``, ``runs``, ``benchmarks``, ``logs``, ``metrics``, ``open``."""

import html
import sys
import time
import webbrowser
from bisect import bisect_right
from typing import Annotated, Literal

import typer
from rich.table import Column, Table

from mlbench.cli.common import (
    FAILED,
    JsonOption,
    RunArgument,
    UsageError,
    connected,
    err,
    find_run,
    open_run,
    out,
    print_json,
    print_line,
    print_outcome,
    value_or_none,
    warn,
)
from mlbench.cli.live import last_numbers, patiently, read_last_values
from mlbench.cli.run_tables import (
    mean_text,
    page_url,
    prometheus_url,
    show_alerts,
    show_result,
    show_runs,
    sign_in_url,
    warn_of_prometheus,
)
from mlbench.client import ApiClient
from mlbench.contract.atomic_files import write_private
from mlbench.contract.errors import ApiError
from mlbench.contract.humanize import visible
from mlbench.contract.names import STEP
from mlbench.contract.records import LogPage, Point, Run, RunGroup, Series
from mlbench.contract.reported_settings import Setting, format_value
from mlbench.contract.series import series_name, split_name
from mlbench.local.discovery import find_connection
from mlbench.local.home import Home, StackConnection

_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_SIGN_IN_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={url}">
<title>MLBench</title>
<a href="{url}">MLBench</a>
"""


def status(
    run_name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Id or name of a run.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of runs.")
    ] = 50,
    json: JsonOption = False,
) -> None:
    """Show the newest runs, workers and alerts, or one run."""
    with connected() as client:
        if run_name is not None:
            run = find_run(client, run_name)
            if not show_run(client, find_connection(), run, as_json=json):
                raise typer.Exit(FAILED)
            return
        listed, counted = client.get_runs(limit=limit), client.count_runs()
        workers, info = client.get_worker_pods(), client.get_info()
        runs, pods, alerts = listed.result().value, workers.result().value, None
        try:
            alerts = client.get_alerts().result().value
        except ApiError as error:  # Prometheus is unreachable
            warn(f"mlbench: {error}")
        database = info.result().value.database
        if json:
            print_json(
                {
                    "runs": [run.fields for run in runs],
                    "pods": [pod.fields for pod in pods],
                    "alerts": None if alerts is None else [alert.to_fields() for alert in alerts],
                    "database": database,
                }
            )
        else:
            show_runs(runs, pods, of=counted.result().value.runs)
            out.print(f"\ndatabase  {_DATABASES[database]}")
            connection = find_connection()
            if connection.existing_prometheus:
                address = prometheus_url(connection)
                out.print(f"Prometheus  {address}  (not started by the stack)", soft_wrap=True)
            show_alerts(alerts or [])
            warn_of_prometheus(connection)


def runs(
    query: Annotated[
        str | None,
        typer.Option(
            "--query", "-q", help="Filter, e.g. 'accuracy > 95 created>7d a OR b NOT tag:old'."
        ),
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Field to sort by; -FIELD sorts in descending order.")
    ] = None,
    columns: Annotated[
        str, typer.Option(help="Fields to show, separated by commas.")
    ] = "state,outcome,benchmark,workers,created,duration,best",
    mine: Annotated[bool, typer.Option("--mine", help="Show only your own runs.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of runs.")
    ] = 50,
    group: Annotated[
        str, typer.Option(help="Fields to group all runs by, separated by commas.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """List the runs that match a query, or the means of groups of runs."""
    with connected() as client:
        fields = [name for name in columns.split(",") if name]
        if mine:
            user = client.get_info().result().value.user.replace('"', '""')
            query = f'{query or ""} user="{user}"'
        if group:
            by = group.split(",")
            answer = client.group_runs(by, query=query, order=order, columns=fields).result()
            print_json(answer.json()) if json else _show_groups(answer.value)
            return
        page = client.get_runs(query=query, order=order, columns=fields, limit=limit)
        listed, counted = page.result().value, client.count_runs(query=query).result().value
    if json:
        print_json([run.fields for run in listed])
        return
    table = Table("id", Column("name", no_wrap=True), *fields, box=None, pad_edge=False)
    for run in listed:
        cells = (_cell(name, run.values[name]) for name in fields)
        table.add_row(str(run.id), run.title, *cells)
    out.print(table)
    if not listed and counted.query:
        out.print(f"no run matches {counted.query}", markup=False, soft_wrap=True)
    if len(listed) < (matching := sum(counted.states.values())):
        out.print(f"{len(listed):,} of {matching:,} runs; --limit shows more", style="dim")


def _show_groups(groups: list[RunGroup]) -> None:
    """Print groups with their means and 95 % confidence intervals."""
    if not groups:
        out.print("no run matches")
        return
    values, columns = groups[0].values, groups[0].means
    shown = [n for n in columns if n not in values and any(group.means[n] for group in groups)]
    table = Table(*values, "runs", *shown, box=None, pad_edge=False)
    for group in groups:
        cells = [*(_cell("", value) for value in group.values.values()), f"{group.runs:,}"]
        table.add_row(*cells, *(mean_text(group.means[name], group.runs) for name in shown))
    out.print(table)
    if (versions := max(group.code_versions for group in groups)) > 1:
        text = f"Runs of one group have up to {versions} versions of their code."
        text += " To separate them, add code,commit to --group."
        out.print(text, style="yellow", soft_wrap=True)


def _cell(name: str, value: Setting) -> str:
    """Format a value: numbers to five digits, times to the second."""
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.5g}"
        case str() if name in ("created", "finished"):
            return f"{value[:19]}Z"
    return format_value(value)


def show_run(
    client: ApiClient, connection: StackConnection, run: Run, *, as_json: bool, brief: bool = False
) -> bool:
    """Print a run and its result, brief without details; return whether there is a result."""
    result, problem = None, ""
    try:
        result = patiently(client.get_result, run.id)
    except ApiError as error:
        problem = str(error)
    if as_json:
        fields = result.to_fields() if result else None
        web_url = page_url(connection, f"/runs/{run.id}")
        print_json({**run.fields, "web_url": web_url, "result": fields})
    else:
        metrics = last_numbers(read_last_values(client, run))
        show_result(run, result, connection, metrics, brief=brief)
        diagnosis = value_or_none(client.get_diagnosis(run.id, evidence=False))
        # The ranks of an attempt that was restarted, or that crashed, are asked too.
        is_hung = run.outcome is None or run.outcome.kind == "hung" or run.state == "FAILED"
        if is_hung and diagnosis and diagnosis.done and diagnosis.verdict.kind != "exited":
            out.print(f"Hang diagnosis  {diagnosis.verdict.sentence}", soft_wrap=True)
    if problem:
        err.print(f"mlbench: result not available: {problem}", style="red", soft_wrap=True)
    return result is not None


def benchmarks(
    name: Annotated[str | None, typer.Argument(help="Benchmark whose options to list.")] = None,
    json: JsonOption = False,
) -> None:
    """List the benchmarks, or the options of one."""
    with connected() as client:
        tasks = client.get_benchmarks().result().value
        shown = [benchmark for benchmark in tasks if name in {None, benchmark.name}]
        if not shown:
            existing = ", ".join(benchmark.name for benchmark in tasks)
            raise UsageError(f"{name}: no such benchmark. The benchmarks are {existing}.")
    if json:
        print_json([benchmark.fields for benchmark in shown])
        return
    table = Table.grid(padding=(0, 2))
    for benchmark in shown:
        table.add_row(benchmark.name, benchmark.description)
        if name is not None:
            table.add_row()
            for option in benchmark.options:
                choices = " or ".join(map(format_value, option.choices))
                default = (
                    f"(default: {format_value(option.default)}{f'; {choices}' if choices else ''})"
                )
                table.add_row(f"--set {option.name}=", f"{option.help} {default}")
    out.print(table)


def logs(
    run_name: RunArgument,
    rank: Annotated[int, typer.Option(min=0, help="Rank of the run.")] = 0,
    stream: Annotated[Literal["stdout", "stderr"], typer.Option(help="Output stream.")] = "stdout",
    attempt: Annotated[
        int | None,
        typer.Option(min=1, help="Attempt of the run.", show_default="the latest"),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep printing until the run ends.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print control characters unchanged.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the stdout or stderr of a rank.

    On a terminal, control characters are escaped.
    """
    with open_run(run_name) as (client, run):

        def read(offset: int) -> LogPage:
            page = client.get_logs(run.id, rank, stream, offset=offset, attempt=attempt)
            return page.result().value

        page, pieces = read(0), []
        while True:
            if json:
                pieces.append(page.text)
            else:
                shown = page.text if raw or not sys.stdout.isatty() else visible(page.text)
                sys.stdout.write(shown)  # typer.echo would remove colours in a pipe
                sys.stdout.flush()
            # Checked before reading, so that everything read after the end is complete.
            may_grow = follow and not json and client.get_run(run.id).result().value.active
            offset, page = page.offset, read(page.offset)
            if page.offset == offset:
                if not may_grow:
                    break
                time.sleep(0.3)
    if json:
        print_json({"rank": rank, "stream": stream, "text": "".join(pieces)})


def metrics(
    run_name: RunArgument,
    metric: Annotated[
        str | None, typer.Option(help="Print the values of this metric, each with its step.")
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option("--tail", min=1, help="Number of last values of each series to print."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the metrics of a run, or print the values of one."""
    if tail is not None and metric is None:
        raise UsageError("--tail: requires --metric")
    with open_run(run_name) as (client, run):
        answer = client.get_run_metrics(run.id, metric_filter=metric, last_n=tail).result()
        steps: Series = {}
        if metric is not None and not json:
            steps = client.get_run_metrics(run.id, metric_filter=STEP).result().value
        if metric is not None and not answer.value:
            raise UsageError(
                f"--metric: run {run.id} has no metric {metric!r}. "
                f"`mlbench metrics {run.id}` lists its metrics."
            )
    if json:
        print_json(answer.json())
    elif metric is None:
        numbers = (Column(heading, justify="right") for heading in ("values", "first", "last"))
        table = Table(Column("metric", overflow="fold"), *numbers, box=None, pad_edge=False)
        for name, points in answer.value.items():
            table.add_row(name, f"{len(points):,}", _short(points[0]), _short(points[-1]))
        out.print(table)
    else:
        # Plain lines: laying out a table of a million rows would take too long.
        width = max(len(name) for name in answer.value)
        print_line(f"{'series':{width}}  {'date':27}  {'step':>8}  value")
        for name, points in answer.value.items():
            steps_of_rank = steps.get(series_name(STEP, split_name(name)[1]), [])
            dates = [point.date for point in steps_of_rank]
            for point in points:
                index = bisect_right(dates, point.date)
                step = _short(steps_of_rank[index - 1]) if index else "-"
                print_line(f"{name:{width}}  {point.date}  {step:>8}  {point.value}")


def _short(point: Point) -> str:
    try:
        return f"{point.number:.6g}"
    except ValueError:
        return point.value[:20]


def open_page(
    run_name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Id or name of a run.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Open the web pages, or one run's page, signed in."""
    with connected() as client:
        connection = find_connection()
        client.get_info().result()  # raises an error if the master does not respond
        path = f"/runs/{find_run(client, run_name).id}" if run_name else "/"
    signed_in = sign_in_url(connection, path)
    url = page_url(connection, path) if connection.elsewhere else signed_in
    # The token is passed in a file that only this user can read, because everyone on this machine
    # can read the command line of the browser.
    file = Home.from_environ().sign_in_page
    write_private(file, _SIGN_IN_PAGE.format(url=html.escape(signed_in)))
    opened = webbrowser.open(file.as_uri())
    print_outcome({"web_url": url, "opened": opened}, url, as_json=json)
    if not opened and not json:
        err.print("No browser found. Open this address in your browser.", style="yellow")
