"""Asking Prometheus: the query API, as the few calls that we need of it."""

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from master.reading.gate import Gate, PrometheusError, SilentError
from mlbench.login import split_login

__all__ = ["Found", "PrometheusClient", "PrometheusError", "quote", "select"]

_CONNECT_SECONDS = 3.0
# Of the probe, which asks for nothing that takes time.
_READY_SECONDS = 3.0


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

    def __init__(self, url: str, timeout_seconds: float = 30.0, gate: Gate | None = None) -> None:
        """Ask at a URL, and wait so long for an answer; through a gate, if there is one."""
        # The password must not be in the errors, which tell the address.
        self._url, login = split_login(url)
        self._passing = gate.passing if gate else nullcontext
        timeout = httpx.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds))
        # Compressing an answer takes Prometheus longer than sending it to a neighbour.
        self._client = httpx.Client(
            timeout=timeout, auth=login, headers={"Accept-Encoding": "identity"}
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

    def began(self) -> str:
        """Return when Prometheus was started, as it writes it: another one has another time.

        Raises:
            PrometheusError: Prometheus cannot be reached, or is not ready.
        """
        url = f"{self._url}/api/v1/status/runtimeinfo"
        try:
            answer = self._client.get(url).raise_for_status()
            return str(answer.json()["data"]["startTime"])
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise PrometheusError(f"Prometheus does not say when it started: {error}") from error

    def ready(self) -> bool:
        """Return whether Prometheus answers queries."""
        try:
            answer = self._client.get(f"{self._url}/-/ready", timeout=_READY_SECONDS)
            return answer.is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, call: str, form: Mapping[str, str]) -> Any:
        asked = form.get("query") or form["match[]"]
        try:
            with self._passing():
                content = self._post(call, form)
            answer = orjson.loads(_flat(content))
        except ValueError as error:
            raise PrometheusError(f"Prometheus gave no answer to {asked}: {error}") from error
        if answer.get("status") != "success":
            raise PrometheusError(f"Prometheus refused {asked}: {answer.get('error')}")
        return answer["data"]

    def _post(self, call: str, form: Mapping[str, str]) -> bytes:
        try:
            return self._client.post(f"{self._url}/api/v1/{call}", data=form).content
        except httpx.HTTPError as error:
            asked = form.get("query") or form["match[]"]
            raise SilentError(f"Prometheus gave no answer to {asked}: {error}") from error


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
