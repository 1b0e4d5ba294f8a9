"""``/api/alerts/``: firing alerts of Prometheus, and past alerts of a run."""

import time
from dataclasses import dataclass

from falcon import Request, Response

from mlbench.contract.conversion import parse_whole_number
from mlbench.contract.records import Alert, RunAlert
from mlbench_master import timestamps
from mlbench_master.openapi.operation import operation
from mlbench_master.reading.alerts import alerts_of
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.runs import lifecycle


@dataclass(frozen=True)
class AlertsResource:
    """Firing alerts, and ``/api/runs/{id}/alerts/``: the alerts of a run."""

    prometheus: PrometheusClient

    @operation("list_alerts", "The firing alerts, oldest first.", list[Alert], errors=(503,))
    def on_get(self, req: Request, resp: Response) -> None:
        """List firing alerts, oldest first."""
        alerts = []
        for alert in self.prometheus.alerts():
            if alert["state"] != "firing":
                continue
            labels, annotations = alert["labels"], alert["annotations"]
            alerts.append(
                Alert(
                    name=labels["alertname"],
                    severity=labels.get("severity", ""),
                    since=timestamps.to_text(timestamps.parse(alert["activeAt"])),
                    text=annotations.get("description") or annotations.get("summary", ""),
                    runbook=annotations.get("runbook", ""),
                    run_id=parse_whole_number(labels.get("run_id", "")),
                    rank=parse_whole_number(labels.get("rank", "")),
                    pod=labels.get("pod") or None,
                )
            )
        resp.media = sorted(alerts, key=lambda alert: alert.since)

    @operation(
        "list_run_alerts", "The alerts of the run, oldest first.", list[RunAlert], errors=(502, 503)
    )
    def on_get_run(self, req: Request, resp: Response, run_id: int) -> None:
        """List the alerts of a run, within Prometheus's retention time."""
        resp.media = alerts_of(self.prometheus, lifecycle.find(run_id), time.time())
