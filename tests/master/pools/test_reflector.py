"""A reflector follows the cluster's objects despite failures of its watches."""

import json
import threading
from collections.abc import Iterator

import pytest

from mlbench_master.pools.kubernetes_api import Api
from mlbench_master.pools.manifests import Object
from mlbench_master.pools.reflector import _WATCH_SECONDS, Reflector
from tests.conftest import wait_for
from tests.master.pools.proxy import Answer, Fault, Proxy, Request

PATH = "/api/v1/namespaces/here/pods"


def named(name: str, value: int = 0) -> Object:
    return {"metadata": {"name": name}, "value": value}


class Objects:
    """A cluster with a list of objects and scripted watch events."""

    def __init__(self) -> None:
        self.there: dict[str, Object] = {}
        self.events: list[bytes] = []
        self.silent = threading.Event()
        """Set to end the open watches, which send no further events."""

    def __call__(self, request: Request) -> Answer:
        if request.verb == "WATCH":
            assert request.query["resourceVersion"] == "7"
            return 200, self._watch()
        items = list(self.there.values())
        listed = {"metadata": {"resourceVersion": "7"}, "items": items}
        return 200, iter([json.dumps(listed).encode()])

    def _watch(self) -> Iterator[bytes]:
        yield from self.events
        self.silent.wait(20)

    def tell(self, kind: str, one: Object) -> None:
        """Add an event to the next watch."""
        self.events.append(json.dumps({"type": kind, "object": one}).encode() + b"\n")


@pytest.fixture
def cluster() -> Iterator[Objects]:
    cluster = Objects()
    yield cluster
    cluster.silent.set()


@pytest.fixture
def reflector(proxy: Proxy) -> Reflector[int]:
    return Reflector(Api(), PATH, {}, lambda one: int(one["value"]), lambda: None)


def lists(proxy: Proxy) -> int:
    return proxy.asked.count(("GET", "pods"))


def test_it_lists_and_then_watches(
    reflector: Reflector[int], cluster: Objects, stop: threading.Event
) -> None:
    assert reflector.seen is None
    cluster.there = {"a": named("a"), "b": named("b")}
    cluster.tell("ADDED", named("c", 3))
    cluster.tell("MODIFIED", named("a", 1))
    cluster.tell("DELETED", named("b"))
    # Events arrive split at any position.
    whole = b"".join(cluster.events)
    cluster.events = [whole[:10], whole[10:75], whole[75:]]
    reflector.start(stop)
    wait_for(lambda: reflector.seen == {"a": 1, "c": 3})


def test_it_lists_again_if_the_watch_is_silent(
    reflector: Reflector[int],
    cluster: Objects,
    monkeypatch: pytest.MonkeyPatch,
    stop: threading.Event,
) -> None:
    # A watch ends after _WATCH_SECONDS, or 1 s later if it hangs. At worst two in a row are silent.
    assert 2 * (_WATCH_SECONDS + 1) <= 30
    monkeypatch.setattr("mlbench_master.pools.reflector._WATCH_SECONDS", 0)
    reflector.start(stop)
    wait_for(lambda: reflector.seen == {})
    cluster.there = {"a": named("a", 5)}
    wait_for(lambda: reflector.seen == {"a": 5})
    assert reflector.trouble == ""


TOO_OLD = {"code": 410, "reason": "Expired", "message": "too old resource version"}


@pytest.mark.parametrize(
    "event",
    [
        json.dumps({"type": "ERROR", "object": TOO_OLD}).encode() + b"\n",
        *(b"no JSON\n", b"[]\n", b'{"type": "ADDED", "object": {}}\n'),
        b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n',
        *(Fault(410), Fault(0)),
    ],
)
def test_it_lists_again_if_a_watch_fails(
    reflector: Reflector[int],
    cluster: Objects,
    proxy: Proxy,
    event: bytes | Fault,
    stop: threading.Event,
) -> None:
    cluster.there = {"a": named("a", 1)}
    if isinstance(event, bytes):
        cluster.events = [event]
    else:
        proxy.spoil = lambda request: event if request.verb == "WATCH" else None
    reflector.start(stop)
    wait_for(lambda: lists(proxy) > 3)
    assert reflector.seen == {"a": 1}
    assert reflector.trouble == "", "lists succeed, so the watch error is not shown"


def test_trouble_and_its_end_are_logged_once(
    proxy: Proxy, cluster: Objects, caplog: pytest.LogCaptureFixture, stop: threading.Event
) -> None:
    caplog.set_level("INFO", "mlbench_master.pools.reflector")
    # A separate path, because reflectors of other tests run until the process ends.
    path = "/api/v1/namespaces/of-this-test-alone/pods"
    woken = threading.Event()
    reflector = Reflector(Api(), path, {}, lambda item: int(item["value"]), woken.set)
    proxy.spoil = lambda request: Fault(403, "pods is forbidden")
    reflector.start(stop)
    wait_for(lambda: lists(proxy) > 3)
    assert reflector.trouble == "pods is forbidden"
    assert not woken.is_set()
    cluster.there = {"a": {"metadata": {}}}
    proxy.spoil = lambda request: None
    wait_for(lambda: "cannot read" in reflector.trouble)
    cluster.there = {}
    wait_for(lambda: reflector.trouble == "" and reflector.seen == {})
    assert woken.is_set()
    messages = [record.getMessage() for record in caplog.records]
    assert [words for words in messages if path in words] == [
        f"cannot read the cluster ({path}): pods is forbidden",
        f"reading the cluster works again ({path})",
    ]


def test_it_continues_after_an_unexpected_error(
    proxy: Proxy, cluster: Objects, stop: threading.Event
) -> None:
    cluster.there = {"a": named("a", 2)}
    odd = [ZeroDivisionError("odd")]

    def read(item: Object) -> int:
        if odd:
            raise odd.pop()
        return int(item["value"])

    reflector = Reflector(Api(), PATH, {}, read, lambda: None)
    reflector.start(stop)
    wait_for(lambda: reflector.seen == {"a": 2})
    assert not odd
