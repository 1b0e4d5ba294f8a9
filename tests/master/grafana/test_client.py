"""Asking Grafana: addresses, tokens, and errors that say what to do."""

import base64
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from master.grafana.client import Grafana, GrafanaError, RefusedError, UnavailableError
from tests.conftest import free_port
from tests.master.grafana.rules import Fault, GrafanaState
from tests.master.grafana.server import ADMIN, GrafanaServer


def check(url: str, token: str = ADMIN, timeout_seconds: float = 5.0) -> None:
    """Ask for Grafana's health, and for something that takes a token."""
    grafana = Grafana(url, token, timeout_seconds=timeout_seconds)
    try:
        grafana.check()
        grafana.find_folder("mlbench")
    finally:
        grafana.close()


# --- Addresses. ---


@pytest.mark.parametrize("end", ["", "/", "/?orgId=1"])
def test_the_address_is_that_of_the_first_page(server: GrafanaServer, end: str) -> None:
    check(f"{server.url}{end}")


@pytest.fixture
def below_a_path() -> Iterator[GrafanaServer]:
    server = GrafanaServer(GrafanaState(), path="/tools/grafana")
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("end", ["", "/"])
def test_grafana_may_be_served_below_a_path(below_a_path: GrafanaServer, end: str) -> None:
    check(f"{below_a_path.url}{end}")
    assert [path for _, path, _ in below_a_path.state.log] == ["/health", "/folders/mlbench"]


def test_where_there_is_no_grafana_it_is_told(below_a_path: GrafanaServer) -> None:
    wrong = below_a_path.url.removesuffix("/tools/grafana")
    with pytest.raises(UnavailableError, match=f"there is no Grafana at {wrong}"):
        check(wrong)
    with pytest.raises(UnavailableError, match=f"there is no Grafana at {below_a_path.url}/login"):
        check(f"{below_a_path.url}/login")


@pytest.mark.parametrize("url", ["", "grafana:3000", "ftp://grafana", "http://", "http://a:b@host"])
def test_what_is_no_address_is_told_and_no_password_repeated(url: str) -> None:
    with pytest.raises(GrafanaError, match="address must be like http://HOST:3000") as error:
        Grafana(url, ADMIN)
    assert "a:b" not in str(error.value)


def test_a_redirect_is_told_not_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        grafana = Grafana(url, ADMIN)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(
                    b"HTTP/1.1 301 Moved\r\nLocation: https://secure/\r\nContent-Length: 0\r\n\r\n"
                )

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UnavailableError, match="leads to https://secure/: give that address"):
            grafana.check()
        thread.join()
        grafana.close()


# --- Tokens. ---


def test_a_user_with_a_password_is_a_token_too(server: GrafanaServer) -> None:
    check(server.url, "admin:pass:wörd")


def test_a_token_may_end_with_a_line(server: GrafanaServer) -> None:
    check(server.url, f"{ADMIN}\n")


@pytest.mark.parametrize("token", ["glsa_wrong", "admin:wrong", "nobody:pass"])
def test_a_wrong_token_is_told_and_not_repeated(server: GrafanaServer, token: str) -> None:
    with pytest.raises(RefusedError, match="does not know the token") as error:
        check(server.url, token)
    encoded = base64.b64encode(token.encode()).decode()
    assert token not in str(error.value)
    assert encoded not in str(error.value)


@pytest.mark.parametrize("token", ["", "\n"])
def test_a_missing_token_is_told(server: GrafanaServer, token: str) -> None:
    with pytest.raises(GrafanaError, match=r"set \$GRAFANA_TOKEN"):
        Grafana(server.url, token)


# --- What goes wrong. ---


def test_a_grafana_that_is_down_is_told() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UnavailableError, match=f"Grafana at {url} cannot be reached"):
        check(url)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hang", "does not answer within 0.2 s"),
        ("garbage", "there is no Grafana at"),
        ("error page", "there is no Grafana at"),
        ("list", "there is no Grafana at"),
        ("500", "does not work now: Server Error 500: database is locked"),
    ],
)
def test_a_grafana_that_does_not_work_is_told(
    server: GrafanaServer, state: GrafanaState, fault: Fault, said: str
) -> None:
    state.fault = fault
    began = time.monotonic()
    with pytest.raises(UnavailableError, match=said):
        check(server.url, timeout_seconds=0.2)
    assert time.monotonic() - began < 5, "it was not waited for"


@pytest.mark.parametrize("fault", ["garbage", "error page", "list"])
def test_no_answer_of_a_wrong_kind_is_taken(
    grafana: Grafana, state: GrafanaState, fault: Fault
) -> None:
    state.fault = fault
    for ask in (
        lambda: grafana.find_folder("mlbench"),
        grafana.data_sources,
        lambda: grafana.find_dashboard("mlbench-run"),
        lambda: grafana.annotations(["mlbench"], 1, 2),
    ):
        with pytest.raises(UnavailableError):
            ask()


def test_requests_are_counted_by_how_they_went(server: GrafanaServer, state: GrafanaState) -> None:
    outcomes: list[str] = []
    grafana = Grafana(server.url, ADMIN, outcomes.append)
    grafana.check()
    assert grafana.find_folder("mlbench") is None, "to have nothing is an answer"
    state.fault = "500"
    with pytest.raises(UnavailableError):
        grafana.check()
    grafana.close()
    assert outcomes == ["done", "done", "failed"]


# --- Annotations, as Grafana finds them. ---


def test_annotations_are_found_by_all_their_tags_and_their_time(grafana: Grafana) -> None:
    base = 1_763_683_200_000
    grafana.annotate(base, ["mlbench", "run:1", "started"], "one")
    grafana.annotate(base + 5000, ["mlbench", "run:1", "finished"], "two")
    grafana.annotate(base, ["mlbench", "run:11", "started"], "other")
    found = grafana.annotations(["mlbench", "run:1"], base - 1, base + 1)
    assert [(one["text"], one["time"]) for one in found] == [("one", base)]
