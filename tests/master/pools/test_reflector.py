"""A reflector keeps up with a cluster, whatever becomes of its watches."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.pools.api import Api
from master.pools.reflector import _WATCH_SECONDS, Reflector
from tests.master.pools.proxy import Answer, Fault, Object, Proxy, Request, serve
from tests.master.pools.test_kubernetes import until

PATH = "/api/v1/namespaces/here/pods"


def named(name: str, value: int = 0) -> Object:
    return {"metadata": {"name": name}, "value": value}


class Objects:
    """A cluster that lists what there is, and whose watches say what they are told to."""

    def __init__(self) -> None:
        self.there: dict[str, Object] = {}
        self.events: list[bytes] = []
        self.silent = threading.Event()
        """Set to end a watch; until then it says nothing more."""

    def __call__(self, request: Request) -> Answer:
        """Answer a list or a watch."""
        if request.verb == "WATCH":
            assert request.query["resourceVersion"] == "7"
            return 200, self._watch()
        items = list(self.there.values())
        return 200, iter(
            [json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()]
        )

    def _watch(self) -> Iterator[bytes]:
        yield from self.events
        self.silent.wait(20)

    def tell(self, kind: str, one: Object) -> None:
        """Have the next watch say this."""
        self.events.append(json.dumps({"type": kind, "object": one}).encode() + b"\n")


@pytest.fixture
def objects() -> Iterator[Objects]:
    objects = Objects()
    yield objects
    objects.silent.set()


@pytest.fixture
def proxy(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr("master.pools.reflector._FIRST_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr("master.pools.reflector._LONGEST_PATIENCE_SECONDS", 0.05)
    with serve(objects) as proxy:
        proxy.write_config(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        yield proxy


@pytest.fixture
def reflector(proxy: Proxy) -> Reflector[int]:
    return Reflector(Api(), PATH, {}, lambda one: int(one["value"]), lambda: None)


def lists(proxy: Proxy) -> int:
    return proxy.asked.count(("GET", "pods"))


def test_it_lists_and_then_watches(
    reflector: Reflector[int], objects: Objects, stop: threading.Event
) -> None:
    assert reflector.seen() is None
    objects.there = {"a": named("a"), "b": named("b")}
    objects.tell("ADDED", named("c", 3))
    objects.tell("MODIFIED", named("a", 1))
    objects.tell("DELETED", named("b"))
    reflector.start(stop)
    until(lambda: reflector.seen() == {"a": 1, "c": 3}, reflector.seen)


def test_events_in_pieces_are_put_together(
    reflector: Reflector[int], objects: Objects, stop: threading.Event
) -> None:
    objects.tell("ADDED", named("a", 1))
    objects.tell("ADDED", named("b", 2))
    whole = b"".join(objects.events)
    objects.events = [whole[:10], whole[10:75], whole[75:]]
    reflector.start(stop)
    until(lambda: reflector.seen() == {"a": 1, "b": 2}, reflector.seen)


def test_it_lists_again_though_the_watch_says_nothing(
    reflector: Reflector[int],
    objects: Objects,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    stop: threading.Event,
) -> None:
    monkeypatch.setattr("master.pools.reflector._WATCH_SECONDS", 1)
    reflector.start(stop)
    until(lambda: reflector.seen() == {})
    objects.there = {"a": named("a", 5)}
    until(lambda: reflector.seen() == {"a": 5})
    assert reflector.trouble() == ""


def test_no_watch_lasts_longer_than_a_list_is_good_for() -> None:
    # It ends by itself, and where it hangs one second later; then one more silent one, at worst.
    assert 2 * (_WATCH_SECONDS + 1) <= 30


TOO_OLD = {"code": 410, "reason": "Expired", "message": "too old resource version"}


@pytest.mark.parametrize(
    "event",
    [
        json.dumps({"type": "ERROR", "object": TOO_OLD}).encode() + b"\n",
        b"no JSON\n",
        b"[]\n",
        b'{"type": "ADDED", "object": {}}\n',
        b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n',
    ],
)
def test_it_starts_over_when_a_watch_goes_wrong(
    reflector: Reflector[int], objects: Objects, proxy: Proxy, event: bytes, stop: threading.Event
) -> None:
    objects.there = {"a": named("a", 1)}
    objects.events = [event]
    reflector.start(stop)
    until(lambda: lists(proxy) > 3)
    assert reflector.seen() == {"a": 1}
    assert reflector.trouble() == "", "the lists go well"


@pytest.mark.parametrize("fault", [Fault(410), Fault(500), Fault(403), Fault(0)])
def test_where_it_cannot_watch_it_lists(
    reflector: Reflector[int], objects: Objects, proxy: Proxy, fault: Fault, stop: threading.Event
) -> None:
    proxy.spoil = lambda request: fault if request.verb == "WATCH" else None
    reflector.start(stop)
    until(lambda: reflector.seen() == {})
    objects.there = {"a": named("a", 5)}
    until(lambda: reflector.seen() == {"a": 5})


def test_trouble_is_said_once_and_when_it_is_over(
    proxy: Proxy, caplog: pytest.LogCaptureFixture, stop: threading.Event
) -> None:
    caplog.set_level("INFO", "master.pools.reflector")
    # Those of other tests look on until the process ends.
    path = "/api/v1/namespaces/of-this-test-alone/pods"
    reflector = Reflector(Api(), path, {}, lambda one: int(one["value"]), lambda: None)
    proxy.spoil = lambda request: Fault(403, "pods is forbidden")
    reflector.start(stop)
    until(lambda: lists(proxy) > 3)
    assert reflector.trouble() == "pods is forbidden"
    proxy.spoil = lambda request: None
    until(lambda: reflector.trouble() == "" and reflector.seen() == {})
    said = [record.getMessage() for record in caplog.records]
    assert [words for words in said if path in words] == [
        f"the cluster cannot be seen ({path}): pods is forbidden",
        f"the cluster can be seen again ({path})",
    ]


def test_a_list_that_cannot_be_read_is_trouble(
    reflector: Reflector[int], objects: Objects, stop: threading.Event
) -> None:
    objects.there = {"a": {"metadata": {}}}
    reflector.start(stop)
    until(lambda: "cannot be read" in reflector.trouble())
    objects.there = {"a": named("a", 2)}
    until(lambda: reflector.seen() == {"a": 2})


def test_it_looks_on_whatever_goes_wrong(
    proxy: Proxy, objects: Objects, stop: threading.Event
) -> None:
    objects.there = {"a": named("a", 2)}
    odd = [ZeroDivisionError("odd")]

    def read(one: Object) -> int:
        if odd:
            raise odd.pop()
        return int(one["value"])

    reflector = Reflector(Api(), PATH, {}, read, lambda: None)
    reflector.start(stop)
    until(lambda: reflector.seen() == {"a": 2})
    assert not odd


def test_who_waits_is_woken(proxy: Proxy, objects: Objects, stop: threading.Event) -> None:
    woken = threading.Event()
    Reflector(Api(), PATH, {}, lambda one: 0, woken.set).start(stop)
    assert woken.wait(20)
