"""A local stack with an existing Prometheus: its gaps are named, and its data is kept."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlbench import ApiClient
from mlbench.contract.login import Login
from mlbench.contract.names import ENV_PROMETHEUS_URL
from mlbench.local import prometheus_check
from mlbench.local.home import Home
from tests.conftest import PrometheusServer, free_port, wait_for
from tests.mlbench.cli.conftest import Done, Mlbench
from tests.support.places import in_prometheus, write_labelled
from tests.support.stacks import assert_complete, order_steps, run_to_end

_WINDOW = "storage: {tsdb: {out_of_order_time_window: 24h}}\n"

Serve = Callable[..., PrometheusServer]


@pytest.fixture
def serve(prometheus_binary: Path, tmp_path: Path) -> Iterator[Serve]:
    """Function that starts an existing Prometheus with options and settings of its server."""
    with ExitStack() as servers:

        def serve(*options: str, login: Login | None = None) -> PrometheusServer:
            folder = tmp_path / "theirs"
            folder.mkdir()
            (folder / "prometheus.yml").write_text(_WINDOW)
            server = PrometheusServer(prometheus_binary, folder, free_port(), login=login)
            server.start(*options)
            servers.callback(server.kill)
            return server

        yield serve


def up(mlbench: Mlbench, server: PrometheusServer) -> Done:
    """Start a stack with this Prometheus. The stack has no Prometheus program."""
    done = mlbench.process("up", "--detach", "--workers", "1", "--port", str(free_port()))
    assert done.code == 0, done.err
    assert f"  Prometheus  http://127.0.0.1:{server.port}  (not started by the stack)\n" in done.out
    return done


def with_prometheus(mlbench: Mlbench, server: PrometheusServer) -> Mlbench:
    nowhere = Path("/nowhere/prometheus")
    return replace(mlbench, prometheus=nowhere, more={ENV_PROMETHEUS_URL: server.url})


def train(home: Home, name: str) -> int:
    """Train and seal a run; return its ID."""
    with ApiClient.from_home(home) as client:
        run = run_to_end(client, order_steps(client, name, num_workers=1, steps=20, rate=1000))
        assert run.state == "FINISHED", run.reason
        wait_for(lambda: client.get_run(run.id).result().value.archive, what="the run is sealed")
        return run.id


@pytest.mark.slow
def test_an_existing_prometheus_gets_everything_and_keeps_its_data(
    alone: Mlbench, serve: Serve, tmp_path: Path
) -> None:
    server = serve("--web.enable-admin-api", login=Login("team", "p@ss/word"))
    now_ms = time.time_ns() // 1_000_000
    assert write_labelled(server.url, ({"__name__": "theirs"}, [(now_ms, 1.0)])).is_success
    mlbench, home = with_prometheus(alone, server), alone.home
    try:
        missing = up(mlbench, server).err.splitlines()
        found = [line.partition(": It ")[2].partition(",")[0] for line in missing]
        assert found == ["lacks MLBench's rules", "does not scrape master"]
        # Add the missing parts to the configuration.
        rules, jobs = home.prometheus / "rules" / "*.yml", home.scrape_jobs
        assert f"Add {rules} to rule_files" in missing[0]
        assert f"Add the jobs of {jobs} to scrape_configs" in missing[1]
        config = f"{_WINDOW}rule_files: ['{rules}']\n{jobs.read_text()}"
        (server.folder / "prometheus.yml").write_text(config)
        server.kill()
        server.start("--web.enable-admin-api")
        wait_for(lambda: not mlbench("status").err, what="nothing is missing")
        shown = mlbench("status").output
        assert f"Prometheus  http://127.0.0.1:{server.port}  (not started by the stack)\n" in shown

        first, second = train(home, "first"), train(home, "second")
        with ApiClient.from_home(home) as client:
            assert_complete(client, client.get_run(first).result().value, steps=20)
            public = client.get_info().result().value.prometheus_url
            assert public == f"http://127.0.0.1:{server.port}", "users must not get the password"
        assert in_prometheus(server.url, first)
        usage = 'container_cpu_usage_seconds_total{pod="local-mlbench-worker-0"}'
        wait_for(lambda: ask(server, usage), what="the exporter is scraped")

        saved = mlbench("backup", str(tmp_path / "runs.zip"), "--json")
        assert '"has_prometheus": false' in saved.out
        assert not (server.folder / "data" / "snapshots").exists()
        assert mlbench("delete", "--yes", str(second)).code == 0
    finally:
        assert alone("down").output == "stopped\n"
    assert ask(server, "theirs"), "it must still run with its other series"
    assert in_prometheus(server.url, first)
    assert not (home.prometheus / "data").exists()


def test_settings_that_a_prometheus_lacks_are_named() -> None:
    answers: dict[str, Any] = {"status/flags": {}, "status/config": {"yaml": _WINDOW}}
    receiver, _ = prometheus_check.missing_settings(answers.__getitem__)
    remedy = "Start it with --web.enable-remote-write-receiver."
    assert receiver == f"It takes no samples. {remedy}"
    answers["status/config"]["yaml"] = "out_of_order_time_window: 22h59m"
    assert "late samples" in prometheus_check.missing_settings(answers.__getitem__)[1]


def test_a_server_other_than_prometheus_is_reported(tmp_path: Path) -> None:
    [problem] = prometheus_check.check(f"http://u:secret@127.0.0.1:{free_port()}", Home(tmp_path))
    assert problem.startswith("It does not respond as a Prometheus does (")
    assert "secret" not in problem


def ask(server: PrometheusServer, query: str) -> object:
    """Return the result of a query over the last hour."""
    params = {"query": f"last_over_time({query}[1h])"}
    answer = httpx.get(f"{server.url}/api/v1/query", params=params)
    return answer.raise_for_status().json()["data"]["result"]
