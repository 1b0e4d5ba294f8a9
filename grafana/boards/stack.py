"""Page of the stack's health: whether the other pages are complete, and if not, why."""

from functools import partial
from typing import Final

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.graphs import figure, lines, timeline
from grafana.panels import RUN_COLOURS, fixed
from grafana.queries import (
    DURATION,
    SECONDS,
    PanelQuery,
    age,
    by,
    column,
    graph,
    of_parts,
    or_none,
    rate,
    run_range,
    value,
)
from grafana.table_panels import RANGE_OF_RUN, PanelColumn, ranking, rows
from mlbench.contract.palette import RED, SERIES

_JOB_COLOURS: Final = {
    job: fixed(colour)
    for job, colour in zip(
        ("prometheus", "master", "controller", "exporter", "workers"), SERIES, strict=False
    )
}
_JOBS: Final = 'job=~"prometheus|master|controller|exporter|workers"'
# A target that is not configured, or not discovered, has no value of ``up``.
_ABSENT: Final = " or ".join(
    f'absent(up{{job="{job}"}})' for job in ("master", "controller", "exporter")
)

_figure = partial(figure, width=6, height=3)


def _rates(counter: str, label: str) -> PanelQuery:
    return of_parts(f"sum by ({label}) ({rate(counter)})", f"{{{{{label}}}}}")


def _fails(legend: str, counter: str, failed: str = "") -> PanelQuery:
    """Query a failure rate: 0 without failures, no value if they are not counted."""
    return of_parts(f"sum({rate(f'{counter}{{{failed}}}')}) or 0 * sum({rate(counter)})", legend)


def _answered_in(quantile: float, legend: str) -> PanelQuery:
    """Query a quantile of the master's response time."""
    buckets = f"sum by (le) ({rate('mlbench_http_request_seconds_bucket')})"
    return of_parts(f"histogram_quantile({quantile}, {buckets})", legend)


_ANSWERS: Final = "mlbench_http_requests_total"


def _error_ratio(status: str, legend: str) -> PanelQuery:
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
        "Firing alerts",
        "Firing alerts with their subject and duration. Click an alert for its runbook, or a run "
        "for its board.",
        column("firing", or_none(by(_ALERT, _FIRING), "severity", "No firing alert")),
        column("since", by(_ALERT, f"time() - {_SINCE}")),
        *(
            column(ref, f"{by(_ALERT, _FIRING)} * 0 + on (run_id) group_left () ({moment})")
            for ref, moment in zip(("from", "to"), run_range(), strict=True)
        ),
        columns=(
            PanelColumn("severity", width=115, mappings=thresholds.SEVERITY),
            PanelColumn("alertname", "alert", width=210, links=(links.RUNBOOK,)),
            PanelColumn("since", "for", unit=DURATION, width=100),
            PanelColumn("run_id", "run", width=65, links=(links.RUN_OF_ROW,)),
            PanelColumn("rank", width=70),
            PanelColumn("pod"),
            PanelColumn("instance"),
            *RANGE_OF_RUN[1:],
        ),
        sort_by="severity",
        height=6,
    ),
    _figure(
        "Targets down",
        "Targets that Prometheus cannot scrape: their panels and alerts are outdated. Should be 0.",
        value(f"count(up{{{_JOBS}}} == 0 or {_ABSENT}) or vector(0)", "down"),
        colours=thresholds.ANY_IS_BAD,
    ),
    _figure(
        "Spool",
        "Share of the spool in use: received samples that are not indexed yet. Low is good. With a "
        "full spool, workers hold their samples back.",
        graph("max(mlbench_spool_bytes) / max(mlbench_spool_limit_bytes)", "full"),
        unit="percentunit",
        decimals=1,
        colours=thresholds.SPOOL,
        no_value="The master is not scraped",
    ),
    _figure(
        "Refused samples",
        "Samples that Prometheus refused in this time range. They are stored in the database "
        "only. Should be 0.",
        value(f"sum(increase({_REFUSED}[$__range])) or vector(0)", "refused"),
        decimals=0,
        colours=thresholds.ANY_IS_BAD,
    ),
    _figure(
        "Last reconcile",
        "Age of the controller's last comparison of desired and observed state. Should be a few "
        "seconds.",
        value(f"max({age('mlbench_controller_reconcile_timestamp_seconds')})", "ago"),
        unit=SECONDS,
        decimals=1,
        colours=thresholds.HEARTBEAT_AGE,
        no_value="The controller is not scraped",
    ),
    timeline(
        "Targets",
        "Scrape state of each job's targets over time. The alert MLBenchTargetDown names the "
        "targets that are down.",
        graph(f"min by (job) (up{{{_JOBS}}}) + max by (job) (up{{{_JOBS}}})", "{{job}}"),
        mappings=thresholds.ALL_UP,
        width=12,
        no_value="Prometheus scrapes nothing",
    ),
    lines(
        "Error rates",
        "Errors per second of each part of the stack. 0 is good. A short peak is harmless where "
        "requests are repeated.",
        _fails("master responses", "mlbench_http_requests_total", 'status=~"5.."'),
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
        "Requests per second to the master, by HTTP status. 5xx is an error of the master; 503 "
        "means that its database or spool is full or unavailable.",
        _rates("mlbench_http_requests_total", "status"),
        unit="reqps",
        no_value="No requests",
        overrides={"/^5/": fixed(RED), "/^2/": fixed(SERIES[0])},
    ),
    lines(
        "Response time",
        "Response time of the master: median, 95th and 99th percentile. Growth is the first sign "
        "of an overloaded master, database or Prometheus.",
        _answered_in(0.5, "median"),
        _answered_in(0.95, "95 %"),
        _answered_in(0.99, "99 %"),
        unit="s",
        no_value="No requests",
    ),
    lines(
        "Error ratio",
        "Share of requests that failed (5xx) or were refused (4xx, for example without a token). "
        "Should be near 0.",
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
        "95th percentile of the response time of the slowest routes.",
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
        "Spool size",
        "Bytes of samples that are not indexed yet: total and per run. Flat and low is good; "
        "steady growth will fill the spool.",
        graph("max(mlbench_spool_bytes)", "spool"),
        graph(by("run_id", "mlbench_run_waiting_bytes > 0"), "run {{run_id}}"),
        unit="bytes",
        width=6,
        overrides=RUN_COLOURS,
        no_value="The master is not scraped",
    ),
    lines(
        "Exported samples",
        "Samples per second that Prometheus accepted, that it cannot hold (record_only), and that "
        "it refused. Refused should be 0.",
        _rates("mlbench_writer_samples_total", "outcome"),
        unit="cps",
        width=6,
        overrides={
            "refused": fixed(RED),
            "accepted": fixed(SERIES[0]),
            "record_only": fixed(SERIES[1]),
        },
        no_value="The controller is not scraped",
    ),
    lines(
        "Process CPU cores",
        "CPU cores that master, controller, exporter and Prometheus use: the cost of observation.",
        _rates(f"process_cpu_seconds_total{{{_JOBS}}}", "job"),
        width=6,
        overrides=_JOB_COLOURS,
    ),
    lines(
        "Process memory",
        "Resident memory of each process. Steady growth is a leak.",
        graph(f"sum by (job) (process_resident_memory_bytes{{{_JOBS}}})", "{{job}}"),
        unit="bytes",
        width=6,
        overrides=_JOB_COLOURS,
    ),
)

