"""Requests over real connections: retries, timeouts, and addresses with tokens."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from ssl import SSLContext

import httpx
import pytest

from mlbench import ApiClient, MLBenchError
from mlbench.client import transport
from mlbench.client.transport import pause_before_retry
from mlbench.contract.errors import ApiError, NoResponseError
from tests.conftest import free_port, wait_for
from tests.support.scripted import Reply, serving

_CUT = Reply(status=None)
_FULL = Reply(503, {"message": "the spool is full"}, (("Retry-After", "0"),))


@pytest.mark.parametrize(("url", "loads"), [("http://there", False), ("https://there", True)])
def test_tls_loads_certificates(monkeypatch: pytest.MonkeyPatch, url: str, loads: bool) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(SSLContext, "load_verify_locations", lambda *_, **some: loaded.append(some))
    ApiClient(url=url).close()
    assert bool(loaded) == loads


# --- Retries. ---


@pytest.mark.parametrize("trouble", [_CUT, _FULL])
def test_reads_and_posts_are_repeated_unchanged(trouble: Reply) -> None:
    with serving(trouble, trouble, Reply()) as master, ApiClient(url=master.url) as client:
        assert client.get_runs().result().value == []
    assert [asked.method for asked in master.asked] == ["GET"] * 3
    point = Reply(201, {"date": "2018-08-03T09:21:29.347000Z", "value": "1"})
    with serving(trouble, point) as master, ApiClient(url=master.url) as client:
        assert client.post_metric(1, "loss", 1).result().value.number == 1
    first, second = master.asked
    assert first.body == second.body, "the body must be unchanged, so that it is stored once"
    assert set(json.loads(first.body)) == {"run_id", "name", "value", "date"}
    # So is the start of a download.
    file = io.BytesIO()
    with serving(trouble, Reply(200, b"content")) as master, ApiClient(url=master.url) as client:
        client.download(1, file)
    assert file.getvalue() == b"content"


def test_a_body_may_change_after_the_call() -> None:
    unit = {"unit": "s"}
    point = Reply(201, {"date": "", "value": ""}, seconds=0.1)
    with serving(point) as master, ApiClient(1, url=master.url) as client:
        for unit["unit"] in ("s", "ms"):
            client.post_metric(1, "time", 1, metadata=unit)
    assert [json.loads(asked.body)["metadata"]["unit"] for asked in master.asked] == ["s", "ms"]


@pytest.mark.parametrize(("trouble", "error"), [(_CUT, NoResponseError), (_FULL, ApiError)])
def test_creation_and_deletion_are_sent_once(trouble: Reply, error: type[Exception]) -> None:
    with serving(trouble) as master, ApiClient(url=master.url) as client:
        for asked in (client.create_run("a", 2), client.delete_run(1)):
            with pytest.raises(error):
                asked.result()
    assert sorted(asked.method for asked in master.asked) == ["DELETE", "POST"]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        *((status, b'{"message": "name: too long"}', "name: too long") for status in (400, 503)),
        (502, b"<h1>no JSON</h1>", "502 Bad Gateway"),
        (404, b"File not found", "unlike a master. Is it another server?"),
        *((200, body, "not a valid response") for body in (b"<h1>", b"[{}]", b'{"a": 1}', b"[1]")),
    ],
)
def test_refusals_and_invalid_bodies_are_final(status: int, body: bytes, message: str) -> None:
    with serving(Reply(status, body)) as server, ApiClient(url=server.url) as client:
        with pytest.raises(ApiError, match=message) as error:
            client.get_runs().result()
        assert error.value.status == status
    assert len(server.asked) == 1


def test_a_silent_master_causes_a_timeout() -> None:
    with serving(Reply(seconds=60)) as master:
        client = ApiClient(url=master.url, timeout_seconds=0.2)
        with client, pytest.raises(NoResponseError, match="timed out"):
            client.get_runs().result()
    assert len(master.asked) == 1


# --- The retry rule, without waiting. ---


def response(status: int, retry_after: str | None = None) -> httpx.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx.Response(status, headers=headers, request=httpx.Request("GET", "http://master/"))


@pytest.mark.parametrize(
    ("outcome", "if_repeatable", "if_not"),
    [
        (httpx.ConnectError("refused"), 0.2, 0.2),
        *(
            (error, 0.2, None)
            for error in (httpx.ReadError("reset"), httpx.RemoteProtocolError(""))
        ),
        *((error("silence"), None, None) for error in (httpx.ReadTimeout, httpx.ConnectTimeout)),
        (response(503, "5"), 5.0, None),
        *((response(503, pause), None, None) for pause in ("11", "soon", None)),
        *((response(500, "3"), None, None), (response(200), None, None)),
    ],
)
def test_pause_before_retry(
    outcome: httpx.Response | httpx.RequestError, if_repeatable: float | None, if_not: float | None
) -> None:
    assert pause_before_retry(outcome, 1, 0.0, repeatable=True) == if_repeatable
    assert pause_before_retry(outcome, 1, 0.0, repeatable=False) == if_not
    assert pause_before_retry(outcome, 4, 0.0, repeatable=True) is None, "after four tries"
    assert pause_before_retry(outcome, 1, 10.0, repeatable=True) is None, "after ten seconds"


# --- Connections. ---


def test_a_connection_is_reused_and_no_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with serving(Reply()) as master, ApiClient(url=master.url) as client:
        for _ in range(5):
            assert client.get_runs().result().value == []
    assert len({asked.connection for asked in master.asked}) == 1


def test_requests_are_concurrent_and_threads_may_share_a_client() -> None:
    with serving(Reply(seconds=60)) as master, ApiClient(url=master.url) as client:
        with ThreadPoolExecutor(5) as threads:
            asked = list(threads.map(lambda _: client.get_runs(), range(5)))
        wait_for(lambda: len(master.asked) == 5, what="all requests are sent")
        assert not any(future.done() for future in asked)
        master.hurry.set()
        assert [future.result().value for future in asked] == [[]] * 5


def test_an_error_in_the_block_cancels_unsent_requests() -> None:
    with serving(Reply(seconds=0.5)) as master:
        client = ApiClient(1, url=master.url)
        asked = [client.get_runs() for _ in range(3)]
        client.__exit__(KeyError, KeyError(), None)
        assert asked[-1].cancelled()


def test_an_unreachable_master_is_named_without_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_PAUSES_SECONDS", ())
    place = f"127.0.0.1:{free_port()}"
    problem = f"the master at http://{place} does not"
    client = ApiClient(url=f"user:SECRET@{place}")
    with client, pytest.raises(NoResponseError, match=problem) as error:
        client.get_runs().result()
    assert "`mlbench up` starts it" in str(error.value)
    assert "SECRET" not in str(error.value)


# --- Addresses and tokens ---


@pytest.mark.parametrize(
    ("user", "token", "variable", "sent"),
    [
        ("user:from%40url@", "argument", "variable", "Bearer argument"),
        ("user:from%40url@", None, "variable", "Bearer from@url"),
        ("", None, "variable", "Bearer variable"),
        ("", None, "", None),
    ],
)
def test_a_token_argument_precedes_address_and_variable(
    monkeypatch: pytest.MonkeyPatch, user: str, token: str | None, variable: str, sent: str | None
) -> None:
    monkeypatch.setenv("MLBENCH_TOKEN", variable)
    with serving(Reply()) as master:
        url = f"{user}127.0.0.1:{master.port}/some/path"
        with ApiClient(url=url, token=token) as client:
            client.get_runs().result()
        for other in ("http://127.0.0.1:9", "malformed url"):  # the token belongs to that address
            monkeypatch.setenv("MLBENCH_URL", other)
            with ApiClient(url=url, token=token) as client:
                client.get_runs().result()
    asked, *beside_another = master.asked
    left = None if sent == "Bearer variable" else sent
    assert [request.headers.get("Authorization") for request in beside_another] == [left, left]
    assert asked.path == "/some/path/api/runs/"
    assert asked.headers.get("Authorization") == sent


@pytest.mark.parametrize("url", ["", "http://", "host:port", "ftp://host", "user:token@", "a b"])
def test_a_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(MLBenchError, match=r"url: must be host:port or http\(s\)://host:port"):
        ApiClient(url=url)
