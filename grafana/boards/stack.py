"""The page of the stack's health: whether the other pages are complete, and why if not."""

from functools import partial
from typing import Final

from grafana import thresholds
from grafana.board import Board, Row
from grafana.figures import figure
from grafana.graphs import lines, timeline
from grafana.panels import Overrides, fixed
from grafana.queries import Query, age, by, column, graph, rate, value
from grafana.tables import Column, rows
from mlbench.palette import GREEN, ORANGE, RED

_JOBS: Final = 'job=~"prometheus|master|controller|exporter|workers"'


# Most of what the stack does is shown as a rate: by labels, which name the curves, or in all.
def _rates(counter: str, labels: str) -> Query:
    legend = " ".join(f"{{{{{label}}}}}" for label in labels.split(", "))
    return graph(f"sum by ({labels}) ({rate(counter)})", legend)


def _total_rate(counter: str, legend: str, more: str = "") -> Query:
    return graph(f"sum({rate(counter)}){more}", legend)


def _quantile(quantile: float, histogram: str, group: str = "le", legend: str = "") -> Query:
    """Return a query for a quantile of what a histogram counts."""
    buckets = f"sum by ({group}) ({rate(f'{histogram}_bucket')})"
    legend = legend or f"p{quantile * 100:g}"
    return graph(f"histogram_quantile({quantile}, {buckets})", legend)


def _coloured(**colours: str) -> Overrides:
    return {name: fixed(colour) for name, colour in colours.items()}


_of_controller = partial(lines, no_value="The controller is not scraped")

HEADLINE: Final = (
    figure(
        "Firing alerts",
        "Alerts that fire now, of the stack and of runs. The table below names them.",
        value('count(ALERTS{alertname=~"MLBench.*",alertstate="firing"}) or vector(0)', "firing"),
        colours=thresholds.ANY_IS_BAD,
    ),
    figure(
        "Targets down",
        "What Prometheus cannot scrape: of that, every page shows the past.",
        value(f"count(up{{{_JOBS}}} == 0) or vector(0)", "down"),
        colours=thresholds.ANY_IS_BAD,
    ),
    figure(
        "Spool",
        "Recorded values that wait for Prometheus, as a share of what may wait. When it is full, "
        "workers keep their values and wait.",
        graph("max(mlbench_spool_bytes) / max(mlbench_spool_limit_bytes)", "full"),
        unit="percentunit",
        decimals=1,
        colours=thresholds.SPOOL,
        sparkline=True,
        no_value="The master is not scraped",
    ),
    figure(
        "Last write to Prometheus",
        "How long ago the controller's last write was accepted. It has nothing to write while no "
        "run is active.",
        value("time() - max(mlbench_writer_success_timestamp_seconds > 0)", "ago"),
        unit="s",
        decimals=0,
        no_value="Nothing written yet",
    ),
    figure(
        "Refused values",
        "Values that Prometheus refused in this time range. They are kept in the database.",
        value(
            'sum(increase(mlbench_writer_samples_total{outcome="refused"}[$__range])) or vector(0)',
            "refused",
        ),
        decimals=0,
        colours=thresholds.ANY_IS_BAD,
    ),
    figure(
        "Errors of the master",
        "Requests a second that the master answers with an error of its own.",
        _total_rate('mlbench_http_requests_total{status=~"5.."}', "errors/s", more=" or vector(0)"),
        unit="reqps",
        decimals=2,
        colours=thresholds.thresholds(GREEN, {0.001: RED}),
        sparkline=True,
    ),
    figure(
        "Last reconcile",
        "How long ago the controller last compared what should be with what is.",
        value(f"max({age('mlbench_controller_reconcile_timestamp_seconds')})", "ago"),
        unit="s",
        decimals=1,
        colours=thresholds.HEARTBEAT_AGE,
        no_value="The controller is not scraped",
    ),
    figure(
        "Kept values",
        "Values that Prometheus cannot hold, such as texts: they are in the master's database.",
        value("max(mlbench_kept_samples)", "kept"),
        unit="short",
        no_value="The master is not scraped",
    ),
)

ALERTS: Final = (
    rows(
        "Alerts that fire now",
        "What each says, and what to do, is in docs/runbooks, in a file of the alert's name.",
        column(
            "alerts",
            by(
                "alertname, severity, run_id, rank, pod, instance",
                'ALERTS{alertname=~"MLBench.*",alertstate="firing"}',
            ),
        ),
        columns=(
            Column("severity", width=100, mappings=thresholds.SEVERITY),
            Column("alertname", "alert"),
            Column("run_id", "run", width=70),
            Column("rank", width=70),
            Column("pod"),
            Column("instance"),
        ),
        sort_by="severity",
        width=12,
        height=7,
        no_value="No alert fires",
    ),
    timeline(
        "Targets",
        "What Prometheus scrapes, and when it could not.",
        graph(f"max by (job, instance) (up{{{_JOBS}}})", "{{job}} {{instance}}"),
        mappings=thresholds.UP,
        width=12,
        height=7,
        no_value="Prometheus scrapes nothing",
    ),
)

