"""Kubernetes API, by the official client: every call has a timeout, every error a message."""

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


class KubernetesApiError(MLBenchError):
    """The cluster refuses a request, or does not respond."""

    def __init__(self, status: int, message: str, retry_seconds: float = 0.0) -> None:
        """Take the status of the response; 0 without a response."""
        super().__init__(message)
        self.status = status
        self.retry_seconds = retry_seconds
        """Seconds that the cluster asks clients to wait (``Retry-After``)."""


class Api:
    """API of the cluster in which this process runs, or which ``$KUBECONFIG`` names.

    All methods raise KubernetesApiError if the cluster refuses, or does not respond.
    """

    def __init__(self, count: Callable[[str, str], None] = lambda verb, status: None) -> None:
        """Read the configuration of the cluster.

        Args:
            count: called with the verb and the status of each request.

        Raises:
            KubernetesApiError: no configuration of a cluster was found.
        """
        settings = Configuration()
        # Callers retry.
        settings.retries = False
        try:
            if "KUBERNETES_SERVICE_HOST" in os.environ:
                load_incluster_config(client_configuration=settings)
            else:
                load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=settings)
        except ConfigException as error:
            raise KubernetesApiError(0, f"cannot find the cluster's API: {error}") from error
        # No discovery, because it has no timeout, and all paths are known.
        self._client = DynamicClient(ApiClient(settings), discoverer=lambda *_: None)
        self._count = count

    def get(self, path: str, **query: str) -> Object:
        """Return an object, or a list of them."""
        return _read(self._request("GET", path, query))

    def apply(self, path: str, desired: Object) -> Object:
        """Create an object or change it to the desired state (server-side apply), and return it."""
        query = {"fieldManager": "mlbench", "force": "true"}
        apply = "application/apply-patch+yaml"
        return _read(self._request("PATCH", path, query, body=desired, content_type=apply))

    def delete(self, path: str, uid: str, grace_seconds: int | None = None) -> None:
        """Delete an object if it exists and still has this uid.

        ``grace_seconds``: time that it has to end; None for its default.
        """
        options: Object = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            _read(self._request("DELETE", path, {}, body=options))
        except KubernetesApiError as error:
            # These statuses mean that it was deleted already.
            if error.status not in (404, 409):
                raise

    def watch(
        self, path: str, query: Mapping[str, str], seconds: int
    ) -> Iterator[tuple[str, Object]]:
        """Yield changed objects with the kind of change, for at most this many seconds."""
        query = {**query, "watch": "1", "timeoutSeconds": str(seconds)}
        answer = self._request("WATCH", path, query, read_seconds=seconds + 1)
        try:
            for line in filter(None, iter_resp_lines(answer)):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise KubernetesApiError(status.get("code", 0), _message(status))
                yield event["type"], event["object"]
        except HTTPError as error:
            raise KubernetesApiError(0, _describe(error)) from error
        except (ValueError, KeyError, TypeError) as error:
            raise KubernetesApiError(0, f"cannot read its response: {error!r}") from error
        finally:
            answer.close()

    def _request(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        read_seconds: float = 15.0,
        **options: Any,
    ) -> BaseHTTPResponse:
        """Send a request, and return the response before its body is read."""
        status = "error"
        try:
            answer: BaseHTTPResponse = self._client.request(
                "GET" if verb == "WATCH" else verb,
                path,
                query_params=list(query.items()),
                serialize=False,
                _request_timeout=(5.0, read_seconds),
                **options,
            )
            status = str(answer.status)
        except ApiException as error:
            status = str(error.status or status)
            retry_after = str((error.headers or {}).get("Retry-After", ""))
            retry_seconds = float(retry_after) if retry_after.isdecimal() else 0.0
            raise KubernetesApiError(error.status or 0, _reason(error), retry_seconds) from error
        except HTTPError as error:
            raise KubernetesApiError(0, _describe(error)) from error
        except (OSError, ConfigException) as error:
            # The client reads the pod's token again, because it is renewed every hour.
            raise KubernetesApiError(0, f"cannot read this pod's own token: {error}") from error
        finally:
            self._count(verb, status)
        return answer


def _read(answer: BaseHTTPResponse) -> Object:
    try:
        item: Object = json.loads(answer.data)
    except HTTPError as error:
        raise KubernetesApiError(0, _describe(error)) from error
    except ValueError as error:
        raise KubernetesApiError(0, f"its response is not JSON: {error}") from error
    finally:
        answer.release_conn()
    return item


def _reason(error: ApiException) -> str:
    """Return why the cluster refused a request."""
    body = error.body if error.status else error.reason
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    try:
        message = _message(json.loads(text))
    except (ValueError, AttributeError):
        # A proxy between the pod and the cluster responds in HTML, which nobody wants to read.
        message = "" if text.strip().startswith("<") else _message({"message": text})
    return message or f"status {error.status or 0}, without a reason"


def _message(status: Object) -> str:
    return to_line(status.get("message") or status.get("reason"))


def _describe(error: HTTPError) -> str:
    """Return an error's message without the addresses of Python objects."""
    return to_line(str(error).rpartition(">: ")[2]) or type(error).__name__
