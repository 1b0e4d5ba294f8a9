"""The master serves the runbook of each alert."""

import pytest
from falcon.testing import TestClient

from tests.support.rules import ROOT, read_rules

_PATHS = [alert["annotations"]["runbook"] for alert in read_rules("alert").values()]


@pytest.mark.parametrize("path", _PATHS)
def test_runbooks_are_public(api: TestClient, path: str) -> None:
    answer = api.simulate_get(f"/{path}")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == (ROOT / path).read_text()


@pytest.mark.parametrize("name", ["MLBenchNone", "..", "../README", "..%2F..%2FREADME", ""])
def test_other_names_are_not_found(api: TestClient, name: str) -> None:
    assert api.simulate_get(f"/docs/runbooks/{name}.md").status_code == 404
