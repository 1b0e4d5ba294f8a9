"""Which master is meant: what the environment says, and what is wrong with it."""

from pathlib import Path

import pytest

from mlbench.client.connection import find_connection
from mlbench.errors import MLBenchError, NotConnectedError
from mlbench.home import Connection, Home

_URL = "http://10.0.0.7:8000"
_LOCAL = Connection("http://127.0.0.1:8000", "local", "http://127.0.0.1:9090")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a local stack."""
    Home(tmp_path).write_connection(_LOCAL)
    return {"MLBENCH_HOME": str(tmp_path)}


def test_by_default_it_is_the_local_stack(environ: dict[str, str]) -> None:
    assert find_connection(environ) == _LOCAL
    assert find_connection({**environ, "MLBENCH_URL": "", "MLBENCH_TOKEN": ""}) == _LOCAL


@pytest.mark.parametrize("url", [_URL, f"{_URL}/", "10.0.0.7:8000", "mlbench:other@10.0.0.7:8000"])
def test_address_and_token_lead_elsewhere(environ: dict[str, str], url: str) -> None:
    found = find_connection({**environ, "MLBENCH_URL": url, "MLBENCH_TOKEN": "t"})
    assert found == Connection(_URL, "t", prometheus_url=None, elsewhere=True)


def test_the_address_may_carry_the_token() -> None:
    found = find_connection({"MLBENCH_URL": "https://mlbench:in%40side@example.com/bench/"})
    assert (found.url, found.token) == ("https://example.com/bench", "in@side")


def test_what_is_beside_it_may_be_named() -> None:
    beside = {"MLBENCH_PROMETHEUS_URL": "http://p:1", "GRAFANA_URL": "http://g:2"}
    found = find_connection({"MLBENCH_URL": _URL, "MLBENCH_TOKEN": "t", **beside})
    assert (found.prometheus_url, found.grafana_url) == ("http://p:1", "http://g:2")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"MLBENCH_TOKEN": "t"}, r"\$MLBENCH_TOKEN is set and \$MLBENCH_URL is not"),
        ({"MLBENCH_URL": _URL}, r"\$MLBENCH_URL is set and \$MLBENCH_TOKEN is not"),
    ],
)
def test_one_without_the_other_is_told(
    environ: dict[str, str], given: dict[str, str], message: str
) -> None:
    with pytest.raises(NotConnectedError, match=message):
        find_connection({**environ, **given})


def test_what_is_no_address_is_told() -> None:
    with pytest.raises(MLBenchError, match=r"^\$MLBENCH_URL is 'ftp://x': url: it must be"):
        find_connection({"MLBENCH_URL": "ftp://x", "MLBENCH_TOKEN": "t"})
