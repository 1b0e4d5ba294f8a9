"""Calls about benchmark sets and results."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from mlbench.client.base import ApiBase, api_path, drop_none
from mlbench.client.transport import Response
from mlbench.contract.records import Planned, RunSet

if TYPE_CHECKING:
    from mlbench.contract.comparisons import Comparison
    from mlbench.contract.results import Breakdown, Goodput, Result
    from mlbench.contract.sweeps import SetAnalysis


class ResultsApi(ApiBase):
    """Calls about benchmark sets and results."""

    def create_set(
        self,
        name: str,
        slots: Sequence[Planned],
        *,
        official: bool = False,
        until_percent: float | None = None,
        **fields: Any,
    ) -> Future[Response[RunSet]]:
        """Register a benchmark set, whose runs the master then submits one after the other.

        Registering the same set again returns the existing one.

        Args:
            name: start of the names of its runs.
            slots: number of workers, seed and swept values of each run, in order.
            official: whether to follow MLPerf's rules.
            until_percent: precision of every mean at which the set ends early.
            fields: arguments of ``create_run`` for all runs.
        """
        if fields.get("custom_image_name") is not None:
            fields["image_name"] = "custom_image"
        body = drop_none(
            name=name,
            slots=[drop_none(**vars(slot) | {"faults": None}) for slot in slots],
            official=official or None,
            until_percent=until_percent,
            **fields,
        )
        return self._post("/api/sets/", RunSet, body)

    def get_set_analysis(self, name: str) -> "Future[Response[SetAnalysis]]":
        """Get what a set has shown so far, and how long the rest of it takes."""
        from mlbench.contract.sweeps import SetAnalysis  # noqa: PLC0415 - as in get_result

        return self._get(api_path("sets", name, "analysis"), SetAnalysis)

    def get_sets(self) -> Future[Response[list[RunSet]]]:
        """Get all sets, the oldest first."""
        return self._get("/api/sets/", list[RunSet])

    def get_set(self, name: str) -> Future[Response[RunSet]]:
        """Get a benchmark set: its plan and its runs so far."""
        return self._get(api_path("sets", name), RunSet)

    def stop_set(self, name: str) -> Future[Response[RunSet]]:
        """Request to stop a set: its active run is stopped, and no further run is submitted."""
        return self._post(api_path("sets", name, "stop"), RunSet)

    def resume_set(self, name: str) -> Future[Response[RunSet]]:
        """Have a run submitted for each open slot of a set, unless the set is running."""
        return self._post(api_path("sets", name, "resume"), RunSet)

    # --- Results ---

    def get_result(
        self,
        run_id: int | str,
        *,
        target: str | None = None,
        after_seconds: float | None = None,
        price: float | None = None,
    ) -> "Future[Response[Result]]":
        """Get the result of a run; of one that has not ended, the result so far.

        Args:
            run_id: the run.
            target: replaces the run's own target, e.g. ``"val_loss<=0.1"`` or ``"acc>=97"``.
            after_seconds: the time of accuracy after time, instead of the run's deadline or 2 h.
            price: of a worker-second, in any currency.
        """
        from mlbench.contract.results import Result  # noqa: PLC0415 - its classes take a while to make

        params = drop_none(target=target, after=after_seconds, price=price)
        return self._get(api_path("runs", run_id, "result"), Result, params)

    def get_goodput(self, run_id: int | str) -> "Future[Response[Goodput]]":
        """Get where every worker-second of a run went, or so far; empty before its start."""
        from mlbench.contract.results import Goodput  # noqa: PLC0415 - as in get_result

        return self._get(api_path("runs", run_id, "goodput"), Goodput)

    def get_breakdown(
        self, run_id: int | str, *, bins: int | None = None
    ) -> "Future[Response[Breakdown]]":
        """Get the time breakdown of a run over time; empty before its start.

        Args:
            run_id: the run.
            bins: maximum number of bins, up to 500. Default: 200.
        """
        from mlbench.contract.results import Breakdown  # noqa: PLC0415 - as in get_result

        params = drop_none(bins=bins)
        return self._get(api_path("runs", run_id, "breakdown"), Breakdown, params)

    def compare(
        self,
        run_ids: Sequence[int | str],
        *,
        target: str | None = None,
        after_seconds: float | None = None,
        price: float | None = None,
        group_by: Sequence[str] = (),
    ) -> "Future[Response[Comparison]]":
        """Get the comparison of up to 200 runs, and whether it is fair.

        Args:
            run_ids: the runs.
            target: as in ``get_result``.
            after_seconds: as in ``get_result``.
            price: as in ``get_result``.
            group_by: names of the settings whose values define a group. Default: all.
        """
        from mlbench.contract.comparisons import Comparison  # noqa: PLC0415 - its classes take a while to make

        runs = ",".join(map(str, run_ids))
        group = ",".join(group_by) or None
        params = drop_none(runs=runs, target=target, after=after_seconds, price=price, group=group)
        return self._get("/api/compare/", Comparison, params)
