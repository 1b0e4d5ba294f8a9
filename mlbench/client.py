"""The client of the master's API: a typed method for each route."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from mlbench.errors import MLBenchError
from mlbench.home import Home
from mlbench.names import ACTIVE_STATES, RunState, StreamName

Series = dict[str, list["Point"]]


class ApiError(MLBenchError):
    """The master refused a request: ``status`` is the HTTP status, the text its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoAnswerError(MLBenchError):
    """The master cannot be reached."""


@dataclass(frozen=True)
class Goal:
    """What a run wants to reach."""

    metric: str
    value: float
    lower_is_better: bool


@dataclass(frozen=True)
class Delivery:
    """Where a run's samples are, counted at its end."""

    recorded: int
    in_prometheus: int
    kept: int


@dataclass(frozen=True)
class Rank:
    """A rank of a run's latest attempt, and the pod that it is on."""

    rank: int
    pod: str
    exit_code: int | None


@dataclass(frozen=True)
class Run:
    """A run. Times are UTC texts, such as ``2018-08-03T09:21:29.347000Z``."""

    id: int
    name: str
    state: RunState
    reason: str
    benchmark: str
    args: Mapping[str, str]
    num_workers: int
    num_cpus: int | None
    attempt: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    goal: Goal | None
    delivery: Delivery | None
    ranks: tuple[Rank, ...]
    fields: Mapping[str, Any]
    """All that the API says, as it says it."""

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Run":
        """Return the run that the API describes."""
        return cls(
            **{key: fields[key] for key in _PLAIN_FIELDS},
            goal=Goal(**fields["goal"]) if fields["goal"] else None,
            delivery=Delivery(**fields["delivery"]) if fields["delivery"] else None,
            ranks=tuple(Rank(**rank) for rank in fields["ranks"]),
            fields=fields,
        )


_PLAIN_FIELDS = (
    "id",
    "name",
    "state",
    "reason",
    "benchmark",
    "args",
    "num_workers",
    "num_cpus",
    "attempt",
    "created_at",
    "started_at",
    "finished_at",
)


@dataclass(frozen=True)
class Point:
    """A value at a time; both as the API writes them."""

    date: str
    value: str

    @property
    def number(self) -> float:
        """The value as a number.

        Raises:
            ValueError: the value is a text.
        """
        return float(self.value)


@dataclass(frozen=True)
class LogPage:
    """A piece of a rank's log."""

    rank: int
    stream: str
    attempt: int
    text: str
    offset: int
    """Where the next piece begins, in bytes."""
    complete: bool
    """Whether this is the last piece there will be."""


class ApiClient:
    """Talks to one master. Connections are kept open; threads may share a client.

    Every method raises ``ApiError`` where the master refuses, ``NoAnswerError`` where it is away.
    """

    def __init__(self, url: str, token: str, *, timeout_seconds: float = 30.0) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_seconds,
            # Whatever $http_proxy says: this machine's own address means nothing to a proxy.
            mounts={"all://127.0.0.1": None},
        )

    @classmethod
    def from_home(cls, home: Home | None = None) -> "ApiClient":
        """Return a client of the running local stack.

        Raises:
            NotConnectedError: there is none.
        """
        connection = (home or Home.from_environ()).read_connection()
        return cls(connection.url, connection.token)

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get_worker_pods(self) -> list[dict[str, Any]]:
        """Return all worker pods."""
        pods: list[dict[str, Any]] = self._request("GET", "/api/pods/")
        return pods

    def get_runs(self) -> list[Run]:
        """Return all runs, the oldest first."""
        return [Run.from_fields(fields) for fields in self._request("GET", "/api/runs/")]

    def get_run(self, run_id: int) -> Run:
        """Return a run."""
        return Run.from_fields(self._request("GET", f"/api/runs/{run_id}/"))

    def create_run(
        self,
        name: str,
        benchmark: str,
        num_workers: int = 2,
        *,
        num_cpus: int | None = None,
        max_restarts: int = 0,
        args: Mapping[str, str] | None = None,
    ) -> Run:
        """Order a run, and return it; the controller starts it as soon as there are workers."""
        order = {
            "name": name,
            "benchmark": benchmark,
            "num_workers": num_workers,
            "num_cpus": num_cpus,
            "max_restarts": max_restarts,
            "args": dict(args or {}),
        }
        return Run.from_fields(self._request("POST", "/api/runs/", body=order))

    def stop_run(self, run_id: int) -> Run:
        """Ask for a run to be stopped; it is, once its state says STOPPED."""
        return Run.from_fields(self._request("POST", f"/api/runs/{run_id}/stop/"))

    def delete_run(self, run_id: int) -> None:
        """Delete a run that has ended."""
        self._request("DELETE", f"/api/runs/{run_id}/")

    def get_logs(
        self,
        run_id: int,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        offset: int = 0,
        tail: int | None = None,
    ) -> LogPage:
        """Return a rank's log from an offset on, or its last ``tail`` lines."""
        place = {"offset": offset} if tail is None else {"tail": tail}
        fields = self._request(
            "GET", f"/api/runs/{run_id}/logs/", params={"rank": rank, "stream": stream, **place}
        )
        return LogPage(**fields)

    def get_run_metrics(
        self,
        run_id: int,
        *,
        since: str | None = None,
        metric_filter: str | None = None,
        last_n: int | None = None,
    ) -> Series:
        """Return a run's series by name, such as ``train_loss @ 0``, each in order of time."""
        return self._metrics(str(run_id), "run", since, metric_filter, last_n)

    def get_pod_metrics(
        self,
        pod_id: str,
        *,
        since: str | None = None,
        metric_filter: str | None = None,
        last_n: int | None = None,
    ) -> Series:
        """Return a pod's series by name, each in order of time."""
        return self._metrics(pod_id, "pod", since, metric_filter, last_n)

    def post_metric(
        self,
        name: str,
        value: float | str,
        date: str,
        *,
        run_id: int | None = None,
        pod_name: str | None = None,
    ) -> None:
        """Add a sample to a run or a pod. Once this returns, it can be read."""
        owner = {"run_id": run_id, "pod_name": pod_name}
        sample = {"name": name, "value": value, "date": date} | owner
        self._request("POST", "/api/metrics/", body=sample)

    def _metrics(
        self,
        owner: str,
        metric_type: str,
        since: str | None,
        metric_filter: str | None,
        last_n: int | None,
    ) -> Series:
        wanted = {"since": since, "metric_filter": metric_filter, "last_n": last_n}
        params = {key: value for key, value in wanted.items() if value is not None}
        found = self._request(
            "GET", f"/api/metrics/{owner}/", params={"metric_type": metric_type, **params}
        )
        return {name: [Point(**point) for point in points] for name, points in found.items()}

    def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: object = None,
    ) -> Any:
        content = None if body is None else json.dumps(body)
        try:
            response = self._http.request(method, path, params=params, content=content)
        except httpx.HTTPError as error:
            base = str(self._http.base_url).rstrip("/")
            raise NoAnswerError(
                f"the master at {base} does not answer ({error or type(error).__name__}): "
                "is the stack running? `mlbench up` starts it"
            ) from error
        if not response.is_success:
            raise ApiError(response.status_code, _message(response))
        return response.json() if response.content else None


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} {response.reason_phrase}"
