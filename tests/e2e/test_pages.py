"""Web pages served by the image: sign-in and all resources of a page."""

import re
from urllib.parse import urljoin

import httpx

from tests.e2e.release import Release


def test_a_browser_signs_in_and_loads_a_page(release: Release) -> None:
    with httpx.Client(base_url=release.url) as browser:
        entered = browser.get("/runs", params={"token": release.token()})
        assert (entered.status_code, entered.headers["Location"]) == (303, "/runs")
        page = browser.get("/runs")
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
        assert loaded
        version = re.match(r"/static/\w+/", loaded[0])
        assert version
        for path in [*loaded, urljoin(version[0], "vendor/uPlot.esm.js")]:
            assert browser.get(path).is_success, path
        assert browser.get("/api/runs/").is_success, "the cookie must be sufficient"
        assert browser.get("/api/info/").json()["pool"] == "kubernetes"
