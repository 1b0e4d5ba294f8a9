"""A rank that writes without end costs bounded room: the start and the end of its log are held."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.home import Home
from tests.conftest import running_stack
from tests.support.stacks import order_command, run_to_end

pytestmark = pytest.mark.slow

_LOG_BYTES = 1 << 20
_LINES = 2_500_000
# 250 MB in a few seconds.
_WRITE = f"""
import sys
for first in range(0, {_LINES}, 10_000):
    sys.stdout.write("".join(f"line {{n:>94}}\\n" for n in range(first, first + 10_000)))
"""


@pytest.fixture
def small_stack(prometheus_binary: Path, tmp_path: Path) -> Iterator[Home]:
    """A local stack that holds little of each log."""
    with running_stack(
        prometheus_binary, tmp_path / "stack", workers=1, MLBENCH_LOG_BYTES=str(_LOG_BYTES)
    ) as home:
        yield home


def test_of_a_long_log_the_start_and_the_end_are_held(small_stack: Home, tmp_path: Path) -> None:
    script = tmp_path / "write.py"
    script.write_text(_WRITE)
    with ApiClient.from_home(small_stack) as client:
        run = run_to_end(client, order_command(client, "chatty", f"{sys.executable} {script}"))
        assert run.state == "FINISHED", run.reason
        whole = tmp_path / "whole.txt"
        with whole.open("wb") as file:
            client.download_log(run.id, file)
        pages, offset, complete = [], 0, False
        while not complete:
            page = client.get_logs(run.id, offset=offset).result().value
            assert page.start == offset
            pages.append(page.text)
            offset, complete = page.offset, page.complete
        last = client.get_logs(run.id, tail=1).result().value
    assert offset == _LINES * 100
    text = whole.read_text()
    assert "".join(pages) == text
    start, said, end = text.partition("… ")
    count, said, end = end.partition(" bytes left out here …\n")
    assert said
    held = len(start.rstrip("\n")) + len(end)
    assert int(count.replace(",", "")) + held in (offset, offset - 1)
    assert _LOG_BYTES <= held <= _LOG_BYTES + (1 << 20)
    assert start.startswith(f"line {0:>94}\n")
    assert last.text == f"line {_LINES - 1:>94}\n" == end[-100:]
    assert small_stack.database.stat().st_size < 12 << 20