_QUERIES: Final = "prometheus_engine_query_duration_seconds"
_GROUPS: Final = "max by (rule_group) (prometheus_rule_group_last_duration_seconds)"
PROMETHEUS: Final = (
    lines(
        "Scrape time by job",
        "Scrape duration of the slowest target of each job. Should stay well below a second.",
        graph(f"max by (job) (scrape_duration_seconds{{{_JOBS}}})", "{{job}}"),
        unit="s",
        overrides=_JOB_COLOURS,
    ),
    ranking(
        "Largest clock offsets",
        "The five workers whose clocks differ most from Prometheus's clock. Samples carry the "
        "worker's time; Prometheus cannot store samples more than one minute in the future.",
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
        "90th percentile of Prometheus's query time, by stage. It determines how fast dashboards "
        "load.",
        graph(f'max by (slice) ({_QUERIES}{{quantile="0.9"}})', "{{slice}}"),
        unit="s",
    ),
    lines(
        "Rule evaluation",
        "Evaluation time of each group of recording rules and alerts. It must stay well below "
        "the group's interval, or alerts are late.",
        graph(f'label_replace({_GROUPS}, "group", "$1", "rule_group", ".*;(.*)")', "{{group}}"),
        unit="s",
        no_value="Prometheus has no rules",
    ),
    lines(
        "Series",
        "Series in Prometheus's head block. The number grows with runs, metrics and ranks, and "
        "falls when old series leave the head.",
        graph("max(prometheus_tsdb_head_series)", "series"),
        unit="short",
    ),
    lines(
        "Storage",
        "Size of Prometheus's blocks on disk. The first block is written after two hours; until "
        "then, samples are in the write-ahead log.",
        graph("max(prometheus_tsdb_storage_blocks_bytes)", "blocks"),
        unit="bytes",
    ),
)

BOARD: Final = Board(
    uid="mlbench-stack",
    title="MLBench / Stack health",
    description="Health of the installation: master, spool, controller, exporter and Prometheus.",
    source="grafana/boards/stack.py",
    time_from="now-1h",
    history=False,
    variables=(variables.master(),),
    rows=(
        Row("Problems", WRONG),
        Row("Master and controller", MASTER),
        Row("Scrapes and Prometheus", PROMETHEUS, collapsed=True),
    ),
)
