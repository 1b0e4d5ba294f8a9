"""Printing of runs, results, workers and alerts, and the addresses of their pages."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mlbench.cli.common import out, print_pairs, warn
from mlbench.contract import figures, names
from mlbench.contract.buckets import TITLES
from mlbench.contract.humanize import spans
from mlbench.contract.login import origin_of, split_login
from mlbench.contract.records import Alert, GroupMean, Pod, Run
from mlbench.local import prometheus_check
from mlbench.local.home import Home, StackConnection

if TYPE_CHECKING:
    from mlbench.contract.results import Result
    from mlbench.contract.sweeps import LastValues

_MAX_WARNINGS = 8
_STATE_STYLES = {"FINISHED": "green", "FAILED": "red", "STOPPED": "yellow"}
_OUTCOME_STYLES: Mapping[names.OutcomeKind, str] = {
    "reached": "green",
    "completed": "green",
    "not_reached": "yellow",
    "stopped": "yellow",
}


def page_url(connection: StackConnection, path: str = "/", console: Console | None = None) -> str:
    """Return the address of a web page.

    On a terminal, an address of the local stack contains the token, which signs the browser in.
    In a pipe it does not, because others may read the log.
    """
    if connection.elsewhere or console is None or not console.is_terminal:
        return f"{connection.url}{path}"
    return sign_in_url(connection, path)


def sign_in_url(connection: StackConnection, path: str = "/") -> str:
    """Return the address of a web page with the token that signs the browser in."""
    return f"{connection.url}{path}?{urlencode({'token': connection.token})}"


def prometheus_url(connection: StackConnection) -> str | None:
    """Return the address of Prometheus.

    On a terminal, the address of the local stack's own Prometheus contains its password and its
    secret path.
    """
    url = connection.prometheus_url
    if url is not None and connection.existing_prometheus:
        return split_login(url)[0]
    if url is None or out.is_terminal or connection.elsewhere:
        return url
    return origin_of(url)


def warn_of_prometheus(connection: StackConnection) -> None:
    """Warn of what a Prometheus lacks that the local stack uses, but did not start."""
    if connection.existing_prometheus and connection.prometheus_url:
        address = prometheus_url(connection)
        for problem in prometheus_check.check(connection.prometheus_url, Home.from_environ()):
            warn(f"Prometheus at {address}: {problem}")


# Rows that `mlbench run` leaves to `mlbench status RUN`.
_DETAILS = {
    "Division",
    "Settings",
    "Last value",
    "Accuracy after time",
    "Epochs",
    "CPU contention",
    "Cost",
}


def show_result(
    run: Run,
    result: "Result | None",
    connection: StackConnection,
    metrics: Collection[str],
    *,
    brief: bool = False,
) -> None:
    """Print the outcome of a run, its result if available, and links to more.

    Args:
        run: the run, which has ended.
        result: its result, None if not available.
        connection: addresses of the master and Prometheus.
        metrics: names of the metrics with recorded numbers.
        brief: whether to leave out details, which ``mlbench status RUN`` shows.
    """
    out.print(f"run {run.id} ({run.title}):", _outcome(run, result))
    if run.tags:
        out.print("tags:", ", ".join(run.tags), soft_wrap=True)
    if run.note:
        out.print(run.note, soft_wrap=True)
    if run.waiting:
        out.print(f"waiting: {run.waiting}", style="yellow", soft_wrap=True)
    if run.reason:
        out.print(run.reason, style=_STATE_STYLES.get(run.state), soft_wrap=True)
    if run.origin:
        out.print(f"imported: {run.origin}, read only", soft_wrap=True)
    elif run.launcher:
        out.print(f"started by {run.launcher}")
    facts = [*(_facts(run, result) if result else ()), *_delivery(run)]
    print_pairs([(label, text) for label, text in facts if not brief or label not in _DETAILS])
    if result and result.goodput:
        right = (Column("worker-seconds", justify="right"), Column("share", justify="right"))
        table = Table("", *right, "", box=None, pad_edge=False)
        table.title, table.title_justify = "Time breakdown", "left"
        total = sum(result.goodput.seconds.values())
        for bucket, seconds in result.goodput.seconds.items():
            if seconds < max(0.005, 0.05 * total if brief else 0.0):
                continue
            bar = "█" * round(seconds / total * 30)
            table.add_row(TITLES[bucket], f"{seconds:.2f}", figures.percent(seconds / total), bar)
        out.print(table)
    # The target metric of own code, or else the loss, or else any metric.
    metric = names.loss_among(metrics) or next(iter(metrics), None)
    if run.target and not run.benchmark and run.target.metric in metrics:
        metric = run.target.metric
    _show_links(run, connection, metric, brief=brief)


def show_runs(runs: list[Run], pods: list[Pod], of: int) -> None:
    """Print runs, the newest of ``of`` in all, and all worker pods."""
    name = Column("name", no_wrap=True)  # not cut, because other commands take it
    headings: list[str | Column] = ["id", name, "benchmark", "workers", "outcome", "created"]
    origins = [str(run.origin or run.launcher) for run in runs]
    tagged = any(run.tags for run in runs)
    headings += ["tags"] * tagged + ["from"] * any(origins)
    table = Table(*headings, box=None, pad_edge=False)
    for run, origin in zip(runs, origins, strict=True):
        table.add_row(
            str(run.id),
            run.title,
            run.benchmark or run.image or "-",
            str(run.num_workers),
            _outcome(run),
            run.created_at[:19].replace("T", " "),
            *([", ".join(run.tags)] if tagged else []),
            *([origin] if origin else []),
        )
    if len(runs) < of:
        out.print(f"the newest {len(runs):,} of {of:,} runs; --limit shows more", style="dim")
    out.print(table if runs else "no runs yet; `mlbench run digits` starts one")
    for run in runs:
        if run.waiting:
            out.print(f"run {run.id} is waiting: {run.waiting}", style="yellow", soft_wrap=True)
    out.print()
    headings = ["worker", "phase", "run", "rank", "cores", "fork server"]
    table = Table(*headings, box=None, pad_edge=False)
    for pod in pods:
        run_id, rank = ("-" if value is None else str(value) for value in (pod.run_id, pod.rank))
        cores, server = ",".join(spans(pod.cpus)) or "-", "ready" if pod.fork_server else "-"
        table.add_row(pod.name, pod.phase, run_id, rank, cores, server)
    out.print(table)


def mean_text(mean: GroupMean | None, runs: int) -> str:
    """Return a mean with its 95 % confidence interval, to five digits; ``-`` without one."""
    if mean is None or mean.mean is None:
        return "-"
    text = f"{mean.mean:,.5g}"
    if mean.low is not None and mean.high is not None:
        text += f" ({mean.low:,.5g} to {mean.high:,.5g})"
    return text if mean.count == runs else f"{text} of {mean.count:,}"


def show_last_values(combinations: "Sequence[LastValues]") -> None:
    """Print the means of the last values of each combination of a set."""
    metrics = sorted({metric for values in combinations for metric in values.means})
    table = Table(*("Last values", "runs", *metrics), box=None, pad_edge=False)
    for values in combinations:
        means = (mean_text(values.means.get(metric), values.runs) for metric in metrics)
        table.add_row(values.name, f"{values.runs:,}", *means)
    out.print()
    out.print(table)


def show_alerts(alerts: list[Alert]) -> None:
    """Print the firing alerts."""
    for alert in alerts:
        out.print()
        out.print(f"{alert.severity} {alert.name} (see {alert.runbook})", style="red")
        out.print(f"  {alert.text}", soft_wrap=True)


def _outcome(run: Run, result: "Result | None" = None) -> Text:
    """Return the outcome of a run, in full with its result, or its state until it is known."""
    outcome = (result.outcome if result else None) or run.outcome
    if outcome is None:
        return Text(run.state, style=_STATE_STYLES.get(run.state, "cyan"))
    # A crash has only a title here, because its reason is printed separately.
    is_short = result is None or outcome.kind == "crashed"
    style = _OUTCOME_STYLES.get(outcome.kind, "red")
    return Text(outcome.title if is_short else outcome.text, style=style)


def _facts(run: Run, result: "Result") -> Iterator[tuple[str, str | Text]]:
    yield "Division", result.division
    for label, texts in (
        ("Rule violation", result.rule_violations),
        ("CPU contention", result.disturbed),
        ("Straggler", [late.text] if (late := result.stragglers) and late.text else []),
        ("Clock", result.clock_faults),
    ):
        shown = [*texts[:_MAX_WARNINGS]]
        if len(texts) > _MAX_WARNINGS:
            shown.append(f"{len(texts) - _MAX_WARNINGS} more, shown by --json")
        for text in shown:
            yield "", Text(f"{label}: {text}", style="yellow")
    if run.settings:
        from mlbench.benchmarks.task_options import in_use  # noqa: PLC0415 - a list of runs has none

        # One line, which the terminal may cut.
        text = figures.pairs(in_use(run.settings)).replace("\n", " ")
        yield "Settings", Text(text, no_wrap=True, overflow="ellipsis")
    if result.target:
        yield "Target", figures.target(result.target)
        if (reached := result.time_to_target) is None:
            problem = result.training_time_problem
            yield "Time to target (training)", f"unknown: {problem}" if problem else "not reached"
        else:
            if reached.training_seconds is not None:
                yield "Time to target (training)", figures.seconds(reached.training_seconds)
            yield "Time to target (wall clock)", figures.seconds(reached.wall_seconds)
    if (last := result.last_value) is not None:
        best = result.best_value
        at_best = f", best {figures.number(best)}" if best != last else ""
        yield "Last value", figures.number(last) + at_best
    if (after := result.accuracy_after_time) and after.value is not None:
        clock = "of training" if after.clock == "training" else "since the start"
        limit = f"after {figures.seconds(after.limit_seconds)} {clock}"
        yield "Accuracy after time", f"{figures.number(after.value)} {limit}"
    if result.epochs is not None:
        yield "Epochs", str(result.epochs)
    yield from _costs(run, result)


def _costs(run: Run, result: "Result") -> Iterator[tuple[str, str]]:
    """Yield throughput, communication, restarts, cost and goodput of a run."""
    if result.samples_per_second is not None:
        yield "Throughput", figures.throughput(result.samples_per_second, run.settings)
    if result.communication_share is not None:
        sent = result.bytes_sent_per_step
        share = f"{figures.percent(result.communication_share)} of training time"
        yield "Communication", f"{share}, {sent:,.0f} B per step" if sent else share
    if result.hidden_phases:
        hidden = (f"{phase} {figures.seconds(s)}" for phase, s in result.hidden_phases.items())
        yield "Overlapped", f"{', '.join(hidden)} per rank, in other threads"
    if saved := result.checkpoints:
        size = f"{saved.count} of {saved.bytes:,.0f} B"
        yield "Checkpoints", f"{size}, each delaying training by {saved.seconds:.3f} s"
    for resumption in result.resumptions:
        source = "" if resumption.stated else " (inferred from its step numbers)"
        discarded = f"{resumption.discarded_steps} later steps were discarded and repeated"
        yield "Resumed", f"from step {resumption.step}{source}; {discarded}"
    if result.interferences and not result.disturbed:
        most_delayed = max(result.interferences, key=lambda rank: rank.contention_share)
        yield "CPU contention", most_delayed.text
    if cost := result.cost:
        until = cost.worker_seconds_to_target
        more = "" if until is None else f", {figures.number(until)} until the target"
        yield "Cost", f"{figures.number(cost.worker_seconds)} worker-seconds{more}"
    if (goodput := result.goodput) and goodput.share is not None:
        share = f"{figures.percent(goodput.share)} of worker time advanced the final model"
        if goodput.whole_step_share is not None:
            share += f", {figures.percent(goodput.whole_step_share)} counting whole steps"
        yield "Goodput", share
    if goodput and goodput.queued_seconds >= 1:
        yield "Queue", f"{figures.seconds(goodput.queued_seconds)}, not part of the time breakdown"
    if result.energy_joules is not None:
        yield "Energy", f"{figures.number(result.energy_joules)} J"


def _delivery(run: Run) -> Iterator[tuple[str, str | Text]]:
    if d := run.delivery:
        missing = f"{d.recorded - d.in_prometheus - d.record_only:,} of {d.recorded:,}"
        places = f"{d.in_prometheus:,} in Prometheus, {d.record_only:,} record-only"
        yield "Missing samples", f"{missing} ({'all in the archive' if run.origin else places})"
    if run.added:
        late = run.added.of_lost_ranks
        of_lost = f", {late:,} from lost ranks" if late else ""
        yield "Added", f"{run.added.samples:,} samples outside of the result{of_lost}"
    if run.not_recorded:
        yield "Not recorded", Text(run.not_recorded.text, style="yellow")


def _show_links(run: Run, connection: StackConnection, metric: str | None, *, brief: bool) -> None:
    # The samples of an imported run are not in Prometheus.
    selector = None
    if metric and not run.origin:
        quoted = json.dumps(metric, ensure_ascii=False)
        selector = f'{names.RUN_METRIC}{{run_id="{run.id}",metric={quoted}}}'
    out.print(f"Web page    {page_url(connection, f'/runs/{run.id}', out)}", soft_wrap=True)
    if brief:
        out.print(f"Details     mlbench status {run.id}")
    else:
        out.print(f"API         {connection.url}/api/runs/{run.id}/", soft_wrap=True)
    graph_range, board_range = "&g0.range_input=10m", ""
    if run.started_at is not None and run.finished_at is not None:
        began, ended = map(datetime.fromisoformat, (run.started_at, run.finished_at))
        # The page of Prometheus accepts only whole minutes.
        end = ended.replace(second=0, microsecond=0) + timedelta(minutes=1)
        seconds = math.ceil((end - began).total_seconds())
        graph_range = f"&g0.range_input={seconds}s&g0.end_input={quote(f'{end:%Y-%m-%d %H:%M}')}"
        # In milliseconds. The last scrapes and computed series come some seconds after the end.
        until = math.ceil(ended.timestamp()) + 30
        board_range = f"&from={math.floor(began.timestamp()) * 1000}&to={until * 1000}"
    if selector and out.is_terminal and (prometheus := prometheus_url(connection)):
        graph = f"{prometheus}/graph?g0.tab=0&g0.expr={quote(selector)}{graph_range}"
        out.print(f"Prometheus  {graph}", soft_wrap=True)
    if connection.grafana_url:
        board = f"{connection.grafana_url}/d/mlbench-run?var-run_id={run.id}{board_range}"
        out.print(f"Grafana     {board}", soft_wrap=True)
    if selector:
        # A plain selector returns nothing 5 minutes after the last sample; 1y is the retention of
        # the local stack.
        out.print(f"PromQL      last_over_time({selector}[1y])", soft_wrap=True)
