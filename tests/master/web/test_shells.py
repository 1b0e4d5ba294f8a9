"""Errors: a page for a browser, JSON for everyone else and of the API."""

from falcon.testing import TestClient


def test_a_browser_gets_a_page_with_a_way_home(browser: TestClient) -> None:
    answer = browser.simulate_get("/nonsense")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Vary"] == "Accept"
    assert "Content-Security-Policy" in answer.headers
    assert "There is no such page" in answer.text
    assert '<a href="/">' in answer.text


def test_a_program_gets_json(api: TestClient) -> None:
    answer = api.simulate_get("/nonsense")
    assert answer.json == {"status": 404, "message": "404 Not Found"}
    assert answer.headers["Vary"] == "Accept"


def test_the_api_answers_everyone_as_usual(browser: TestClient) -> None:
    answer = browser.simulate_get("/api/nonsense")
    assert (answer.status_code, answer.json["status"]) == (404, 404)


def test_what_is_wrong_is_told(browser: TestClient) -> None:
    answer = browser.simulate_get("/", headers={"Host": "<b>example.com"})
    assert answer.status_code == 421
    assert "$MLBENCH_ALLOWED_HOSTS adds others" in answer.text
    assert "<b>" not in answer.text