MASTER: Final = (
    lines(
        "Requests by route",
        "Requests a second that the master answers. Agents poll and ship; the rest are users, "
        "pages and tools.",
        _rates("mlbench_http_requests_total", "method, route"),
        unit="reqps",
        width=12,
        table=True,
    ),
    lines(
        "Requests by status",
        "Requests a second by HTTP status. 5xx is the master's own fault, or says (503) that its "
        "database or its spool cannot take more now.",
        _rates("mlbench_http_requests_total", "status"),
        unit="reqps",
        width=6,
        overrides={"/^5/": fixed(RED), "/^2/": fixed(GREEN)},
    ),
    lines(
        "Answer time",
        "In what time half, and 95 in 100, of the requests are answered.",
        _quantile(0.5, "mlbench_http_request_seconds"),
        _quantile(0.95, "mlbench_http_request_seconds"),
        unit="s",
        width=6,
    ),
    lines(
        "Answer time by route",
        "In what time 95 in 100 requests of each route are answered.",
        _quantile(
            0.95, "mlbench_http_request_seconds", "le, method, route", "{{method}} {{route}}"
        ),
        unit="s",
        width=12,
        table=True,
    ),
    lines(
        "CPU of the processes",
        "Processor cores that master, controller, exporter and Prometheus use themselves: what "
        "observing costs.",
        _rates(f"process_cpu_seconds_total{{{_JOBS}}}", "job"),
        width=6,
    ),
    lines(
        "Memory of the processes",
        "Memory that these processes hold. A curve that climbs all the time is a leak.",
        graph(f"sum by (job) (process_resident_memory_bytes{{{_JOBS}}})", "{{job}}"),
        unit="bytes",
        width=6,
    ),
)

WRITER: Final = (
    _of_controller(
        "Values delivered",
        "Recorded values a second that the controller brought to Prometheus; that it kept, because "
        "Prometheus cannot hold them; and that Prometheus refused.",
        _rates("mlbench_writer_samples_total", "outcome"),
        unit="cps",
        overrides=_coloured(refused=RED, delivered=GREEN),
    ),
    _of_controller(
        "Write requests",
        "Requests a second to Prometheus by what became of them: unavailable ones are tried again.",
        _rates("mlbench_writer_requests_total", "outcome"),
        unit="reqps",
        overrides=_coloured(refused=RED, unavailable=ORANGE, accepted=GREEN),
    ),
    lines(
        "Write time",
        "In what time Prometheus accepts half, and 95 in 100, of the writes.",
        _quantile(0.5, "mlbench_writer_request_seconds"),
        _quantile(0.95, "mlbench_writer_request_seconds"),
        unit="s",
        no_value="Nothing written",
    ),
    lines(
        "Waiting for Prometheus",
        "Bytes of recorded values that are not in Prometheus yet, in all and of each active run. "
        "Level and small is good; what climbs and climbs will fill the spool.",
        graph("max(mlbench_spool_bytes)", "spool"),
        graph(by("run_id", "mlbench_run_waiting_bytes"), "run {{run_id}}"),
        unit="bytes",
        no_value="The master is not scraped",
    ),
    _of_controller(
        "Reconciles",
        "How often a second the controller compares what should be with what is. Failed ones say "
        "why in its log.",
        _rates("mlbench_controller_reconciles_total", "outcome"),
        unit="ops",
        overrides=_coloured(failed=RED, done=GREEN),
    ),
    lines(
        "Requests to Grafana",
        "Requests of the controller to the Grafana that it keeps up to date, if it keeps one. A "
        "failed one disturbs no run and is tried again.",
        _rates("mlbench_grafana_requests_total", "outcome"),
        unit="reqps",
        overrides=_coloured(failed=RED, done=GREEN),
        no_value="The controller keeps no Grafana up to date",
    ),
)

