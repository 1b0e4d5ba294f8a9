"""``docs/api.md``: every curl command works as printed and returns the printed response."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.conftest import wait_for

_PAGE = Path(__file__).parents[2] / "docs" / "api.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SET = "$URL/api/sets/doubled/\n"
# The controller submits the first run of a set shortly after its registration.
_UNTIL_SUBMITTED = (
    "until curl -su me:$TOKEN $URL/api/sets/doubled/ 2>/dev/null | grep -q run_id; "
    "do sleep 0.05; done\n"
)
# curl reads these options from a file, so that the commands stay as printed.
_CURLRC = r"""
silent
show-error
write-out = "%{stderr}%{method} %{url} %{http_code}\n"
"""


@dataclass(frozen=True)
class Sent:
    """A request sent by curl."""

    method: str
    path: str
    status: int


@dataclass(frozen=True)
class Shown:
    """A block of commands on the page, with its requests and output."""

    commands: str
    answer: Any
    """JSON that the page shows below the block, or None."""
    sent: list[Sent]
    output: str


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing: apt-get install curl")
def test_the_page_is_complete_and_its_commands_return_the_printed_responses(
    stack: Home, client: ApiClient, tmp_path: Path
) -> None:
    # A single test: otherwise each pytest process would run the whole page.
    page = type_in(stack, client, tmp_path)
    client.stop_set("doubled").result()  # The page has resumed it.
    check_status_codes(page)
    check_answers(page)
    check_operations(page)


def type_in(stack: Home, client: ApiClient, folder: Path) -> list[Shown]:
    """Run the page's commands in order in one shell."""
    wait_for(lambda: _knows_the_pods(stack), what="Prometheus has scraped the exporter")
    wait_for(lambda: _knows_its_size(client), what="Prometheus has scraped itself")
    # A run of another test may be ending.
    wait_for(lambda: all(p.run_id is None for p in client.get_worker_pods().result().value))
    (folder / ".curlrc").write_text(_CURLRC)
    blocks = _read()
    script = "".join(
        f"{_UNTIL_SUBMITTED * commands.endswith(_SET)}"
        f"{{\n{commands}}} >{number}.out 2>{number}.err\n"
        for number, (commands, _) in enumerate(blocks)
    )
    subprocess.run(
        ["bash"],
        input=script,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "CURL_HOME": str(folder), "MLBENCH_HOME": str(stack.root)},
        check=True,
        text=True,
    )
    return [
        Shown(
            commands,
            answer,
            [_parse(line) for line in (folder / f"{number}.err").read_text().splitlines()],
            (folder / f"{number}.out").read_bytes().decode(),
        )
        for number, (commands, answer) in enumerate(blocks)
    ]


def _knows_the_pods(stack: Home) -> bool:
    connection = stack.read_connection()
    answer = httpx.get(f"{connection.url}/api/metrics/", auth=("me", connection.token))
    return "container_cpu_usage_seconds_total" in answer.json().get("local-mlbench-worker-0", {})


def _knows_its_size(client: ApiClient) -> bool:
    prometheus = client.get_storage().result().value.prometheus
    return prometheus is not None and prometheus.bytes is not None


def _read() -> list[tuple[str, Any]]:
    """Return each block of commands with the JSON that follows it."""
    blocks: list[tuple[str, Any]] = []
    for language, text in _BLOCK.findall(_PAGE.read_text()):
        if language == "bash":
            blocks.append((text, None))
        else:
            commands, _ = blocks.pop()
            blocks.append((commands, json.loads(text)))
    return blocks


def _parse(line: str) -> Sent:
    method, url, status = line.split()
    return Sent(method, urlsplit(url).path, int(status))


def check_status_codes(page: list[Shown]) -> None:
    for shown in page:
        comment = re.search(r"# (\d{3})$", shown.commands, re.MULTILINE)
        for sent in shown.sent:
            expected = (int(comment[1]),) if comment else (200, 201, 204)
            assert sent.status in expected, f"{sent}\n{shown.commands}\n{shown.output}"
        assert len(shown.sent) >= shown.commands.count("curl ")


def check_answers(page: list[Shown]) -> None:
    printed = [shown for shown in page if shown.answer is not None]
    assert len(printed) > 5
    for shown in printed:
        assert_like(shown.answer, json.loads(shown.output), shown.commands)


def check_operations(page: list[Shown]) -> None:
    output = next(shown for shown in page if "openapi.json" in shown.commands).output
    document = output.rpartition("\n")[2]  # the metrics precede it
    missing = [
        operation["operationId"]
        for path, methods in json.loads(document)["paths"].items()
        for method, operation in methods.items()
        if not any(
            sent.method == method.upper()
            and re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), sent.path)
            for shown in page
            for sent in shown.sent
        )
    ]
    assert not missing


def assert_like(shown: Any, real: Any, where: str) -> None:
    """Check that an abbreviated response contains nothing that the real one lacks."""
    assert type(shown) is type(real), f"{where}: page shows {shown!r}, response is {real!r}"
    if isinstance(shown, dict):
        for key, entry in shown.items():
            assert key in real, f"{where}: response lacks {key!r}"
            assert_like(entry, real[key], where)
    elif isinstance(shown, list):
        assert len(shown) <= len(real), where
        for entry, real_entry in zip(shown, real, strict=False):
            assert_like(entry, real_entry, where)
