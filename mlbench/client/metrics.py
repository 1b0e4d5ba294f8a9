"""API calls about logs and metrics."""

import json
import math
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, BinaryIO, Literal, cast, get_args

import msgspec

from mlbench.client.base import ApiBase, api_path, drop_none
from mlbench.client.transport import OnProgress, Response
from mlbench.contract.errors import ApiError
from mlbench.contract.names import StreamName
from mlbench.contract.records import LogPage, LogSearch, Point, Series

Format = Literal["zip", "csv", "json"]

_Moment = datetime | str
_Names = str | Sequence[str]


@dataclass(frozen=True)
class Sample:
    """A value to add to a run or to a pod; exactly one of ``run_id`` and ``pod_name`` is set."""

    name: str
    """Name of the metric; for one rank, it ends with `` @ RANK``."""
    value: float | str
    date: datetime | str = field(default_factory=lambda: datetime.now(UTC))
    run_id: int | str | None = None
    pod_name: str | None = None
    cumulative: bool = False
    """Whether the values of this metric only increase."""
    metadata: object = ""
    """Any JSON value."""

    def to_fields(self) -> dict[str, object]:
        """Return the sample as the API takes it, without fields that have their default."""
        value = self.value
        if not isinstance(value, (int, str)):
            number = float(value)  # numpy's floats are not always Python's
            # JSON cannot hold NaN and the infinities as numbers.
            value = number if math.isfinite(number) else str(number)
        return drop_none(
            run_id=self.run_id,
            pod_name=self.pod_name,
            name=self.name,
            value=value,
            date=_time(self.date),
            cumulative=self.cumulative or None,
            metadata=None if self.metadata == "" else self.metadata,
        )


