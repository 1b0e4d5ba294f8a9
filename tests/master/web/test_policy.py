"""The headers of pages, and which origin a Grafana has."""

import pytest
from falcon.testing import TestClient

from master.web.policy import origin_of, page_headers
from tests.master.routes import ALL_ROUTES, WEB_ROUTES, fill


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
def test_the_origin_of_a_url(url: str, origin: str | None) -> None:
    assert origin_of(url) == origin


def directives(grafana_url: str | None) -> dict[str, str]:
    """Return the parts of the policy by their names."""
    policy = page_headers(grafana_url)["Content-Security-Policy"]
    return {name: rest for name, _, rest in (part.partition(" ") for part in policy.split("; "))}


def test_a_page_loads_what_is_ours_and_nothing_inline() -> None:
    found = directives(None)
    assert found["default-src"] == found["frame-src"] == found["frame-ancestors"] == "'none'"
    assert found["script-src"] == found["style-src"] == found["connect-src"] == "'self'"
    assert "unsafe" not in str(found)


def test_grafana_alone_may_be_framed() -> None:
    assert directives("https://example.com/grafana")["frame-src"] == "https://example.com"
    assert directives("no URL")["frame-src"] == "'none'"


def test_no_answer_is_taken_for_something_else(api: TestClient) -> None:
    for method, template in [*ALL_ROUTES, *WEB_ROUTES, ("GET", "/nowhere"), ("PATCH", "/runs")]:
        answer = api.simulate_request(method, fill(template))
        assert answer.headers["X-Content-Type-Options"] == "nosniff", template
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin", template


def test_a_browser_keeps_no_answer_of_the_api(api: TestClient) -> None:
    for method, template in [*ALL_ROUTES, ("GET", "/api/nowhere")]:
        answer = api.simulate_request(method, fill(template))
        assert answer.headers["Cache-Control"] == "no-store", template
