"""``api.js``: calls of the REST API, whose errors say which field is wrong."""

import json

import pytest
from playwright.sync_api import Page, Route

from mlbench.home import Connection
from tests.web.conftest import sign_in
from tests.web.js.conftest import Call, call_in
from tests.web.watch import Watch

_MODULE = "js/api.js"
# What a call answers, or the error that it raises.
_TRY = """async (api) => {
    try {
        return await %s;
    } catch (error) {
        return { message: error.message, status: error.status, isPassing: error.isPassing };
    }
}"""


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ("{}", ""),
        ("{ a: null, b: undefined }", ""),
        ("{ tail: 0, search: 'a&b c', on: false }", "?tail=0&search=a%26b+c&on=false"),
        ("{ metric_filter: ['loss', 'Prec@1'] }", "?metric_filter=loss&metric_filter=Prec%401"),
    ],
)
def test_parameters_end_the_url(compute: Call, params: str, text: str) -> None:
    assert compute(_MODULE, f"({{ query }}) => query({params})") == text


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("name: too long", {"name": "too long"}),
        ("name: long; num_workers: at most 4", {"name": "long", "num_workers": "at most 4"}),
        ("args.goal: light_target says 90", {"args.goal": "light_target says 90"}),
        ("run 3 (first) is active", {"": "run 3 (first) is active"}),
    ],
)
def test_a_message_is_told_by_field(compute: Call, message: str, fields: object) -> None:
    script = "({ ApiError }, message) => new ApiError(message, 400).fields"
    assert compute(_MODULE, script, message) == fields


def test_a_field_keeps_the_whole_of_its_message(compute: Call) -> None:
    """Some messages have a semicolon of their own."""
    message = "num_cpus: whole cores only (not 1.5); seed: steps takes no seed; leave it out"
    script = "({ ApiError }, message) => new ApiError(message, 400).fields"
    assert compute(_MODULE, script, message) == {
        "num_cpus": "whole cores only (not 1.5)",
        "seed": "steps takes no seed; leave it out",
    }


def test_an_answer_is_read(page: Page, connection: Connection) -> None:
    sign_in(page, connection)
    pods = call_in(page)(_MODULE, "({ get }) => get('/api/pods/')")
    assert [pod["name"] for pod in pods] == ["local-mlbench-worker-0", "local-mlbench-worker-1"]


def test_a_refusal_has_message_and_status(page: Page, connection: Connection, watch: Watch) -> None:
    sign_in(page, connection)
    watch.expect("status of 404")
    watch.expect("status of 400")
    call = call_in(page)
    missing = call(_MODULE, _TRY % "api.get('/api/runs/99999/')")
    assert (missing["status"], missing["isPassing"]) == (404, False)
    wrong = call(_MODULE, _TRY % "api.post('/api/runs/', { name: 'Not a name' })")
    assert wrong["status"] == 400
    assert wrong["message"].startswith("name: ")


@pytest.mark.parametrize("status", [502, 503])
def test_an_answer_that_is_no_json_may_pass(
    page: Page, connection: Connection, watch: Watch, status: int
) -> None:
    """Such as a proxy gives, while the master behind it starts."""
    sign_in(page, connection)
    watch.expect(rf"status of {status}|pods/ {status}")

    def answer(route: Route) -> None:
        route.fulfill(status=status, body="<h1>Bad gateway</h1>", content_type="text/html")

    page.route("**/api/pods/", answer)
    assert call_in(page)(_MODULE, _TRY % "api.get('/api/pods/')")["isPassing"]


def test_no_answer_may_pass(page: Page, connection: Connection, watch: Watch) -> None:
    sign_in(page, connection)
    watch.expect("ERR_CONNECTION_REFUSED")
    page.route("**/api/pods/", lambda route: route.abort("connectionrefused"))
    error = call_in(page)(_MODULE, _TRY % "api.get('/api/pods/')")
    assert error == {"message": "The master gives no answer", "status": 0, "isPassing": True}


def test_what_was_deleted_answers_nothing(page: Page, connection: Connection) -> None:
    sign_in(page, connection)
    page.route("**/api/runs/7/", lambda route: route.fulfill(status=204))
    assert call_in(page)(_MODULE, "({ remove }) => remove('/api/runs/7/')") is None


def test_a_body_is_sent_as_json(page: Page, connection: Connection) -> None:
    sign_in(page, connection)
    sent: list[object] = []

    def answer(route: Route) -> None:
        sent.append((route.request.method, json.loads(route.request.post_data or "")))
        route.fulfill(json={"id": 1})

    page.route("**/api/runs/", answer)
    answered = call_in(page)(_MODULE, "({ post }) => post('/api/runs/', { name: 'ü' })")
    assert (answered, sent) == ({"id": 1}, [("POST", {"name": "ü"})])
