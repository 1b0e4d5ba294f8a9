"""Requests to the Kubernetes API over HTTP, and messages of errors."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mlbench_master.pools.kubernetes_api import Api, KubernetesApiError
from tests.master.pools.proxy import Answer, Fault, Proxy, Request

PATH = "/api/v1/namespaces/here/pods"


class Recorder:
    """A cluster that records each request and returns an empty object."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answer = 200, b'{"kind": "Status"}'

    def __call__(self, request: Request) -> Answer:
        self.asked.append(request)
        status, body = self.answer
        return status, iter([body] if body else [])


@pytest.fixture
def cluster() -> Recorder:
    return Recorder()


def test_get_apply_and_delete_requests(proxy: Proxy, cluster: Recorder) -> None:
    api = Api()
    assert api.get(PATH, labelSelector="app=mlbench,release=r") == {"kind": "Status"}
    api.apply(f"{PATH}/a", {"kind": "Pod"})
    api.delete(f"{PATH}/a", "uid-1")
    api.delete(f"{PATH}/a", "uid-1", 0)
    got, applied, *deleted = cluster.asked
    assert (got.verb, got.path) == ("GET", PATH)
    assert got.query == {"labelSelector": "app=mlbench,release=r"}
    assert (applied.verb, applied.query) == ("PATCH", {"fieldManager": "mlbench", "force": "true"})
    assert applied.content == "application/apply-patch+yaml"
    assert json.loads(applied.body) == {"kind": "Pod"}
    assert [json.loads(request.body) for request in deleted] == [
        {"preconditions": {"uid": "uid-1"}},
        {"preconditions": {"uid": "uid-1"}, "gracePeriodSeconds": 0},
    ]


def test_deleting_a_deleted_object_succeeds(proxy: Proxy) -> None:
    for status in (404, 409):
        proxy.spoil = lambda request, status=status: Fault(status)  # type: ignore[misc]
        Api().delete(f"{PATH}/a", "uid-1")
    proxy.spoil = lambda request: Fault(403)
    with pytest.raises(KubernetesApiError):
        Api().delete(f"{PATH}/a", "uid-1")


def test_an_error_has_the_message_of_the_cluster(proxy: Proxy) -> None:
    counted: list[tuple[str, str]] = []
    proxy.spoil = lambda request: Fault(429, "slow down", {"Retry-After": "3"})
    with pytest.raises(KubernetesApiError, match=r"^slow down$") as refused:
        Api(lambda verb, status: counted.append((verb, status))).get(PATH)
    assert (refused.value.status, refused.value.retry_seconds) == (429, 3.0)
    assert counted == [("GET", "429")]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><body>Bad Gateway</body></html>", "status 502, without a reason"),
        (b"", "status 502, without a reason"),
        (b"Too many requests,\nplease try again later.\n", "Too many requests, please try again"),
    ],
)
def test_errors_of_an_http_proxy(proxy: Proxy, cluster: Recorder, body: bytes, words: str) -> None:
    cluster.answer = 502, body
    with pytest.raises(KubernetesApiError, match=f"^{words}") as refused:
        Api().get(PATH)
    assert str(refused.value).isprintable()


CALLS: list[Callable[[Api], object]] = [
    lambda api: api.get(PATH),
    lambda api: api.apply(PATH, {}),
    lambda api: list(api.watch(PATH, {}, 1)),
]


@pytest.mark.parametrize("call", CALLS)
def test_missing_responses(proxy: Proxy, call: Callable[[Api], object], tmp_path: Path) -> None:
    proxy.spoil = lambda request: Fault(0)
    with pytest.raises(KubernetesApiError, match=r"[Cc]onnection|closed") as cut:
        call(Api())
    Proxy(port=1).write_config(tmp_path / "config")
    with pytest.raises(KubernetesApiError, match="refused") as refused:
        call(Api())
    for error in (cut, refused):
        assert error.value.status == 0
        assert "object at 0x" not in str(error.value)


def test_a_slow_response_times_out(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Api._request, "__defaults__", (0.1,))
    proxy.spoil = lambda request: Fault(200, hang_seconds=1.0)
    for call in CALLS[:2]:
        with pytest.raises(KubernetesApiError, match="timed out"):
            call(Api())


def test_a_watch_of_a_hung_cluster_times_out(proxy: Proxy) -> None:
    proxy.spoil = lambda request: Fault(200, hang_seconds=3.0)
    began = time.monotonic()
    with pytest.raises(KubernetesApiError, match="timed out"):
        list(Api().watch(PATH, {}, 0))
    assert time.monotonic() - began < 3


def test_an_unreadable_token_is_a_readable_error(proxy: Proxy) -> None:
    """The file is missing for a moment while the kubelet rotates the token."""

    def read(settings: object) -> None:
        raise FileNotFoundError(2, "No such file", "token")

    api = Api()
    settings = api._client.configuration
    settings.api_key["BearerToken"] = "expired"
    settings.refresh_api_key_hook = read
    with pytest.raises(KubernetesApiError, match=r"cannot read this pod's own token: .*'token'"):
        api.get(PATH)


def test_a_missing_config_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubernetesApiError, match="cannot find the cluster's API"):
        Api()
