"""Asking Prometheus: the query API, as the few calls that we need of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from mlbench.errors import MLBenchError
from mlbench.login import split_login


class PrometheusError(MLBenchError):
    """Prometheus gave no answer to a query."""


@dataclass(frozen=True, slots=True)
class Found:
    """One series of an answer: its labels, and its samples as two columns of the same length."""

    labels: Mapping[str, str]
    times: Sequence[float]
    """Unix seconds."""
    values: Sequence[str]
    """As Prometheus writes them."""


class PrometheusClient:
    """Asks one Prometheus."""

    def __init__(self, url: str, timeout_seconds: float = 30.0) -> None:
        # The password must not be in the errors, which tell the address.
        self._url, login = split_login(url)
        # Compressing an answer takes Prometheus longer than sending it to a neighbour.
        self._client = httpx.Client(
            timeout=timeout_seconds, auth=login, headers={"Accept-Encoding": "identity"}
        )

    def query(self, promql: str, time: float | None = None) -> list[Found]:
        """Return the answer to an instant query, evaluated at ``time`` (now, if not given).

        A range selector such as ``up[5m]`` returns raw samples; an instant vector one each.

        Raises:
            PrometheusError: Prometheus cannot be reached, is not ready, or refuses the query.
        """
        form = {"query": promql} if time is None else {"query": promql, "time": f"{time:.3f}"}
        return [_to_found(one) for one in self._ask("query", form)["result"]]

    def query_range(self, promql: str, first_ms: int, last_ms: int, step_ms: int) -> list[Found]:
        """Return the answer to a query, evaluated at every step from the first time to the last.

        Raises:
            PrometheusError: Prometheus cannot be reached, is not ready, or refuses the query.
        """
        form = {
            "query": promql,
            "start": f"{first_ms / 1000:.3f}",
            "end": f"{last_ms / 1000:.3f}",
            "step": f"{step_ms / 1000:.3f}",
        }
        return [_to_found(one) for one in self._ask("query_range", form)["result"]]

    def series(self, selector: str, first_ms: int, last_ms: int) -> list[dict[str, str]]:
        """Return the labels of every series that has samples between two times.

        Raises:
            PrometheusError: Prometheus cannot be reached, is not ready, or refuses the query.
        """
        form = {
            "match[]": selector,
            "start": f"{first_ms / 1000:.3f}",
            "end": f"{last_ms / 1000:.3f}",
        }
        found: list[dict[str, str]] = self._ask("series", form)
        return found

    def ready(self) -> bool:
        """Return whether Prometheus answers queries."""
        try:
            return self._client.get(f"{self._url}/-/ready").is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, call: str, form: Mapping[str, str]) -> Any:
        asked = form.get("query") or form["match[]"]
        try:
            response = self._client.post(f"{self._url}/api/v1/{call}", data=form)
            answer = orjson.loads(_flat(response.content))
        except (httpx.HTTPError, ValueError) as error:
            raise PrometheusError(f"{self._url} gave no answer to {asked}: {error}") from error
        if answer.get("status") != "success":
            raise PrometheusError(f"{self._url} refused {asked}: {answer.get('error')}")
        return answer["data"]


def _flat(answer: bytes) -> bytes:
    """Return an answer with the samples of a series, [[t,"v"],[t,"v"]], as [[t,"v",t,"v"]].

    A list for each sample would take most of the time that reading takes.
    """
    # In a label's value, the quote has a backslash before it.
    return answer.replace(b'\\"],[', b'\\"]\\u002c[').replace(b'"],[', b'",')


def _to_found(one: Mapping[str, Any]) -> Found:
    [flat] = one.get("values") or [one["value"]]
    return Found(one["metric"], flat[::2], flat[1::2])


def quote(value: str) -> str:
    """Return a value as a PromQL string: in quotes, with what is special escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def select(labels: Mapping[str, str], any_of: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the selector of the series that have these labels; an empty one means without it.

    Of a label in ``any_of``, they have one of the values.
    """
    equal = [f"{name}={quote(value)}" for name, value in labels.items()]
    # Prometheus matches the whole value.
    among = [
        f"{name}=~{quote('|'.join(map(re.escape, values)))}"
        for name, values in (any_of or {}).items()
    ]
    return "{" + ",".join(equal + among) + "}"
