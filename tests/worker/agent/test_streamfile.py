"""Files of streams: no byte that was appended is lost, and what is taken back is noticed."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from worker.agent.streamfile import LogFile, MetricsFile

_FACTS = b'{"time": 1.5, "machine": {"hostname": "h"}}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture
def metrics(path: Path) -> MetricsFile:
    """One with the agent's own line, which has been read."""
    made = MetricsFile.create(path)
    made.append(_FACTS)
    assert made.read(0, 1000) == _FACTS
    return made


@pytest.fixture
def log(path: Path) -> LogFile:
    """One of which 9 bytes have been read."""
    made = LogFile.create(path)
    path.write_bytes(b"one\ntwo\nt")
    assert made.read(0, 9) == b"one\ntwo\nt"
    return made


def test_what_is_appended_is_read_by_offset(metrics: MetricsFile, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"12345")
    begin = len(_FACTS)
    assert metrics.read(begin, 2) == b"12"
    assert metrics.read(begin + 2, 100) == b"345"
    assert metrics.read(begin, 100) == b"12345", "the master may want it again"
    assert (metrics.size(), metrics.failure) == (begin + 5, "")


def test_without_a_name_it_is_read_on(metrics: MetricsFile, path: Path) -> None:
    with path.open("ab") as file:
        path.unlink()
        file.write(b"12345")
    assert metrics.read(len(_FACTS), 100) == b"12345"
    assert metrics.failure == ""


def test_the_agents_line_counts_as_read_before_it_is(path: Path) -> None:
    made = MetricsFile.create(path)
    made.append(_FACTS)
    path.write_bytes(_FACTS.replace(b"1.5", b"2.5"))
    assert made.read(0, 100) == b""
    assert made.failure.startswith("its metrics file was overwritten by the command: open it for ")
    assert made.size() == 0, "what was shipped is all that there will be"


def test_it_says_by_how_much_it_was_cut_short(metrics: MetricsFile, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x" * 2400)
    size = len(_FACTS) + 2400
    assert metrics.size() == size
    os.truncate(path, 0)
    metrics.check()
    assert f"was cut short from {size:,} to 0 bytes by the command" in metrics.failure


def test_what_was_read_last_is_looked_at_again(metrics: MetricsFile, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x" * 1000)
    metrics.read(len(_FACTS), 1000)
    with path.open("r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"y")
    metrics.check()
    assert "was overwritten" in metrics.failure


def test_a_log_goes_on_where_it_was_cut(log: LogFile, path: Path) -> None:
    path.write_bytes(b"new")
    assert log.size() == 9 + 3
    assert log.read(9, 100) == b"new"
    with path.open("ab") as file:
        file.write(b"er")
    assert log.read(12, 100) == b"er"
    assert log.size() == 9 + 5


def test_a_log_that_was_cut_before_the_master_had_it_goes_on_from_what_it_has(
    log: LogFile, path: Path
) -> None:
    path.write_bytes(b"new")
    assert log.size() == 12
    assert log.read(4, 100) == b"new", "five bytes are gone for good"
    assert log.size() == 4 + 3


@pytest.mark.parametrize("make", [None, os.mkfifo, os.mkdir])
def test_what_is_missing_or_no_file_has_ended(
    make: Callable[[Path], None] | None, path: Path
) -> None:
    if make is not None:
        make(path)
    for found in (LogFile.find(path), MetricsFile.find(path)):
        assert (found.read(0, 100), found.size()) == (b"", 0)
        found.close()


def test_what_a_former_agent_left_is_read(log: LogFile, path: Path) -> None:
    assert LogFile.find(path).read(4, 100) == b"two\nt"


def test_a_file_without_end_is_not_read(metrics: MetricsFile, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"12345")
    os.truncate(path, 1 << 40)
    begin = len(_FACTS)
    assert metrics.read(begin, 5) == b"12345"
    assert metrics.read(begin + (1 << 20), 100) == b""
    assert metrics.failure == "its metrics file was made longer without being written"


def test_words_that_have_no_room_leave_no_half(metrics: MetricsFile, path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(_FACTS) + 10, before[1]))
    try:
        with pytest.raises(OSError, match="no space for 20 bytes"):
            metrics.append(b"x" * 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == _FACTS
    metrics.check()
    assert metrics.failure == ""
