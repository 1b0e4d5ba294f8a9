"""The Kubernetes API, through the official client: time limits for all calls, errors in words."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.dynamic import DynamicClient
from kubernetes.watch.watch import iter_resp_lines
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from mlbench.contract.errors import MLBenchError
from mlbench_master.pools.manifests import Object
from mlbench_master.pools.status import to_line

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
_APPLY = "application/apply-patch+yaml"
_LONGEST_MESSAGE = 500


class ApiError(MLBenchError):
    """The cluster refuses a request, or does not answer."""

    def __init__(self, status: int, message: str, retry_seconds: float = 0.0) -> None:
        """Note the answer's status; 0 if there was none."""
        super().__init__(message)
        self.status = status
        self.retry_seconds = retry_seconds
        """How long the cluster asks to be left alone."""


class Api:
    """The API of the cluster that this process runs in, or that ``$KUBECONFIG`` names.

    All methods raise ApiError if the cluster refuses, or does not answer.
    """

    def __init__(self, count: Callable[[str, str], None] = lambda verb, status: None) -> None:
        """Prepare for requests; ``count`` is called with the verb and the status of each.

        Raises:
            ApiError: there is no configuration of a cluster.
        """
        settings = Configuration()
        # Callers try again by themselves.
        settings.retries = False
        try:
            if "KUBERNETES_SERVICE_HOST" in os.environ:
                load_incluster_config(client_configuration=settings)
            else:
                load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=settings)
        except ConfigException as error:
            raise ApiError(0, f"no way to the cluster's API: {error}") from error
        # All paths are known, and discovery would have no time limit.
        self._client = DynamicClient(ApiClient(settings), discoverer=lambda *_: None)
        self._count = count

    def get(self, path: str, **query: str) -> Object:
        """Return an object, or a list of them."""
        return _read(self._request("GET", path, query))

    def apply(self, path: str, wanted: Object) -> Object:
        """Create an object or change it to what is wanted (server-side apply), and return it."""
        query = {"fieldManager": "mlbench", "force": "true"}
        return _read(self._request("PATCH", path, query, body=wanted, content_type=_APPLY))

    def delete(self, path: str, uid: str, grace_seconds: int | None = None) -> None:
        """Delete an object, if it is there and still has this uid.

        ``grace_seconds`` is how long it may take to end; None for its own default.
        """
        options: Object = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            _read(self._request("DELETE", path, {}, body=options))
        except ApiError as error:
            # It has been deleted already.
            if error.status not in (404, 409):
                raise

    def watch(
        self, path: str, query: Mapping[str, str], seconds: int
    ) -> Iterator[tuple[str, Object]]:
        """Yield the changes of objects, each with its kind, for so many seconds at most."""
        query = {**query, "watch": "1", "timeoutSeconds": str(seconds)}
        answer = self._request("WATCH", path, query, read_seconds=seconds + 1)
        try:
            for line in filter(None, iter_resp_lines(answer)):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 0), _message(status))
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
        read_seconds: float = _ANSWER_SECONDS,
        **options: Any,
    ) -> BaseHTTPResponse:
        """Send a request, and return the answer before its body is read."""
        status = "error"
        try:
            answer: BaseHTTPResponse = self._client.request(
                "GET" if verb == "WATCH" else verb,
                path,
                query_params=list(query.items()),
                serialize=False,
                _request_timeout=(_CONNECT_SECONDS, read_seconds),
                **options,
            )
            status = str(answer.status)
        except ApiException as error:
            status = str(error.status or status)
            raise _refusal(error) from error
        except HTTPError as error:
            raise ApiError(0, _describe(error)) from error
        except (OSError, ConfigException) as error:
            # A pod's token is renewed every hour, and read again for that.
            raise ApiError(0, f"this pod's own access to it cannot be read: {error}") from error
        finally:
            self._count(verb, status)
        return answer


def _read(answer: BaseHTTPResponse) -> Object:
    try:
        found: Object = json.loads(answer.data)
    except HTTPError as error:
        raise ApiError(0, _describe(error)) from error
    except ValueError as error:
        raise ApiError(0, f"its answer is no JSON: {error}") from error
    finally:
        answer.release_conn()
    return found


def _refusal(error: ApiException) -> ApiError:
    body = error.body if error.status else error.reason
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    try:
        message = _message(json.loads(text))
    except (ValueError, AttributeError):
        # From a proxy in between, whose HTML nobody wants to read.
        message = "" if text.strip().startswith("<") else _message({"message": text})
    retry_after = str((error.headers or {}).get("Retry-After", ""))
    retry_seconds = float(retry_after) if retry_after.isdecimal() else 0.0
    code = error.status or 0
    return ApiError(code, message or f"status {code}, no reason given", retry_seconds)


def _message(status: Object) -> str:
    return to_line(status.get("message") or status.get("reason"))[:_LONGEST_MESSAGE]


def _describe(error: HTTPError) -> str:
    """Describe an error, without the addresses of Python's objects."""
    return str(error).rpartition(">: ")[2][:_LONGEST_MESSAGE] or type(error).__name__
