"""When alerts fired about a run, by the series that Prometheus keeps of its alerts."""

from mlbench.contract.conversion import parse_whole_number
from mlbench.contract.records import RunAlert
from mlbench_master.database.models import Run
from mlbench_master.reading.promql import PrometheusClient, select
from mlbench_master.timestamps import seconds_to_text

# How often rules are evaluated, in milliseconds, and the most points that are asked for.
_EVALUATION_MS, _POINTS = 5_000, 1_000


def alerts_of(prometheus: PrometheusClient, run: Run, now: float) -> list[RunAlert]:
    """Return the alerts that fired about a run, in order of time."""
    if run.started_at is None or run.origin is not None:
        return []
    # Alerts can begin or end up to ten minutes after the run.
    until = min(now, (run.finished_at or now) + 600.0)
    first_ms, last_ms = round(run.started_at * 1000), round(until * 1000)
    if last_ms <= first_ms:
        return []
    step_ms = max(_EVALUATION_MS, (last_ms - first_ms) // _POINTS)
    selector = select({"__name__": "ALERTS", "alertstate": "firing", "run_id": str(run.id)})
    # None falls between two points.
    query = f"max by (alertname, severity, rank) (max_over_time({selector}[{step_ms}ms]))"
    result = prometheus.query_range(query, first_ms, last_ms + step_ms, step_ms)
    step = step_ms / 1000
    alerts = []
    for series in result:
        # The alert fired once for all points without a gap between them.
        began = last = series.times[0]
        for time in [*series.times[1:], float("inf")]:
            if time - last > 1.5 * step:
                alert = RunAlert(
                    name=series.labels["alertname"],
                    severity=series.labels.get("severity", ""),
                    rank=parse_whole_number(series.labels.get("rank", "")),
                    began_at=seconds_to_text(began),
                    ended_at=seconds_to_text(last) if last < now - 2 * step else None,
                )
                alerts.append(alert)
                began = time
            last = time
    return sorted(alerts, key=lambda alert: alert.began_at)
