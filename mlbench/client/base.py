"""Basis of all API calls: requests, and encoding and decoding of their contents."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import quote

from mlbench.client.transport import HttpClient, Params, Response
from mlbench.contract.records import Record

Value = TypeVar("Value")
Some = TypeVar("Some", bound=Record)


class ApiBase:
    """Calls of the API of one master."""

    _http: HttpClient

    def _get(
        self, path: str, decode: Callable[[bytes], Value], params: Params | None = None
    ) -> Future[Response[Value]]:
        return self._http.request("GET", path, decode, params=params)


def api_path(kind: str, name: int | str, *parts: str) -> str:
    """Return an API path such as ``/api/runs/7/logs/``."""
    return "/".join(["/api", kind, quote(str(name), safe=""), *parts, ""])


def drop_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def record_decoder(record: type[Some]) -> Callable[[bytes], Some]:
    """Return a decoder for a record."""
    return lambda content: record.from_fields(json.loads(content))


def records_decoder(record: type[Some]) -> Callable[[bytes], list[Some]]:
    """Return a decoder for a list of records."""
    return lambda content: [record.from_fields(fields) for fields in json.loads(content)]
