"""Links: between the dashboards, from a row or a value to its run, and to the master."""

from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.models.dashboard import DashboardLink, DashboardLinkType

# Tags of the dashboards: about many runs over days, or about what happens at one time.
HISTORY: Final = "history"
MOMENT: Final = "moment"

# Keeps the data source and the time range of the page that is left.
_HERE: Final = "var-datasource=${datasource}"


@dataclass(frozen=True)
class DataLink:
    """A link on values: where a click on them leads."""

    title: str
    url: str
    new_tab: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the link as Grafana stores it."""
        return {"title": self.title, "url": self.url, "targetBlank": self.new_tab}


def run_of_row(run_id: str = "run_id") -> DataLink:
    """Lead from a table's row, which has the columns ``from`` and ``to``, to its run."""
    return DataLink(
        "Open the run",
        f"/d/mlbench-run/mlbench-run?{_HERE}&var-run_id=${{__data.fields.{run_id}}}"
        "&from=${__data.fields.from}&to=${__data.fields.to}",
    )


def run_now() -> DataLink:
    """Lead from a series with the label ``run_id`` to its run, over the same time."""
    return DataLink(
        "Open the run",
        f"/d/mlbench-run/mlbench-run?{_HERE}"
        "&var-run_id=${__field.labels.run_id}&${__url_time_range}",
    )


def run_of_worker() -> DataLink:
    """Lead from a worker's row to the run that it works for, over the same time."""
    return DataLink(
        "Open the run",
        f"/d/mlbench-run/mlbench-run?{_HERE}"
        "&var-run_id=${__data.fields.run_id}&${__url_time_range}",
    )


def log_of_rank(stream: str) -> DataLink:
    """Lead from a rank's row to what it wrote, on the master."""
    return DataLink(
        f"End of its {stream}",
        "${master:raw}/api/runs/${run_id}/logs/"
        f"?rank=${{__data.fields.rank}}&stream={stream}&tail=1000",
        new_tab=True,
    )


def other_boards(*, from_history: bool) -> list[DashboardLink]:
    """Lead to the other dashboards, with the variables that they share.

    Those about a moment keep the time of a page about a moment; those about many runs have their
    own.
    """
    return [_tagged(HISTORY, keep_time=from_history), _tagged(MOMENT, keep_time=not from_history)]


def _tagged(tag: str, *, keep_time: bool) -> DashboardLink:
    return DashboardLink(
        title=tag,
        type_val=DashboardLinkType.DASHBOARDS,
        icon="dashboard",
        tooltip="The other dashboards",
        tags=["mlbench", tag],
        as_dropdown=False,
        include_vars=True,
        keep_time=keep_time,
    )
