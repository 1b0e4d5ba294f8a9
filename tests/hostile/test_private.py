"""Privacy of the stack's files and endpoints from other users, and safety of CSV exports."""

import csv
import io
import stat
from contextlib import suppress
from pathlib import Path

import httpx
from falcon.testing import TestClient

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.chain.test_scraped import addresses
from tests.support.rows import make_pod
from tests.support.stacks import files_of, order_steps, run_to_end


def test_other_users_cannot_read_the_home(stack: Home) -> None:
    with ApiClient.from_home(stack) as client:
        run = order_steps(client, "private", num_workers=1, steps=10, rate=100)
        assert run_to_end(client, run).state == "FINISHED"
    assert stat.S_IMODE(stack.root.stat().st_mode) == 0o700
    modes: dict[Path, int] = {}
    for path in files_of(stack):
        with suppress(FileNotFoundError):  # deleted in the meantime
            modes[path.relative_to(stack.root)] = path.stat().st_mode
    open_files = {path for path, mode in modes.items() if mode & 0o077}
    assert not open_files, "files must be private even without the private folder"
    assert stack.database.stat().st_mode & 0o777 == 0o600


def test_a_home_of_an_older_version_becomes_private(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir(mode=0o755)
    Home(root).make()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_world_writable_sticky_folder_stays_unchanged(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    Home(tmp_path).make()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_metrics_are_refused_for_foreign_host_names(stack: Home) -> None:
    jobs = ("master", "controller", "exporter", "workers")
    with httpx.Client() as client:
        for address in (address for job in jobs for address in addresses(stack, job)):
            for host, status in {
                "localhost:1": 200,
                "[::1]:1": 200,
                "rebound.example.com": 421,
                "127.0.0.1.example.com:80": 421,
            }.items():
                answer = client.get(f"http://{address}/metrics", headers={"Host": host})
                assert answer.status_code == status, (address, host)


def test_csv_cells_are_not_formulas(api: TestClient) -> None:
    pod = make_pod()
    posted = {"pod_name": pod, "name": "=HYPERLINK(1)", "date": "2026-01-01T00:00:00Z"}
    for value in ("-1.5", "=1+1"):
        answer = api.simulate_post("/api/metrics/", json=posted | {"value": value})
        assert answer.status_code == 201, answer.text
    answer = api.simulate_get(f"/api/metrics/{pod}/", params={"format": "csv"})
    cells = [(row["series"], row["value"]) for row in csv.DictReader(io.StringIO(answer.text))]
    assert sorted(cells) == [("'=HYPERLINK(1)", "'=1+1"), ("'=HYPERLINK(1)", "-1.5")]
