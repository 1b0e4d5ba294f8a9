"""A stack below a path prefix, behind real proxies: pages, command line and recorded jobs."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.servers import running
from mlbench.contract import names
from mlbench.local.home import Home
from tests.conftest import free_port, running_stack, wait_for
from tests.support.certificates import Certificates, make_certificates
from tests.support.debian import program
from tests.support.known import known
from tests.support.machines import host_address, two_machines
from tests.support.processes import run_text
from tests.web.watch import Watch

pytestmark = pytest.mark.slow

_EXAMPLES = Path(__file__).parents[2] / "examples" / "proxies"
_CLI = [str(Path(sys.executable).with_name("mlbench"))]


class Site:
    """A stack behind a proxy, from the view of its users."""

    def __init__(self, url: str, home: Home, certificate: Certificates, folder: Path) -> None:
        self.url = url
        self.home = home
        self._trust = certificate.context
        self.token = home.read_connection().token
        self.environ = {
            "PATH": "/usr/bin:/bin",
            names.ENV_HOME: str(folder),
            names.ENV_URL: url,
            names.ENV_TOKEN: self.token,
            "SSL_CERT_FILE": str(certificate.ca),
        }

    def is_up(self) -> bool:
        with suppress(httpx.HTTPError):
            return self.get("/healthz").is_success
        return False

    def get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.get(self.url + path, headers=headers, verify=self._trust)


@contextmanager
def _nginx(folder: Path, port: int, master_port: int, made: Certificates) -> Iterator[None]:
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    changes = {
        "443 ssl": f"127.0.0.1:{port} ssl",
        "127.0.0.1:8000": f"127.0.0.1:{master_port}",
        "ml.example.org;": "localhost;",
        "/etc/ssl/private/ml.example.org.pem": str(made.certificate),
        "/etc/ssl/private/ml.example.org.key": str(made.key),
    }
    config = folder / "nginx.conf"
    config.write_text(
        f"user root;\ndaemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{\naccess_log {folder}/access.log;\n{places}"
        f"{_documented('nginx.conf', changes)}}}\n"
    )
    with running("nginx", (program("nginx"), "-c", str(config), "-p", str(folder)), folder, {}):
        yield


@contextmanager
def _caddy(folder: Path, port: int, master_port: int, made: Certificates) -> Iterator[None]:
    changes = {
        "127.0.0.1:8000": f"127.0.0.1:{master_port}",
        "ml.example.org {": "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
        f"https://localhost:{port} {{\n\ttls {made.certificate} {made.key}",
    }
    config = folder / "Caddyfile"
    config.write_text(_documented("Caddyfile", changes))
    places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    with running("caddy", (program("caddy"), "run", "--config", str(config)), folder, places):
        yield


def _documented(name: str, changes: Mapping[str, str]) -> str:
    """Return the documented configuration of a proxy, with other ports, names, certificates."""
    config = (_EXAMPLES / name).read_text()
    for old, new in changes.items():
        assert old in config
        config = config.replace(old, new)
    return config


@pytest.fixture(scope="module", params=[_nginx, _caddy], ids=["nginx", "caddy"])
def site(
    request: pytest.FixtureRequest,
    prometheus_binary: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("proxy")
    certificate = make_certificates(folder, f"DNS:localhost,IP:{host_address()}")
    port = free_port()
    url = f"https://localhost:{port}/mlbench"
    public = {"MLBENCH_PUBLIC_URL": url, "MLBENCH_TRUSTED_PROXIES": "127.0.0.1"}
    with running_stack(prometheus_binary, folder / "stack", 2, **public) as home:
        master_port = urlsplit(home.read_connection().url).port
        with request.param(folder, port, master_port, certificate):
            site = Site(url, home, certificate, folder / "user")
            wait_for(site.is_up, 60.0, f"{url} responds")
            yield site


@pytest.fixture
def page(chromium: Browser, site: Site, watch: Watch) -> Iterator[Page]:
    """A page of a browser that accepts the certificate; any error in it fails the test."""
    context = chromium.new_context(ignore_https_errors=True)
    context.set_default_timeout(30_000)
    watch.follow(context)
    yield context.new_page()
    context.close()
    watch.check()


def test_pages_command_line_and_recorded_jobs_work_below_a_path(
    site: Site, page: Page, watch: Watch, tmp_path: Path
) -> None:
    run = [*_CLI, "run", "steps", "--workers", "2", "--set", "steps=50", "--set", "rate=100"]
    done = run_text(run, env=site.environ)
    assert done.returncode == 0, done.stderr
    code = (
        "import mlbench\nwith mlbench.Tracker() as t:\n    for i in range(30): t.step(1, loss=i)\n"
    )
    job = [*_CLI, "record", "--name", "job", "--", sys.executable, "-c", code]
    recorded = run_text(job, env=site.environ)
    assert recorded.returncode == 0, recorded.stderr
    assert f"{site.url}/runs/2" in recorded.stderr
    file = tmp_path / "job.csv"
    rows = run_text([*_CLI, "download", "2", "--output", str(file)], env=site.environ)
    assert rows.returncode == 0, rows.stderr
    assert file.read_text().count("\n") >= 30
    assert site.get("/openapi.json").json()["servers"] == [{"url": "/mlbench"}]

    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{site.url}/?token={site.token}")
    [cookie] = page.context.cookies()
    assert (cookie["path"], cookie["secure"]) == ("/mlbench", True)
    assert page.url == f"{site.url}/"
    pages = ("", "runs", "runs/1", "runs/1?tab=logs", "compare?runs=1,2", "sets", "workers")
    for path in (*pages, "workers/local-mlbench-worker-0"):
        page.goto(f"{site.url}/{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_load_state("networkidle")
        links = page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
        own = [link for link in links if urlsplit(link).netloc == urlsplit(site.url).netloc]
        assert own
        assert all(f"{link}/".startswith(f"{site.url}/") for link in own), own
    assert all(url.startswith((f"{site.url}/", "data:", "blob:")) for url in requested), requested

    page.goto(f"{site.url}/runs?new=1")
    page.get_by_role("dialog").get_by_role("button", name="Start run").click()
    page.wait_for_url(re.compile(rf"{site.url}/runs/3\b"))
    watch.expect("status of 401")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{site.url}/signin")
    page.goto(f"{site.url}/runs?query=steps")
    page.get_by_label("Token").fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site.url}/runs?query=steps")


def test_a_job_on_another_machine_is_recorded_through_the_proxy(
    site: Site, request: pytest.FixtureRequest
) -> None:
    if "caddy" in request.node.name:
        pytest.skip("Caddy serves only its own host name, which other machines cannot resolve")
    code = "import mlbench\nt = mlbench.Tracker()\nfor i in range(30): t.step(1, loss=i)\n"

    def run() -> dict[str, Any]:
        [found] = site.get("/api/runs/?query=far").json()
        return dict(found)

    with two_machines(known(urlsplit(site.url).port)) as machines:
        url = f"{machines.master_url.replace('http:', 'https:')}/mlbench"
        job = ["record", "--name", "far", "--", sys.executable, "-c", code]
        environ = {**site.environ, names.ENV_URL: url}
        recorded = run_text([*machines.enter[0], *_CLI, *job], env=environ)
        assert recorded.returncode == 0, recorded.stderr
        wait_for(lambda: run()["state"] == "FINISHED", what="the recording has been shipped")
        shown = run_text([*machines.enter[1], *_CLI, "status", str(run()["id"])], env=environ)
        assert "completed without a target" in shown.stdout, shown.stderr
    losses = site.get(f"/api/metrics/{run()['id']}/?metric_type=run&metric_filter=loss").json()
    assert len(losses["loss @ 0"]) == 30


def test_only_a_trusted_proxy_can_set_the_host(site: Site) -> None:
    """127.0.0.1 is the address of the trusted proxy, and 127.0.0.2 is not."""
    port = urlsplit(site.home.read_connection().url).port
    headers = {"Authorization": f"Bearer {site.token}", "X-Forwarded-Host": "evil.example.org"}
    url = f"http://127.0.0.1:{port}/api/runs/"
    assert httpx.get(url, headers=headers).status_code == 421
    other = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(transport=other) as client:
        assert client.get(url, headers=headers).status_code == 200
