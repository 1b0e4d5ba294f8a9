"""Links between dashboards, from a row or value to its run, and to the master."""

from typing import Final

from grafana_foundation_sdk.models.dashboard import DashboardLink, DashboardLinkType

# Tags of dashboards that show many runs over days, or one period of time.
HISTORY: Final = "history"
MOMENT: Final = "moment"

# Keeps the data source of the present page.
_HERE: Final = "var-datasource=${datasource}"


DataLink = dict[str, object]
"""A link on the values of a panel, as Grafana stores it."""


def _link(title: str, url: str, *, new_tab: bool = False) -> DataLink:
    return {"title": title, "url": url, "targetBlank": new_tab}


_RUN: Final = f"/d/mlbench-run/mlbench-run?{_HERE}&var-run_id="

# From a table row with the columns "from" and "to" to its run.
RUN_OF_ROW: Final = _link(
    "Open the run",
    _RUN + "${__data.fields.run_id}&from=${__data.fields.from}&to=${__data.fields.to}",
)


# Links from the row of a node to its workers, and from the row of a worker to that worker.
_WORKERS: Final = f"/d/mlbench-workers/mlbench-workers?{_HERE}&${{__url_time_range}}"
WORKERS_OF_NODE: Final = _link("Workers", _WORKERS + "&var-node=${__data.fields.node}")
WORKER: Final = _link("Only this worker", _WORKERS + "&var-pod=${__data.fields.worker}")

# From the board of a run.
WEB_PAGE: Final = _link("Web page", "${master:raw}/runs/${run_id}", new_tab=True)
WHOLE_RUN: Final = _link("Whole run", _RUN + "${run_id}&from=${span:raw}")
# From runs that are compared.
VERDICT: Final = _link(
    "Verdict on the web page", "${master:raw}/compare?runs=${run_id:csv}", new_tab=True
)
# From an alert, in a row or as a series, to its runbook.
RUNBOOK, RUNBOOK_OF_SERIES = (
    _link("Runbook", f"${{master:raw}}/docs/runbooks/${{{alert}}}.md", new_tab=True)
    for alert in ("__data.fields.alertname", "__field.labels.alertname")
)


def log_of_rank(stream: str) -> DataLink:
    """Link a rank's row to its log on the master."""
    return _link(
        f"End of its {stream}",
        "${master:raw}/api/runs/${run_id}/logs/"
        f"?rank=${{__data.fields.rank}}&stream={stream}&tail=1000",
        new_tab=True,
    )


def other_boards(*, from_history: bool) -> list[DashboardLink]:
    """Link to the other dashboards, which keep the common variables.

    Dashboards of one period of time keep the time range. Those of many runs get a single menu,
    because their variables need the space.
    """
    if from_history:
        return [_menu("Boards", keep_time=False)]
    return [_menu("Overview", HISTORY, keep_time=False), _menu("Details", MOMENT, keep_time=True)]


def _menu(title: str, *tags: str, keep_time: bool) -> DashboardLink:
    return DashboardLink(
        title=title,
        type_val=DashboardLinkType.DASHBOARDS,
        tooltip="Other dashboards",
        tags=["mlbench", *tags],
        as_dropdown=True,
        include_vars=True,
        keep_time=keep_time,
    )


def above(link: DataLink) -> DashboardLink:
    """Return a link of panels as a link at the top of a board."""
    return DashboardLink(
        title=str(link["title"]),
        type_val=DashboardLinkType.LINK,
        url=str(link["url"]),
        target_blank=bool(link["targetBlank"]),
        icon="external link" if link["targetBlank"] else "clock-nine",
    )
