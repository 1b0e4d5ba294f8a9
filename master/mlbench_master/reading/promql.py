"""The client of Prometheus's query API."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import orjson

from mlbench.contract.login import split_login
from mlbench.contract.records import PrometheusStorage
from mlbench.local.prometheus_check import missing_settings
from mlbench_master.errors import ServiceUnavailableError

T = TypeVar("T")

# Maximum number of concurrent queries, and the time that a further query waits for one to end.
_AT_ONCE = 8
_QUEUE_SECONDS = 1.0
# Number of consecutive queries without a response that opens the circuit, and for how long.
_FAILURES = 3
_OPEN_SECONDS = 5.0
# Blocks, the log, and the newest samples on the disk.
_STORED_BYTES = (
    '{__name__=~"prometheus_tsdb_(storage_blocks|wal_storage_size|head_chunks_storage_size)_bytes"}'
)


class PrometheusError(ServiceUnavailableError):
    """Prometheus gave no answer to a query."""


class NoPrometheusError(PrometheusError):
    """Prometheus cannot be reached, or does not answer in time."""


def answer_or_none(query: Callable[[], T]) -> T | None:
    """Return the result of a query; None if Prometheus does not answer."""
    try:
        return query()
    except PrometheusError:
        return None


class CircuitBreaker:
    """Lets few threads ask Prometheus at a time, and none for a while once it is silent.

    After that, a single query finds out whether Prometheus answers again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until = float("-inf")

    @contextmanager
    def query(self) -> Iterator[None]:
        """Run the block as a query, unless the circuit is open or too many are under way.

        A block that raises ``NoPrometheusError`` counts as a failure.
        """
        self._check()
        if not self._slots.acquire(timeout=_QUEUE_SECONDS):
            raise PrometheusError(
                f"{_AT_ONCE} queries of Prometheus are under way already: try again later"
            )
        try:
            with self._lock:
                # It may have opened while this thread waited for a slot.
                self._check()
                # The others wait for the outcome of this query.
                self._open_if_silent()
            yield
        except NoPrometheusError:
            with self._lock:
                self._failures += 1
                self._open_if_silent()
            raise
        else:
            self._failures, self._open_until = 0, float("-inf")
        finally:
            self._slots.release()

    def _check(self) -> None:
        seconds = self._open_until - self._clock()
        if seconds > 0:
            raise PrometheusError(
                f"Prometheus did not answer {_FAILURES} times in a row: it is asked again in "
                f"{seconds:.0f} s"
            )

    def _open_if_silent(self) -> None:
        if self._failures >= _FAILURES:
            self._open_until = self._clock() + _OPEN_SECONDS


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One series of an answer: its labels, and its samples as two columns of the same length."""

    labels: Mapping[str, str]
    times: Sequence[float]
    """Unix seconds."""
    values: Sequence[str]
    """As Prometheus writes them."""


class PrometheusClient:
    """Queries a Prometheus server.

    All queries raise ``PrometheusError`` if it cannot be reached, is not ready, or refuses them.
    """

    def __init__(
        self, url: str, timeout_seconds: float = 30.0, breaker: CircuitBreaker | None = None
    ) -> None:
        # The URL is part of errors, so the password must not be in it.
        self._url, login = split_login(url)
        self._guard = breaker.query if breaker else nullcontext
        timeout = httpx.Timeout(timeout_seconds, connect=min(3.0, timeout_seconds))
        # Prometheus takes longer to compress an answer than to send it to a neighbour.
        self._client = httpx.Client(
            timeout=timeout, auth=login, headers={"Accept-Encoding": "identity"}
        )

    def query(self, promql: str, time: float | None = None) -> list[QueryResult]:
        """Evaluate an instant query at ``time``, or now.

        A range selector such as ``up[5m]`` returns raw samples; an instant vector one each.
        """
        form = {"query": promql} if time is None else {"query": promql, "time": f"{time:.3f}"}
        return [_to_result(series) for series in self._call("query", form)["result"]]

    def query_range(
        self, promql: str, first_ms: int, last_ms: int, step_ms: int
    ) -> list[QueryResult]:
        """Evaluate a query at every step from the first time to the last."""
        form = {"query": promql, **_between(first_ms, last_ms), "step": f"{step_ms / 1000:.3f}"}
        return [_to_result(series) for series in self._call("query_range", form)["result"]]

    def series(self, selector: str, first_ms: int, last_ms: int) -> list[dict[str, str]]:
        """Return the labels of every series with samples between two times."""
        form = {"match[]": selector, **_between(first_ms, last_ms)}
        found: list[dict[str, str]] = self._call("series", form)
        return found

    def delete_series(self, *selectors: str) -> None:
        """Delete series: queries no longer find them, and a compaction frees their disk space.

        Raises:
            NoResponseError: Prometheus cannot be reached, or is not ready.
            PrometheusError: it was started without ``--web.enable-admin-api``.
        """
        call = f"{self._url}/api/v1/admin/tsdb/delete_series"
        try:
            answer = self._client.post(call, data={"match[]": selectors})
        except httpx.HTTPError as error:
            raise NoPrometheusError(f"Prometheus deleted no series: {error}") from error
        if not answer.is_success:
            # Both are 503. A Prometheus that is starting gets the request again later.
            kind = PrometheusError if "admin APIs disabled" in answer.text else NoPrometheusError
            raise kind(f"Prometheus deleted no series: {answer.text}")

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or fire, as ``GET /api/v1/alerts`` has them."""
        found: list[dict[str, Any]] = self._call("alerts")["alerts"]
        return found

    def began(self) -> str:
        """Return when Prometheus was started; a restarted one has another time."""
        return str(self._call("status/runtimeinfo")["startTime"])

    def problems(self) -> list[str]:
        """Return what MLBench needs and this Prometheus does not allow, as sentences."""
        return missing_settings(self._call)

    def storage(self) -> PrometheusStorage:
        """Return version, retention, and bytes of all series; None if it does not scrape itself."""
        sizes = self.query(f"sum(max by (__name__) ({_STORED_BYTES}))")
        return PrometheusStorage(
            str(self._call("status/buildinfo")["version"]),
            str(self._call("status/runtimeinfo")["storageRetention"]),
            round(float(sizes[0].values[0])) if sizes else None,
        )

    def ready(self) -> bool:
        """Check if Prometheus answers queries."""
        try:
            answer = self._client.get(f"{self._url}/-/ready", timeout=3.0)
            return answer.is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, call: str, form: Mapping[str, str] | None = None) -> Any:
        """Make a call of the API, by GET if it has no form, and return the data of its answer."""
        asked = call if form is None else form.get("query") or form["match[]"]
        method = "GET" if form is None else "POST"
        with self._guard():
            try:
                answer = self._client.request(method, f"{self._url}/api/v1/{call}", data=form)
            except httpx.HTTPError as error:
                raise NoPrometheusError(f"Prometheus gave no answer to {asked}: {error}") from error
        del answer.stream  # it refers to the answer: megabytes would wait for the garbage collector
        # Parsing a list for each sample would take most of the time of reading, so the samples of a
        # series change from [[t,"v"],[t,"v"]] to [[t,"v",t,"v"]]. A quote in a label has a
        # backslash before it.
        flat = answer.content.replace(b'\\"],[', b'\\"]\\u002c[').replace(b'"],[', b'",')
        try:
            content = orjson.loads(flat)
        except ValueError as error:
            raise PrometheusError(f"Prometheus gave no answer to {asked}: {error}") from error
        if content.get("status") != "success":
            raise PrometheusError(f"Prometheus refused {asked}: {content.get('error')}")
        return content["data"]


def _between(first_ms: int, last_ms: int) -> dict[str, str]:
    return {"start": f"{first_ms / 1000:.3f}", "end": f"{last_ms / 1000:.3f}"}


def _to_result(one: Mapping[str, Any]) -> QueryResult:
    [flat] = one.get("values") or [one["value"]]
    return QueryResult(one["metric"], flat[::2], flat[1::2])


def quote(value: str) -> str:
    """Write a value as a PromQL string, in quotes. PromQL knows all escapes of JSON."""
    return json.dumps(value, ensure_ascii=False)


def select(labels: Mapping[str, str], any_of: Mapping[str, Sequence[str]] | None = None) -> str:
    """Write the selector of the series with these labels; an empty value means without the label.

    Labels in ``any_of`` have one of several values.
    """
    equal = [f"{name}={quote(value)}" for name, value in labels.items()]
    among = [
        f"{name}=~{quote('|'.join(map(re.escape, values)))}"
        for name, values in (any_of or {}).items()
    ]
    return "{" + ",".join(equal + among) + "}"
