"""The kubelet source against a real HTTPS server: responses and failures."""

import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench_exporter.cadvisor import WorkerPods, parse
from mlbench_exporter.exported_series import SourceError
from mlbench_exporter.kubelet import PATH, KubeletSource
from tests.support.kubelet_server import (
    NAMESPACE,
    RELEASE,
    TEXT,
    Answer,
    Handler,
    KubeletServer,
    encode_piece,
    whole,
)

WORKERS = WorkerPods(NAMESPACE, RELEASE)
SECONDS = 20.0
"""Longer than any response in these tests takes."""
SHORT_SECONDS = 0.2
HALF = len(TEXT) // 2


@pytest.fixture
def kubelet(server: KubeletServer, account: Path) -> KubeletSource:
    token, ca = account / "token", account / "ca.crt"
    return KubeletSource("127.0.0.1", server.server_port, token, ca, SECONDS, WORKERS, "node1")


def test_a_replaced_token_is_used(server: KubeletServer, kubelet: KubeletSource) -> None:
    assert kubelet.read()
    server.token = "the-next"

    with pytest.raises(SourceError, match="401 Unauthorized"):
        kubelet.read()
    kubelet.token.write_text("the-next\n")

    assert kubelet.read()


def test_lines_may_be_split_between_pieces(
    kubelet: KubeletSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlbench_exporter.kubelet.PIECE_BYTES", 7)
    assert kubelet.read() == parse(TEXT.splitlines(), WORKERS, "node1")


def forbid(handler: Handler) -> None:
    handler.send_whole(b"Forbidden (user=exporter, verb=get, resource=nodes)", 403)


def answer_html(handler: Handler) -> None:
    handler.send_whole(b"<html><body>Sign in</body></html>\n")


def answer_a_broken_line(handler: Handler) -> None:
    handler.send_whole(re.sub(rb'(container_threads{[^}]*"team"[^}]*} )\d+', rb"\1many", TEXT))


def answer_no_http(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    handler.close_connection = True


def hang_up_amid_the_pieces(handler: Handler) -> None:
    handler.send_pieces(TEXT[:HALF])
    handler.close_connection = True


def end_amid_the_last_line(handler: Handler) -> None:
    whole(handler, TEXT[: TEXT.index(b"\nmachine_memory_bytes") + 60])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (forbid, "403 Forbidden: Forbidden (user=exporter, verb=get, resource=nodes)"),
        (answer_html, "incomplete response: metrics of"),
        (answer_a_broken_line, "could not convert string to float: b'many'"),
        (answer_no_http, "BadStatusLine"),
        (hang_up_amid_the_pieces, "IncompleteRead"),
        (end_amid_the_last_line, "incomplete response"),
    ],
)
def test_an_incomplete_response_is_an_error(
    answer: Answer, message: str, server: KubeletServer, kubelet: KubeletSource
) -> None:
    server.answer = answer

    with pytest.raises(SourceError, match=re.escape(message)) as raised:
        kubelet.read()

    assert str(raised.value).startswith(f"https://127.0.0.1:{server.server_port}{PATH}: ")
    server.answer = whole
    assert kubelet.read(), "the failure affects the next reading"


def stop_amid_the_pieces(handler: Handler) -> None:
    handler.send_pieces(TEXT[:HALF])
    handler.server.stopped.wait(SECONDS)


def trickle(handler: Handler) -> None:
    handler.begin_pieces()
    while not handler.server.stopped.wait(SHORT_SECONDS / 20):
        handler.wfile.write(encode_piece(b"# \n"))


def trickle_the_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.server.stopped.wait(SHORT_SECONDS / 20):
        handler.wfile.write(b"x")


@pytest.mark.parametrize("answer", [stop_amid_the_pieces, trickle, trickle_the_head])
def test_a_slow_response_times_out(
    answer: Answer, server: KubeletServer, kubelet: KubeletSource
) -> None:
    server.answer = answer
    start = time.monotonic()

    with pytest.raises(SourceError, match=r"no complete response within 0\.2 s"):
        replace(kubelet, timeout_seconds=SHORT_SECONDS).read()

    assert time.monotonic() - start < SECONDS / 2


def test_a_reading_leaves_no_timer_running(server: KubeletServer, kubelet: KubeletSource) -> None:
    patient = replace(kubelet, timeout_seconds=600)
    before = set(threading.enumerate())
    assert patient.read()
    server.answer = answer_html
    with pytest.raises(SourceError):
        patient.read()

    timers = [
        t for t in threading.enumerate() if t not in before and isinstance(t, threading.Timer)
    ]
    for timer in timers:
        timer.join(SECONDS)  # a cancelled timer ends as soon as it runs
    assert not [timer for timer in timers if timer.is_alive()]


def test_the_size_of_a_response_is_limited(
    server: KubeletServer, kubelet: KubeletSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flood(handler: Handler) -> None:
        handler.begin_pieces()
        while not handler.server.stopped.is_set():
            handler.wfile.write(encode_piece(bytes(1 << 16)))

    monkeypatch.setattr("mlbench_exporter.kubelet.MAX_BYTES", 1 << 20)
    server.answer = flood

    with pytest.raises(SourceError, match="more than 1 MB"):
        kubelet.read()


def test_a_certificate_of_another_host_is_refused(kubelet: KubeletSource) -> None:
    with pytest.raises(SourceError, match="Hostname mismatch"):
        replace(kubelet, host="localhost").read()


@pytest.mark.parametrize("file", ["token", "ca.crt"])
def test_a_missing_file_is_named(file: str, kubelet: KubeletSource) -> None:
    path = kubelet.token.with_name(file)
    path.unlink()

    with pytest.raises(SourceError, match=re.escape(str(path))):
        kubelet.read()