SCRAPES: Final = (
    lines(
        "Scrape time by job",
        "How long the slowest target of each job takes to answer a scrape.",
        graph(f"max by (job) (scrape_duration_seconds{{{_JOBS}}})", "{{job}}"),
        unit="s",
    ),
    lines(
        "Samples by job",
        "Samples in one scrape of all targets of each job.",
        graph(f"sum by (job) (scrape_samples_scraped{{{_JOBS}}})", "{{job}}"),
        unit="short",
    ),
    timeline(
        "Exporter sources",
        "Where the exporter reads the pods' resource use, and when it could not.",
        graph("max by (source, instance) (mlbench_exporter_source_up)", "{{source}} {{instance}}"),
        mappings=thresholds.UP,
        width=8,
        no_value="The exporter is not scraped",
    ),
    lines(
        "Source time",
        "How long the exporter reads each of its sources for one scrape.",
        graph(
            "max by (source, instance) (mlbench_exporter_source_duration_seconds)",
            "{{source}} {{instance}}",
        ),
        unit="s",
        no_value="The exporter is not scraped",
    ),
    lines(
        "Clock of the workers",
        "How far each worker's clock is ahead of Prometheus's. Recorded values carry the worker's "
        "time; more than a minute ahead, Prometheus cannot hold them.",
        graph(
            "(mlbench_worker_time_seconds - timestamp(mlbench_worker_time_seconds))"
            " * on (instance) group_left (pod) max by (instance, pod) (mlbench_worker_info)",
            "{{pod}}",
        ),
        unit="s",
        width=16,
        least=None,
        table=True,
        no_value="No worker",
    ),
)

PROMETHEUS: Final = (
    lines(
        "Series",
        "Series in Prometheus's head. It grows with runs, metrics and ranks, and falls when old "
        "ones leave the head.",
        graph("max(prometheus_tsdb_head_series)", "series"),
        unit="short",
    ),
    lines(
        "Samples stored",
        "Samples a second that Prometheus stores, scraped and recorded, and those that came late.",
        _total_rate("prometheus_tsdb_head_samples_appended_total", "stored"),
        _total_rate("prometheus_tsdb_head_out_of_order_samples_appended_total", "late"),
        unit="cps",
    ),
    lines(
        "Samples refused",
        "Samples a second that Prometheus does not take: out of order, too old, or a second value "
        "at the same time. Anything but 0 needs a look at the writer above.",
        _total_rate("prometheus_target_scrapes_sample_out_of_order_total", "scraped late"),
        _total_rate("prometheus_tsdb_out_of_order_samples_total", "out of order"),
        _total_rate("prometheus_tsdb_too_old_samples_total", "too old"),
        unit="cps",
    ),
    lines(
        "Storage",
        "Bytes on disk of the blocks. The first one is written after two hours; until then all is "
        "in the write-ahead log.",
        graph("max(prometheus_tsdb_storage_blocks_bytes)", "blocks"),
        unit="bytes",
    ),
    lines(
        "Write-ahead log",
        "Bytes a second that Prometheus writes to its log, and writes a second that failed: those "
        "lose samples when Prometheus dies.",
        _total_rate("prometheus_tsdb_wal_completed_pages_total", "written", more=" * 32768"),
        _total_rate("prometheus_tsdb_wal_writes_failed_total", "failed writes"),
        unit="Bps",
        overrides={"failed writes": fixed(RED) | {"unit": "wps"}},
    ),
    lines(
        "Rule evaluation",
        "How long each group of recording rules and alerts takes. It must stay far below its "
        "interval, or alerts come late.",
        graph(
            "max by (rule_group) (prometheus_rule_group_last_duration_seconds)", "{{rule_group}}"
        ),
        unit="s",
        table=True,
        no_value="Prometheus has no rules",
    ),
    lines(
        "Rule failures",
        "Rules a second that could not be evaluated, and evaluations that were skipped.",
        _total_rate("prometheus_rule_evaluation_failures_total", "failed"),
        _total_rate("prometheus_rule_group_iterations_missed_total", "skipped"),
        unit="ops",
    ),
    lines(
        "Query time",
        "How long Prometheus takes for queries, 9 in 10 of them: dashboards are as quick as this.",
        graph(
            'max by (slice) (prometheus_engine_query_duration_seconds{quantile="0.9"})', "{{slice}}"
        ),
        unit="s",
    ),
)

BOARD: Final = Board(
    uid="mlbench-stack",
    title="MLBench / Stack health",
    description="Whether the system itself is well: master, spool, writer, exporter, Prometheus.",
    source="grafana/boards/stack.py",
    time_from="now-1h",
    history=False,
    rows=(
        Row("At a glance", HEADLINE),
        Row("Alerts and targets", ALERTS),
        Row("Master", MASTER),
        Row("Spool, writer and controller", WRITER),
        Row("Scrapes and exporter", SCRAPES),
        Row("Prometheus", PROMETHEUS),
    ),
)
