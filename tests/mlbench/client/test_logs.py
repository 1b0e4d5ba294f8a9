"""Calls about logs: each against the real master."""

import io

import pytest

from mlbench import ApiClient
from mlbench.client import ApiError, LogMatch, Run


def test_a_log_is_read_from_an_offset_or_by_its_last_lines(
    client: ApiClient, finished: Run
) -> None:
    whole = client.get_logs(finished.id, rank=1).result().value
    assert whole.text.startswith("step 100 of 200: ")
    assert (whole.rank, whole.stream, whole.complete) == (1, "stdout", True)
    assert (whole.start, whole.offset, whole.size) == (0, len(whole.text), len(whole.text))
    rest = client.get_logs(finished.id, rank=1, offset=10).result().value
    assert (rest.text, rest.start) == (whole.text[10:], 10)
    tail = client.get_logs(finished.id, rank=1, tail=1).result().value
    assert tail.text == whole.text.splitlines(keepends=True)[-1]
    assert client.get_logs(finished.id, rank=1, stream="stderr").result().value.text == ""


def test_a_log_is_read_upwards(client: ApiClient, finished: Run) -> None:
    whole = client.get_logs(finished.id).result().value
    last = client.get_logs(finished.id, tail=1).result().value
    first = client.get_logs(finished.id, before=last.start).result().value
    assert (first.start, first.offset) == (0, last.start)
    assert first.text + last.text == whole.text


def test_a_log_is_searched(client: ApiClient, finished: Run) -> None:
    whole = client.get_logs(finished.id, rank=1).result().value
    lines = whole.text.splitlines()
    found = client.search_logs(finished.id, "STEP", 1).result().value
    assert found.matches == (LogMatch(0, lines[0]), LogMatch(len(lines[0]) + 1, lines[1]))
    assert (found.start, found.offset, found.size) == (0, whole.size, whole.size)
    assert (found.rank, found.stream, found.attempt, found.complete) == (1, "stdout", 1, True)
    later = client.search_logs(finished.id, "step", 1, offset=len(lines[0]) + 1).result().value
    assert later.matches == found.matches[1:]


def test_a_log_is_downloaded(client: ApiClient, finished: Run) -> None:
    file, told = io.BytesIO(), []
    written = client.download_log(
        finished.id, file, 1, on_progress=lambda received, total: told.append((received, total))
    )
    whole = client.get_logs(finished.id, rank=1).result().value
    assert file.getvalue() == whole.text.encode()
    assert written == whole.size
    assert told[-1] == (whole.size, whole.size)


def test_the_log_of_an_attempt(client: ApiClient, finished: Run) -> None:
    latest = client.get_logs(finished.id).result().value
    assert client.get_logs(finished.id, attempt=1).result().value == latest
    for wrong in (
        client.get_logs(finished.id, attempt=2),
        client.search_logs(finished.id, "x", attempt=2),
    ):
        with pytest.raises(ApiError, match="has attempts 1 to 1"):
            wrong.result()
    with pytest.raises(ApiError, match="has attempts 1 to 1"):
        client.download_log(finished.id, io.BytesIO(), attempt=2)
