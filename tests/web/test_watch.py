"""What goes wrong in a page fails its test."""

from collections.abc import Mapping

import pytest
from playwright.sync_api import Browser, Route

from tests.web.watch import Watch

_URL = "http://page.test/"
_POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:"
_PAGE = '<link rel="icon" href="data:,"><body><script src="script"></script>'


def _visit(chromium: Browser, script: str, answers: Mapping[str, int]) -> Watch:
    """Return what was noted of a page that runs a script and fetches paths that answer so."""

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(_URL)
        if path == "page":
            headers = {"Content-Security-Policy": _POLICY}
            route.fulfill(body=_PAGE, content_type="text/html", headers=headers)
        elif path == "script":
            route.fulfill(body=script, content_type="text/javascript")
        elif path in answers:
            route.fulfill(status=answers[path])
        else:
            route.abort("connectionrefused")

    watch = Watch()
    with chromium.new_context() as context:
        watch.follow(context)
        context.route("**/*", answer)
        page = context.new_page()
        page.goto(f"{_URL}page")
        page.wait_for_load_state("networkidle")
    return watch


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("console.error('broken')", "console error: broken"),
        ("console.warn('old')", "console warning: old"),
        ("setTimeout(() => { throw new Error('thrown') })", "uncaught: thrown"),
        ("Promise.reject(new Error('refused'))", "uncaught: refused"),
        ("document.body.innerHTML = '<p style=\"color: red\">'", "console error: .*style"),
        (
            "document.body.innerHTML = '<img src=\"//elsewhere.test/\">'",
            "console error: .*img",
        ),
        ("fetch('away').catch(() => null)", "failed: GET http://page.test/away"),
        ("fetch('missing')", "console error: .*404"),
        ("fetch('broken')", "answer: GET http://page.test/broken 500"),
    ],
)
def test_a_fault_is_noted(chromium: Browser, script: str, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        _visit(chromium, script, {"missing": 404, "broken": 500}).check()


def test_a_good_page_has_none(chromium: Browser) -> None:
    _visit(chromium, "fetch('there')", {"there": 200}).check()


def test_what_is_expected_is_no_fault(chromium: Browser) -> None:
    watch = _visit(chromium, "fetch('missing')", {"missing": 404})
    watch.expect("404")
    watch.check()


def test_what_is_expected_must_happen(chromium: Browser) -> None:
    watch = _visit(chromium, "fetch('there')", {"there": 200})
    watch.expect("404")
    with pytest.raises(AssertionError, match="no '404'"):
        watch.check()


@pytest.mark.parametrize("path", ["there", "missing"])
def test_what_is_allowed_may_happen_or_not(chromium: Browser, path: str) -> None:
    watch = _visit(chromium, f"fetch('{path}')", {"there": 200, "missing": 404})
    watch.allow("404")
    watch.check()
