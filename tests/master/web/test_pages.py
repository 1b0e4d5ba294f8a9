"""Pages: public, without data, with security headers; browsers get errors as pages."""

import re
from urllib.parse import urldefrag, urljoin

import pytest
from falcon.testing import TestClient
from falcon.testing.helpers import DEFAULT_HOST

from mlbench_master.database.models import Run
from mlbench_master.web.rendering import origin_of, page_headers
from mlbench_master.web.static_assets import load
from tests.master.routes import ALL_ROUTES, PAGES, WEB_ROUTES, fill

PATHS = [fill(template) for _, template in PAGES]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_public_and_its_links_work(browser: TestClient, path: str) -> None:
    answer = browser.simulate_get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Set-Cookie" not in answer.headers
    assert answer.text.startswith("<!doctype html>")
    for name, value in page_headers(None).items():
        assert answer.headers[name] == value
    links = set(re.findall(r'\s(?:src|href)="([^"]+)"', answer.text))
    assert f"{load().prefix}/style.css" in links
    for link in links:
        assert link.startswith(("/", "?", "#")), link
        url = urldefrag(urljoin(path, link)).url
        if not url.startswith("/api/"):
            assert browser.simulate_get(url).status_code == 200, url
    # The Content-Security-Policy blocks inline styles and scripts; JSON data is allowed.
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", answer.text)
    scripts = re.findall(r"<script([^>]*)>", answer.text)
    assert all("src=" in tag or 'type="application/json"' in tag for tag in scripts)


def test_pages_contain_no_data(browser: TestClient, run: Run) -> None:
    for path in ("/", "/runs", f"/runs/{run.id}", "/compare"):
        assert run.name not in browser.simulate_get(path).text
    assert browser.simulate_get("/runs/99999").status_code == 200


def test_pages_are_refused_for_foreign_hosts(browser: TestClient) -> None:
    for method, template in PAGES:
        answer = browser.simulate_request(method, template, headers={"Host": "example.com"})
        assert answer.status_code in {404, 421}, template
    assert DEFAULT_HOST in browser.simulate_get("/", headers={"Host": "example.com"}).text


# --- Errors ---


def test_browsers_get_errors_as_pages_with_a_link_home(browser: TestClient) -> None:
    answer = browser.simulate_get("/nonsense")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Vary"] == "Accept"
    assert "Content-Security-Policy" in answer.headers
    assert "Page not found" in answer.text
    assert '<a href="/">' in answer.text
    assert browser.simulate_get("/api/nonsense").json["status"] == 404, "JSON for the API"
    escaped = browser.simulate_get("/", headers={"Host": "<b>example.com"}).text
    assert "Allow others with $MLBENCH_ALLOWED_HOSTS" in escaped
    assert "<b>" not in escaped


# --- Headers ---


def test_every_response_has_the_security_headers(api: TestClient) -> None:
    for method, template in [*ALL_ROUTES, *WEB_ROUTES, ("GET", "/nowhere"), ("PATCH", "/runs")]:
        answer = api.simulate_request(method, fill(template))
        assert answer.headers["X-Content-Type-Options"] == "nosniff", template
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin", template
        assert answer.headers["Cache-Control"] == "no-store", template


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
        ("https://example.com/grafana/", "https://example.com"),
        ("http://[::1]:3000/x", "http://[::1]:3000"),
        ("grafana:3000", None),
        ("javascript:alert(1)", None),
        ("http://", None),
        ("http://a; script-src *", None),
        ("http://me:secret@host", None),
        ("", None),
    ],
)
def test_only_the_origin_of_grafana_may_be_framed(url: str, origin: str | None) -> None:
    assert origin_of(url) == origin
    policy = page_headers(url)["Content-Security-Policy"]
    found = {name: rest for name, _, rest in (part.partition(" ") for part in policy.split("; "))}
    assert found["frame-src"] == " ".join(filter(None, ["'self'", origin]))
    assert found["default-src"] == found["frame-ancestors"] == "'none'"
    assert found["script-src"] == found["style-src"] == found["connect-src"] == "'self'"
    assert "unsafe" not in policy
