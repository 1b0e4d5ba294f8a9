"""Calls about metrics: reading them, downloading them as a file, adding to them."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, BinaryIO, Literal

from mlbench.client.answers import Answer
from mlbench.client.asking import Asker, path_part
from mlbench.client.points import Point, Sample, Series, to_series, to_text
from mlbench.client.transport import Param, Transport
from mlbench.errors import ApiError

Format = Literal["zip", "csv", "json"]
Moment = datetime | str
Names = str | Sequence[str]
"""Of a series such as ``train_loss @ 0``, or of a metric, whatever its rank; or several of them."""


class MetricCalls:
    """What ``ApiClient`` asks about metrics."""

    _asker: Asker
    _transport: Transport

    def get_all_metrics(
        self,
        *,
        since: Moment | None = None,
        summarize: int | None = None,
        metric_filter: Names | None = None,
        last_n: int | None = None,
        until: Moment | None = None,
    ) -> Future[Answer[dict[str, Series]]]:
        """Ask for the series of all worker pods, by the pods' names; see ``get_pod_metrics``.

        It fails where those of a pod are not whole any more; the others can still be asked for.
        """
        return self._asker.ask(
            "GET",
            "/api/metrics/",
            lambda found: {pod: _whole(series) for pod, series in found.items()},
            params=_selection("pod", since, summarize, metric_filter, last_n, until),
        )

    def get_pod_metrics(
        self,
        pod_id: str,
        since: Moment | None = None,
        summarize: int | None = None,
        *,
        metric_filter: Names | None = None,
        last_n: int | None = None,
        until: Moment | None = None,
    ) -> Future[Answer[Series]]:
        """Ask for a pod's series by name, each in order of time.

        Args:
            pod_id: the pod's name.
            since: only what is newer; a datetime without a zone is in UTC.
            summarize: at most this many points of each series, averaged.
            metric_filter: only this metric, or only these.
            last_n: only the last points of each series.
            until: only what is dated up to this moment.
        """
        params = _selection("pod", since, summarize, metric_filter, last_n, until)
        return self._asker.ask(
            "GET", f"/api/metrics/{path_part(pod_id)}/", to_series, params=params
        )

    def get_run_metrics(
        self,
        run_id: int | str,
        since: Moment | None = None,
        summarize: int | None = None,
        metric_filter: Names | None = None,
        last_n: int | None = None,
        *,
        until: Moment | None = None,
    ) -> Future[Answer[Series]]:
        """Ask for a run's series by name, such as ``train_loss @ 0``, each in order of time.

        Args:
            run_id: the run.
            since: only what is newer; a datetime without a zone is in UTC.
            summarize: at most this many points of each series, averaged.
            metric_filter: only this metric, of all ranks, or only these.
            last_n: only the last points of each series.
            until: only what is dated up to this moment.
        """
        params = _selection("run", since, summarize, metric_filter, last_n, until)
        return self._asker.ask(
            "GET", f"/api/metrics/{path_part(run_id)}/", to_series, params=params
        )

    def download_run_metrics(
        self, run_id: int | str, since: Moment | None = None, summarize: int | None = None
    ) -> Future[Answer[bytes]]:
        """Ask for a run's series as the bytes of a zip file; ``download`` needs less memory."""
        params = {**_selection("run", since, summarize), "format": "zip"}
        return self._asker.ask_bytes(
            "GET", f"/api/metrics/{path_part(run_id)}/", bytes, params=params
        )

    def download(
        self,
        run_id: int | str,
        file: BinaryIO,
        *,
        format: Format = "zip",  # noqa: A002 - the route's own name for it
        since: Moment | None = None,
        summarize: int | None = None,
        on_progress: Callable[[int, int | None], None] = lambda received, total: None,
    ) -> int:
        """Write a run's series to a file piece by piece, in this thread; return how many bytes.

        Args:
            run_id: the run.
            file: where to, open for writing. After an error it holds a part of the answer.
            format: of the file.
            since: only what is newer; a datetime without a zone is in UTC.
            summarize: at most this many points of each series, averaged.
            on_progress: called after each piece with the bytes received so far, and with all
                there will be, if the master says.

        Raises:
            ApiError: the master refuses.
            NoAnswerError: it is away, or broke off.
        """
        params = {**_selection("run", since, summarize), "format": format}
        path = f"/api/metrics/{path_part(run_id)}/"
        return self._transport.download(path, params, file, on_progress)

    def post_metric(
        self,
        run_id: int | str,
        name: str,
        value: float | str,
        cumulative: bool = False,
        metadata: object = "",
        date: Moment | None = None,
    ) -> Future[Answer[Point]]:
        """Add a sample to a run. Once there is an answer, it can be read.

        Args:
            run_id: the run.
            name: of the metric; `` @ RANK`` at its end makes it a rank's.
            value: a number or a text.
            cumulative: whether the values of this metric only ever grow.
            metadata: whatever JSON can hold.
            date: when it was measured, now by default; a datetime without a zone is in UTC.

        Returns:
            A future of the point as the master stores it.
        """
        sample = Sample(name, value, date or datetime.now(UTC), run_id, None, cumulative, metadata)
        return self._asker.ask("POST", "/api/metrics/", Point.from_fields, body=sample.to_fields())

    def post_metrics(self, samples: Sequence[Sample]) -> Future[Answer[int]]:
        """Add up to 10,000 samples, to runs or pods: all of them or, if one is wrong, none.

        Returns:
            A future of how many there were.
        """
        body = [sample.to_fields() for sample in samples]
        return self._asker.ask(
            "POST", "/api/metrics/", lambda answer: int(answer["count"]), body=body
        )


def _whole(series: Mapping[str, Any] | str) -> Series:
    """Return the series that the API describes, unless it says why they are not whole.

    Raises:
        ApiError: it does.
    """
    if isinstance(series, str):
        raise ApiError(HTTPStatus.BAD_GATEWAY, series)
    return to_series(series)


def _selection(
    metric_type: str,
    since: Moment | None,
    summarize: int | None,
    metric_filter: Names | None = None,
    last_n: int | None = None,
    until: Moment | None = None,
) -> dict[str, Param]:
    wanted: dict[str, Param | None] = {
        "metric_type": metric_type,
        "since": None if since is None else to_text(since),
        "until": None if until is None else to_text(until),
        "summarize": summarize,
        "metric_filter": metric_filter,
        "last_n": last_n,
    }
    return {key: value for key, value in wanted.items() if value is not None}