class MetricsApi(ApiBase):
    """Calls about logs and metrics."""

    def get_logs(
        self,
        run_id: int | str,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        offset: int = 0,
        tail: int | None = None,
        before: int | None = None,
        attempt: int | None = None,
    ) -> Future[Response[LogPage]]:
        """Get a piece of a rank's log.

        Args:
            run_id: the run.
            rank: the rank that wrote the log.
            stream: ``stdout`` or ``stderr``.
            offset: return the piece that starts at this byte.
            tail: instead, return this number of last lines.
            before: instead, return the lines that end at this byte, up to the size limit.
            attempt: the attempt of the run; by default the latest.
        """
        where = {"before": before, "tail": tail, "offset": offset}
        chosen = next(name for name, place in where.items() if place is not None)
        params = drop_none(rank=rank, stream=stream, attempt=attempt) | {chosen: where[chosen]}
        return self._get(api_path("runs", run_id, "logs"), LogPage, params)

    def search_logs(
        self,
        run_id: int | str,
        text: str,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        offset: int = 0,
        attempt: int | None = None,
    ) -> Future[Response[LogSearch]]:
        """Search a rank's log from an offset on for lines with a text, ignoring case.

        A response has the first matching lines. Search again from its ``offset`` unless it is
        ``complete``.
        """
        params = drop_none(rank=rank, stream=stream, attempt=attempt, search=text, offset=offset)
        return self._get(api_path("runs", run_id, "logs"), LogSearch, params)

    def download_log(
        self,
        run_id: int | str,
        file: BinaryIO,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        attempt: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Write a rank's whole log to a file, in this thread, and return its size in bytes.

        Options are as in ``get_logs``, errors as in ``download``.
        """
        params = drop_none(rank=rank, stream=stream, attempt=attempt, format="text")
        return self._http.download(api_path("runs", run_id, "logs"), params, file, on_progress)

    # --- Metrics ---

    def get_run_metrics(
        self,
        run_id: int | str,
        since: _Moment | None = None,
        summarize: int | None = None,
        metric_filter: _Names | None = None,
        last_n: int | None = None,
        *,
        until: _Moment | None = None,
        lineage: Literal["final", "discarded", "all"] = "final",
        exact: bool = False,
    ) -> Future[Response[Series]]:
        """Get a run's series by name, such as ``train_loss @ 0``, each in order of time.

        Args:
            run_id: the run.
            since: return only newer points; a datetime without a zone is in UTC.
            summarize: maximum number of points of each series, averaged.
            metric_filter: return only this metric of all ranks, this series, or a list of them.
            last_n: return only this number of last points of each series.
            until: return only points up to this time.
            lineage: for a restarted run, values of the final model, discarded values, or both.
            exact: return times with microseconds; by default, Prometheus may answer with
                milliseconds.
        """
        params = _selection("run", since, summarize, metric_filter, last_n, until)
        params |= {"lineage": lineage, "exact": str(exact).lower()}
        return self._http.request("GET", api_path("metrics", run_id), _series, params=params)

    def get_pod_metrics(
        self,
        pod_id: str,
        since: _Moment | None = None,
        summarize: int | None = None,
        *,
        metric_filter: _Names | None = None,
        last_n: int | None = None,
        until: _Moment | None = None,
    ) -> Future[Response[Series]]:
        """Get a pod's series by name, each in order of time.

        ``pod_id`` is the pod's name; the other options are as in ``get_run_metrics``.
        """
        params = _selection("pod", since, summarize, metric_filter, last_n, until)
        return self._http.request("GET", api_path("metrics", pod_id), _series, params=params)

    def get_all_metrics(
        self,
        *,
        since: _Moment | None = None,
        summarize: int | None = None,
        metric_filter: _Names | None = None,
        last_n: int | None = None,
        until: _Moment | None = None,
    ) -> Future[Response[dict[str, Series]]]:
        """Get the series of all worker pods, by the pods' names, and of all runs, by their ids.

        The options are as in ``get_run_metrics``. The future raises ApiError if the series of a run
        or pod are no longer complete; the series of each other owner can still be requested.
        """
        params = _selection("all", since, summarize, metric_filter, last_n, until)
        return self._http.request("GET", "/api/metrics/", _series_by_owner, params=params)

    def download_run_metrics(
        self, run_id: int | str, since: _Moment | None = None, summarize: int | None = None
    ) -> Future[Response[bytes]]:
        """Get a run's series as the bytes of a zip file; ``download`` needs less memory."""
        params = _selection("run", since, summarize) | {"format": "zip"}
        return self._http.request("GET", api_path("metrics", run_id), bytes, params=params)

    def download(
        self,
        run_id: int | str,
        file: BinaryIO,
        *,
        format: Format | str = "zip",  # noqa: A002 - as the API calls it
        since: _Moment | None = None,
        summarize: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Write a run's series to a file, in this thread, and return its size in bytes.

        Args:
            run_id: the run.
            file: file open for writing. After an error it contains a part of the response.
            format: format of the file: zip, csv, json, or one that an extension of the master
                adds as a route of the run, such as ``mllog``, for the whole run.
            since: return only newer points; a datetime without a zone is in UTC.
            summarize: maximum number of points of each series, averaged.
            on_progress: called after each piece with the bytes received so far, and the total
                number of bytes, None if unknown.
        """
        if format not in get_args(Format):
            return self._http.download(api_path("runs", run_id, format), {}, file, on_progress)
        params = _selection("run", since, summarize) | {"format": format}
        return self._http.download(api_path("metrics", run_id), params, file, on_progress)

    def post_metric(
        self,
        run_id: int | str,
        name: str,
        value: float | str,
        cumulative: bool = False,
        metadata: object = "",
        date: _Moment | None = None,
    ) -> Future[Response[Point]]:
        """Add a sample to a run, and get the stored point, which can be read from then on.

        The options are as in ``Sample``; a date without a zone is in UTC.
        """
        sample = Sample(name, value, date or datetime.now(UTC), run_id, None, cumulative, metadata)
        return self._post("/api/metrics/", Point, sample.to_fields())

    def post_metrics(self, samples: Sequence[Sample]) -> Future[Response[int]]:
        """Add up to 10,000 samples to runs or pods, and get their number.

        If a sample is wrong, none are added.
        """
        body = [sample.to_fields() for sample in samples]
        return self._http.request(
            "POST", "/api/metrics/", lambda content: int(json.loads(content)["count"]), body=body
        )


def _selection(
    metric_type: str,
    since: _Moment | None,
    summarize: int | None,
    metric_filter: _Names | None = None,
    last_n: int | None = None,
    until: _Moment | None = None,
) -> dict[str, Any]:
    return drop_none(
        metric_type=metric_type,
        since=_time(since),
        until=_time(until),
        summarize=summarize,
        metric_filter=metric_filter,
        last_n=last_n,
    )


def _time(moment: _Moment | None) -> str | None:
    """Return a time as the API takes it; a datetime without a zone is in UTC."""
    if moment is None or isinstance(moment, str):
        return moment
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{aware.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _series(content: bytes) -> Series:
    return msgspec.json.decode(content, type=Series)


def _series_by_owner(content: bytes) -> dict[str, Series]:
    owners = msgspec.json.decode(content, type=dict[str, Series | str])
    for answer in owners.values():
        if isinstance(answer, str):  # the reason why series are incomplete
            raise ApiError(HTTPStatus.BAD_GATEWAY, answer)
    return cast("dict[str, Series]", owners)
