"""Page of the stack's health: whether the other pages are complete, and if not, why."""

from functools import partial
from typing import Final

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.graphs import figure, lines, timeline
from grafana.panels import fixed
from grafana.queries import (
    DURATION,
    SECONDS,
    Query,
    age,
    by,
    column,
    graph,
    of_parts,
    or_none,
    rate,
    value,
)
from grafana.tables import Column, ranking, rows
from mlbench.contract.palette import GREEN, RED

_JOBS: Final = 'job=~"prometheus|master|controller|exporter|workers"'

_figure = partial(figure, width=6, height=3)


def _rates(counter: str, label: str) -> Query:
    return of_parts(f"sum by ({label}) ({rate(counter)})", f"{{{{{label}}}}}")


def _fails(what: str, counter: str, failed: str = "") -> Query:
    """Query a failure rate: 0 without failures, no value if they are not counted."""
    return of_parts(f"sum({rate(f'{counter}{{{failed}}}')}) or 0 * sum({rate(counter)})", what)


def _answered_in(quantile: float, legend: str) -> Query:
    """Query a quantile of the master's response time."""
    buckets = f"sum by (le) ({rate('mlbench_http_request_seconds_bucket')})"
    return of_parts(f"histogram_quantile({quantile}, {buckets})", legend)


_ANSWERS: Final = "mlbench_http_requests_total"


def _error_ratio(status: str, legend: str) -> Query:
    """Query the share of responses with a status."""
    all_ = f"sum({rate(_ANSWERS)})"
    with_status = f'{_ANSWERS}{{status=~"{status}"}}'
    errors = f"sum({rate(with_status)}) or 0 * {all_}"
    return of_parts(f"({errors}) / {all_}", legend)


_ALERT: Final = "alertname, severity, run_id, rank, pod, instance"
_FIRING: Final = 'ALERTS{alertname=~"MLBench.*",alertstate="firing"}'

_REFUSED: Final = 'mlbench_writer_samples_total{outcome="refused"}'
_SINCE: Final = f"ALERTS_FOR_STATE and ignoring (alertstate) {_FIRING}"
WRONG: Final = (
    rows(
        "Alerts that fire now",
        "What is wrong, with what, and for how long. A click on an alert tells what to do, a click "
        "on a run leads to it.",
        column("firing", or_none(by(_ALERT, _FIRING), "severity", "No alert fires")),
        column("since", by(_ALERT, f"time() - {_SINCE}")),
        columns=(
            Column("severity", width=115, mappings=thresholds.SEVERITY),
            Column("alertname", "alert", width=210, links=(links.RUNBOOK,)),
            Column("since", "for", unit=DURATION, width=100),
            Column("run_id", "run", width=65, links=(links.RUN_OF_WORKER,)),
            Column("rank", width=70),
            Column("pod"),
            Column("instance"),
        ),
        sort_by="severity",
        height=6,
    ),
    _figure(
        "Targets down",
        "What Prometheus cannot scrape: of that, every page shows the past.",
        value(f"count(up{{{_JOBS}}} == 0) or vector(0)", "down"),
        colours=thresholds.ANY_IS_BAD,
    ),
    _figure(
        "Spool",
        "Recorded values that wait for Prometheus, as a share of what may wait. When it is full, "
        "workers keep their values and wait.",
        graph("max(mlbench_spool_bytes) / max(mlbench_spool_limit_bytes)", "full"),
        unit="percentunit",
        decimals=1,
        colours=thresholds.SPOOL,
        no_value="The master is not scraped",
    ),
    _figure(
        "Refused values",
        "Values that Prometheus refused in this time range. They are kept in the database.",
        value(f"sum(increase({_REFUSED}[$__range])) or vector(0)", "refused"),
        decimals=0,
        colours=thresholds.ANY_IS_BAD,
    ),
    _figure(
        "Last reconcile",
        "How long ago the controller last compared what should be with what is.",
        value(f"max({age('mlbench_controller_reconcile_timestamp_seconds')})", "ago"),
        unit=SECONDS,
        decimals=1,
        colours=thresholds.HEARTBEAT_AGE,
        no_value="The controller is not scraped",
    ),
    timeline(
        "Targets",
        "Whether Prometheus could scrape all targets of each job. Those that are down are named by "
        "the alert MLBenchTargetDown.",
        graph(f"min by (job) (up{{{_JOBS}}}) + max by (job) (up{{{_JOBS}}})", "{{job}}"),
        mappings=thresholds.ALL_UP,
        width=12,
        no_value="Prometheus scrapes nothing",
    ),
    lines(
        "What fails",
        "What the parts of the stack fail at, a second. All at 0 is good; what is tried again does "
        "no harm if it falls back to 0.",
        _fails("answers of the master", "mlbench_http_requests_total", 'status=~"5.."'),
        _fails("reconciles", "mlbench_controller_reconciles_total", 'outcome="failed"'),
        _fails("writes to Prometheus", "mlbench_writer_requests_total", 'outcome!="accepted"'),
        _fails("Prometheus's writes to disk", "prometheus_tsdb_wal_writes_failed_total"),
        _fails("rules", "prometheus_rule_evaluation_failures_total"),
        _fails("rules too late", "prometheus_rule_group_iterations_missed_total"),
        _fails("requests to Grafana", "mlbench_grafana_requests_total", 'outcome="failed"'),
        unit="suffix: /s",
        width=12,
        # Otherwise the scale of a graph of zeros ends at 100.
        overrides={"/.*/": {"custom.axisSoftMax": 1}},
    ),
)

