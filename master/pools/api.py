"""The Kubernetes API: one request at a time, with a time limit, and with errors in words."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError

from master.pools.objects import Object, to_line
from mlbench.errors import MLBenchError

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
_APPLY = "application/apply-patch+yaml"
# Whose fields an apply sets, and takes away again.
_MANAGER = "mlbench"
_ERROR = 400
_MOST_WORDS = 500


class ApiError(MLBenchError):
    """The cluster's API refuses a request, or does not answer."""

    def __init__(self, status: int, message: str, retry_seconds: float = 0.0) -> None:
        """Note what was answered: status 0 if nothing was."""
        super().__init__(message)
        self.status = status
        self.retry_seconds = retry_seconds
        """How long the cluster wants to be left alone."""


class Api:
    """The API of the cluster that this process runs in, or that ``$KUBECONFIG`` names."""

    def __init__(self, count: Callable[[str, str], None] = lambda verb, outcome: None) -> None:
        """Prepare for requests; ``count`` is told the verb and the outcome of each.

        Raises:
            ApiError: nothing says where the cluster is.
        """
        self._settings = Configuration()
        try:
            if "KUBERNETES_SERVICE_HOST" in os.environ:
                load_incluster_config(client_configuration=self._settings)
            else:
                load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=self._settings)
        except ConfigException as error:
            raise ApiError(0, f"no way to the cluster's API: {error}") from error
        self._http = ApiClient(self._settings).rest_client.pool_manager
        self._count = count

    def get(self, path: str, **query: str) -> Object:
        """Return an object, or a list of them.

        Raises:
            ApiError: it cannot be had.
        """
        return self._request("GET", path, query)

    def apply(self, path: str, wanted: Object) -> Object:
        """Make an object what is wanted, whether it is there or not, and return it.

        Raises:
            ApiError: the cluster refuses.
        """
        query = {"fieldManager": _MANAGER, "force": "true"}
        return self._request("PATCH", path, query, wanted, _APPLY)

    def delete(self, path: str, uid: str, grace_seconds: int | None = None) -> None:
        """Delete an object, if it is there and still the one with this uid.

        Args:
            path: where it is.
            uid: what tells it from a later one of the same name.
            grace_seconds: how long it may take to end; None: as long as it says itself.

        Raises:
            ApiError: the cluster refuses.
        """
        options: Object = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._request("DELETE", path, {}, options)
        except ApiError as error:
            # Another has done it.
            if error.status not in (404, 409):
                raise

    def watch(
        self, path: str, query: Mapping[str, str], seconds: int
    ) -> Iterator[tuple[str, Object]]:
        """Yield what happens to objects, with its kind, for so many seconds at most.

        Raises:
            ApiError: it cannot be watched, or nothing was heard for so long.
        """
        query = {**query, "watch": "1", "timeoutSeconds": str(seconds)}
        answer = self._send("WATCH", path, query, None, "", seconds + 1)
        try:
            for line in _lines(answer):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _refusal(event["object"].get("code", 0), event["object"], 0.0)
                yield event["type"], event["object"]
        except HTTPError as error:
            raise ApiError(0, _describe(error)) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ApiError(0, f"its answer cannot be read: {error!r}") from error
        finally:
            answer.close()

    def _request(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        body: Object | None = None,
        content: str = "application/json",
    ) -> Object:
        answer = self._send(verb, path, query, body, content, _ANSWER_SECONDS)
        try:
            found: Object = json.loads(answer.read())
        except HTTPError as error:
            raise ApiError(0, _describe(error)) from error
        except ValueError as error:
            raise ApiError(0, f"its answer is no JSON: {error}") from error
        finally:
            answer.release_conn()
        return found

    def _send(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        body: Object | None,
        content: str,
        read_seconds: float,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, and return the answer before its body is read."""
        try:
            answer = self._http.request(
                "GET" if verb == "WATCH" else verb,
                f"{self._settings.host}{path}?{urlencode(query)}",
                body=None if body is None else json.dumps(body),
                headers=self._headers(content if body is not None else ""),
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=read_seconds),
                retries=False,
                preload_content=False,
            )
        except HTTPError as error:
            self._count(verb, "error")
            raise ApiError(0, _describe(error)) from error
        except (OSError, ConfigException) as error:
            self._count(verb, "error")
            raise ApiError(0, f"this pod's own access to it cannot be read: {error}") from error
        self._count(verb, str(answer.status))
        if answer.status < _ERROR:
            return answer
        try:
            text = answer.read()
        except HTTPError:
            text = b""
        finally:
            answer.release_conn()
        raise _refusal(answer.status, _parse_status(text), _retry_after(answer))

    def _headers(self, content: str) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if content:
            headers["Content-Type"] = content
        # A pod's token changes every hour: this reads it again now and then.
        token = self._settings.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            headers["Authorization"] = token
        return headers


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the lines of an answer as they come."""
    rest = b""
    for piece in answer.stream(amt=None):
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)


def _parse_status(text: bytes) -> Object:
    """Return what the cluster says of an error; what is between may say it otherwise."""
    try:
        status = json.loads(text)
    except ValueError:
        status = None
    if isinstance(status, dict):
        return status
    words = text.decode(errors="replace").strip()
    # A proxy's page is not for those who wait for a run.
    return {"message": "" if words.startswith("<") else words}


def _refusal(code: int, status: Object, retry_seconds: float) -> ApiError:
    message = to_line(status.get("message") or status.get("reason"))
    return ApiError(code, message[:_MOST_WORDS] or f"status {code}, no reason given", retry_seconds)


def _retry_after(answer: urllib3.BaseHTTPResponse) -> float:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else 0.0


def _describe(error: HTTPError) -> str:
    """Return why there was no answer, without the addresses of objects."""
    cause = getattr(error, "reason", None) or error
    words = str(cause).rpartition(">: ")[2]
    return words[:_MOST_WORDS] or type(cause).__name__
