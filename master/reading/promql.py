"""Asking Prometheus: the query API, as the few calls that we need of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from mlbench.errors import MLBenchError


class PrometheusError(MLBenchError):
    """Prometheus gave no answer to a query."""


@dataclass(frozen=True, slots=True)
class Found:
    """One series of an answer: its labels, and (Unix seconds, value as Prometheus writes it)."""

    labels: Mapping[str, str]
    samples: list[tuple[float, str]]


class PrometheusClient:
    """Asks one Prometheus."""

    def __init__(self, url: str, timeout_seconds: float = 30.0) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.Client(timeout=timeout_seconds)

    def query(self, promql: str, time: float | None = None) -> list[Found]:
        """Return the answer to an instant query, evaluated at ``time`` (now, if not given).

        A range selector such as ``up[5m]`` returns raw samples; an instant vector one each.

        Raises:
            PrometheusError: Prometheus cannot be reached, is not ready, or refuses the query.
        """
        form = {"query": promql} if time is None else {"query": promql, "time": f"{time:.3f}"}
        try:
            response = self._client.post(f"{self._url}/api/v1/query", data=form)
            answer = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise PrometheusError(f"{self._url} gave no answer to {promql}: {error}") from error
        if answer.get("status") != "success":
            raise PrometheusError(f"{self._url} refused {promql}: {answer.get('error')}")
        return [
            Found(one["metric"], [(t, v) for t, v in one.get("values") or [one["value"]]])
            for one in answer["data"]["result"]
        ]

    def ready(self) -> bool:
        """Return whether Prometheus answers queries."""
        try:
            return self._client.get(f"{self._url}/-/ready").is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def quote(value: str) -> str:
    """Return a value as a PromQL string: in quotes, with what is special escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