MASTER: Final = (
    lines(
        "Requests by status",
        "Requests a second to the master by HTTP status. 5xx is the master's own fault, or says "
        "(503) that its database or its spool cannot take more now.",
        _rates("mlbench_http_requests_total", "status"),
        unit="reqps",
        overrides={"/^5/": fixed(RED), "/^2/": fixed(GREEN)},
    ),
    lines(
        "Answer time",
        "In what time the master answers half of all requests, 95 in 100, and 99 in 100. It grows "
        "first when the master, its database or Prometheus is overloaded.",
        _answered_in(0.5, "median"),
        _answered_in(0.95, "95 %"),
        _answered_in(0.99, "99 %"),
        unit="s",
        no_value="No requests",
    ),
    lines(
        "Error ratio",
        "Share of the requests that the master could not answer (5xx), and that it refused (4xx): "
        "a client asks for what there is not, or without a token.",
        _error_ratio("5..", "failed"),
        _error_ratio("4..", "refused"),
        unit="percentunit",
        # Otherwise, ratios of zero have a scale of thousands of percent.
        overrides={
            "failed": fixed(RED) | {"custom.axisSoftMax": 0.01},
            "refused": {"custom.axisSoftMax": 0.01},
        },
        no_value="No requests",
    ),
    ranking(
        "Slowest routes",
        "In what time the master answers 95 in 100 requests of the slowest routes.",
        "label_join(topk(5, histogram_quantile(0.95, sum by (le, method, route) "
        "(increase(mlbench_http_request_seconds_bucket[$__range]))) >= 0),"
        ' "request", " ", "method", "route")',
        name="request",
        name_width=350,
        unit="s",
        most_first=True,
        width=24,
        no_value="No requests",
    ),
    lines(
        "Waiting values",
        "Bytes of recorded values that are not in Prometheus yet, in all and of each run that has "
        "any. Level and small is good; what climbs and climbs will fill the spool.",
        graph("max(mlbench_spool_bytes)", "spool"),
        graph(by("run_id", "mlbench_run_waiting_bytes > 0"), "run {{run_id}}"),
        unit="bytes",
        width=6,
        no_value="The master is not scraped",
    ),
    lines(
        "Values delivered",
        "Recorded values a second that the controller brought to Prometheus; that it kept, because "
        "Prometheus cannot hold them; and that Prometheus refused.",
        _rates("mlbench_writer_samples_total", "outcome"),
        unit="cps",
        width=6,
        overrides={"refused": fixed(RED), "delivered": fixed(GREEN)},
        no_value="The controller is not scraped",
    ),
    lines(
        "Process CPU cores",
        "Processor cores that master, controller, exporter and Prometheus use themselves: what "
        "observing costs.",
        _rates(f"process_cpu_seconds_total{{{_JOBS}}}", "job"),
        width=6,
    ),
    lines(
        "Process memory",
        "Memory that these processes hold. A curve that climbs all the time is a leak.",
        graph(f"sum by (job) (process_resident_memory_bytes{{{_JOBS}}})", "{{job}}"),
        unit="bytes",
        width=6,
    ),
)

_QUERIES: Final = "prometheus_engine_query_duration_seconds"
_GROUPS: Final = "max by (rule_group) (prometheus_rule_group_last_duration_seconds)"
PROMETHEUS: Final = (
    lines(
        "Scrape time by job",
        "How long the slowest target of each job takes to answer a scrape.",
        graph(f"max by (job) (scrape_duration_seconds{{{_JOBS}}})", "{{job}}"),
        unit="s",
    ),
    ranking(
        "Clocks furthest off",
        "The five workers whose clocks differ most from Prometheus's. Recorded values carry the "
        "worker's time; more than a minute ahead, Prometheus cannot hold them.",
        "topk(5, abs(mlbench_worker_time_seconds - timestamp(mlbench_worker_time_seconds))"
        " * on (instance) group_left (pod) max by (instance, pod) (mlbench_worker_info))",
        name="pod",
        width=8,
        unit="s",
        most_first=True,
        no_value="No worker",
    ),
    lines(
        "Query time",
        "How long Prometheus takes for queries, 9 in 10 of them: dashboards are as quick as this.",
        graph(f'max by (slice) ({_QUERIES}{{quantile="0.9"}})', "{{slice}}"),
        unit="s",
    ),
    lines(
        "Rule evaluation",
        "How long each group of recording rules and alerts takes. It must stay far below its "
        "interval, or alerts come late.",
        graph(f'label_replace({_GROUPS}, "group", "$1", "rule_group", ".*;(.*)")', "{{group}}"),
        unit="s",
        no_value="Prometheus has no rules",
    ),
    lines(
        "Series",
        "Series in Prometheus's head. It grows with runs, metrics and ranks, and falls when old "
        "ones leave the head.",
        graph("max(prometheus_tsdb_head_series)", "series"),
        unit="short",
    ),
    lines(
        "Storage",
        "Bytes on disk of the blocks. The first one is written after two hours; until then all is "
        "in the write-ahead log.",
        graph("max(prometheus_tsdb_storage_blocks_bytes)", "blocks"),
        unit="bytes",
    ),
)

BOARD: Final = Board(
    uid="mlbench-stack",
    title="MLBench / Stack health",
    description="Whether the system itself is well: master, spool, writer, exporter, Prometheus.",
    source="grafana/boards/stack.py",
    time_from="now-1h",
    history=False,
    variables=(variables.master(),),
    rows=(
        Row("What is wrong", WRONG),
        Row("Master and controller", MASTER),
        Row("Scrapes and Prometheus", PROMETHEUS, collapsed=True),
    ),
)
