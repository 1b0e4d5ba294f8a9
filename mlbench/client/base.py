"""Basis of all API calls: requests, and encoding and decoding of their contents."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, get_args
from urllib.parse import quote

from mlbench.client.transport import HttpClient, Params, Response

Value = TypeVar("Value")


class ApiBase:
    """Calls of the API of one master."""

    _http: HttpClient

    def _get(
        self, path: str, kind: type[Value], params: Params | None = None
    ) -> Future[Response[Value]]:
        """Request a record, or a list of records."""
        return self._http.request("GET", path, decoder(kind), params=params)

    def _post(
        self, path: str, kind: type[Value], body: object = None, **options: Any
    ) -> Future[Response[Value]]:
        """Send JSON, with the options of ``HttpClient.request``; the response is a record."""
        return self._http.request("POST", path, decoder(kind), body=body, **options)


def api_path(kind: str, name: int | str, *parts: str) -> str:
    """Return an API path such as ``/api/runs/7/logs/``."""
    return "/".join(["/api", kind, quote(str(name), safe=""), *parts, ""])


def drop_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def decoder(kind: type[Value]) -> Callable[[bytes], Value]:
    """Return the function that decodes the JSON of a record, or of a list of records."""
    is_list = bool(get_args(kind))
    record: Any = get_args(kind)[0] if is_list else kind

    def decode(content: bytes) -> Any:
        fields = json.loads(content)
        return [*map(record.from_fields, fields)] if is_list else record.from_fields(fields)

    return decode
