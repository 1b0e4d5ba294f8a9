"""The app as a whole: every route, with and without slash, and never a 5xx for bad input."""

import json
import random
from urllib.parse import quote

import pytest
from falcon.testing import TestClient

from master.models import Run
from master.recording import streams
from tests.conftest import AGENT_TOKEN
from tests.master.making import key, make_pod, make_ranks, make_run
from tests.master.routes import AGENT_ROUTES, ALL_ROUTES, Route, fields, fill

AGENT = {"Authorization": f"Bearer {AGENT_TOKEN}"}

ODD = [
    "",
    " ",
    "0",
    "-1",
    "1.5",
    "1e9",
    "+1",
    "1_000",
    "٣",
    "NaN",
    "Infinity",
    "null",
    "true",
    "[]",
    "{}",
    str(2**31),
    str(2**63 - 1),
    str(2**63),
    str(-(2**63) - 1),
    "9" * 5_000,
    "0" * 5_000 + "1",
    "1e400",
    "-1e300",
    "9" * 18,
    "x" * 50_000,
    "\x00",
    "\n",
    "\r\n",
    "'; DROP TABLE run; --",
    '"} or up{x="',
    ".*",
    "../../etc/passwd",
    "ü 𝄞",
    "\u202e",
    "%",
    "%zz",
    "{run_id}",
]
NESTED: object = 1
for _ in range(300):
    NESTED = [NESTED]
ODD_VALUES: list[object] = [
    *ODD,
    None,
    True,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    -(2**63) - 1,
    10**30,
    10**4_000,
    1e308,
    -1e300,
    {"metrics": -1},
    {"stdout": 2**63},
    NESTED,
    float("nan"),
    float("-inf"),
    [],
    [[]],
    {},
    {"a": {"a": {}}},
    "\ud800",
]
ODD_BODIES = [
    b"",
    b" ",
    b"no JSON",
    b"{",
    b"[]",
    b"[{}]",
    b"3",
    b"null",
    b'"text"',
    b"\xff\xfe",
    b"\x00",
    b"NaN",
    b"name=a&benchmark=steps",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'[{"name":' + b"[" * 990 + b"]" * 990 + b"}]",
    b'[{"name":"a","value":1e400,"date":"2018-08-03","run_id":1}]',
    b'[{"name":"a","value":' + b"9" * 5_000 + b',"date":"2018-08-03","run_id":1}]',
    b"9" * 5_000,
    b"{" + b'"name":"a",' * 1_000 + b'"benchmark":"steps"}',
]
PARAMETERS = ["since", "metric_type", "metric_filter", "last_n", "rank", "stream", "offset"]
PARAMETERS += ["tail", "attempt", "unknown", "until", "summarize", "before", "search", "format"]
PARAMETERS += ["from_id", "runs", "goal", "after", "price"]
BODY_FIELDS = ["name", "benchmark", "num_workers", "num_cpus", "max_restarts", "args", "value"]
BODY_FIELDS += ["date", "run_id", "pod_name", "state", "ip", "attempt", "rank", "exit_code"]
BODY_FIELDS += ["exited_at", "sizes", "unknown", "metadata", "cumulative", "seed", "pod_uid"]
BODY_FIELDS += ["deadline_seconds", "max_bandwidth", "queue"]


@pytest.fixture
def here(api: TestClient, run: Run) -> Run:
    """A run with ranks and a log, so that more than 404 can come of a request."""
    make_ranks(run)
    streams.append(key(run, 0, "stdout"), 0, b"text\n")
    return run


class Sender:
    """Sends requests as whoever may, and judges every answer."""

    def __init__(self, api: TestClient, run: Run) -> None:
        self._api = api
        self._usual = {"owner": str(run.id), "run_id": str(run.id), "pod": make_pod()}

    def send(
        self,
        route: Route,
        path: dict[str, str] | None = None,
        query: str = "",
        body: bytes | None = None,
    ) -> None:
        method, template = route
        answer = self._api.simulate_request(
            method,
            fill(template, self._usual | (path or {})),
            query_string=query,
            body=body,
            headers=AGENT if route in AGENT_ROUTES else None,
        )
        told = f"{method} {template} {path} {query[:200]} {body and body[:200]!r}: {answer.text}"
        assert answer.status_code < 500, told
        if answer.status_code >= 400:
            assert answer.headers["Content-Type"] == "application/json", told
            assert answer.json["status"] == answer.status_code, told
            assert answer.json["message"], told
            assert len(answer.json["message"]) < 60_000, told


@pytest.fixture
def sender(api: TestClient, here: Run) -> Sender:
    return Sender(api, here)


def encode(body: object) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize("route", ALL_ROUTES)
def test_odd_values_in_paths(sender: Sender, route: Route) -> None:
    for name in fields(route[1]):
        for odd in ODD:
            sender.send(route, {name: quote(odd, safe="")})


@pytest.mark.parametrize("route", ALL_ROUTES)
def test_odd_values_in_parameters(sender: Sender, route: Route) -> None:
    for name in PARAMETERS:
        for odd in ODD:
            sender.send(route, query=f"metric_type=run&attempt=1&offset=0&{name}={quote(odd)}")
        sender.send(route, query=name)
        sender.send(route, query=f"{name}=1&{name}=2")
    sender.send(route, query="%ff=%ff&&==&" + "a=1&" * 1_000)


@pytest.mark.both_databases
@pytest.mark.parametrize("route", [route for route in ALL_ROUTES if route[0] in {"POST", "PUT"}])
def test_odd_bodies(sender: Sender, route: Route) -> None:
    for body in ODD_BODIES:
        sender.send(route, query="attempt=1&offset=0", body=body)
    for name in BODY_FIELDS:
        for odd in ODD_VALUES:
            sender.send(route, body=encode({name: odd}))


GOOD_BODIES: dict[str, dict[str, object]] = {
    "/api/runs": {"name": "a", "benchmark": "steps", "args": {}, "num_workers": 1},
    "/api/metrics": {"name": "a", "value": 1, "date": "2018-08-03T09:21:29Z"},
    "/api/workers/{pod}/poll": {
        "state": "exited",
        "ip": "",
        "run_id": 1,
        "attempt": 1,
        "rank": 0,
        "exit_code": 0,
        "exited_at": 1.0,
        "sizes": {},
    },
}


@pytest.mark.parametrize("template", GOOD_BODIES)
def test_one_odd_value_among_good_ones(sender: Sender, here: Run, template: str) -> None:
    good = GOOD_BODIES[template]
    if template == "/api/metrics":
        good = good | {"run_id": here.id}
    for name in BODY_FIELDS:
        for odd in ODD_VALUES:
            sender.send(("POST", template), body=encode(good | {name: odd}))


@pytest.mark.both_databases
@pytest.mark.parametrize("kind", ["run", "pod"])
def test_a_metric_that_no_database_can_hold(sender: Sender, kind: str) -> None:
    for owner in ("", "/{owner}"):
        query = f"metric_type={kind}&metric_filter=%00"
        sender.send(("GET", f"/api/metrics{owner}"), query=query)


def test_random_requests(sender: Sender) -> None:
    dice = random.Random(7)  # noqa: S311 - dice, not secrets
    for _ in range(600):
        route = dice.choice(ALL_ROUTES)
        path = {name: quote(dice.choice(ODD), safe="") for name in fields(route[1])}
        query = "&".join(
            f"{dice.choice(PARAMETERS)}={quote(dice.choice(ODD))}" for _ in range(dice.randrange(4))
        )
        body = {dice.choice(BODY_FIELDS): dice.choice(ODD_VALUES) for _ in range(dice.randrange(6))}
        sender.send(route, path if dice.random() < 0.5 else None, query, encode(body))


# --- Slashes, unknown routes, wrong methods, large bodies. ---


@pytest.mark.parametrize(("method", "template"), ALL_ROUTES)
def test_a_trailing_slash_makes_no_difference(
    api: TestClient, here: Run, method: str, template: str
) -> None:
    path = fill(template, {"owner": "nobody"})
    headers = AGENT if (method, template) in AGENT_ROUTES else None
    without, with_slash = (
        api.simulate_request(method, path + end, headers=headers) for end in ("", "/")
    )
    assert without.status_code == with_slash.status_code
    assert without.status_code != 405
    if template != "/metrics":
        assert without.text == with_slash.text


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/nothing", "/api/runs/one", "/api/runs/1/2", "/favicon.ico"]
)
def test_an_unknown_route(api: TestClient, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = api.simulate_request(method, path)
        assert answer.status_code == 404
        assert answer.json["status"] == 404
        assert answer.json["message"]


def test_a_wrong_method(api: TestClient) -> None:
    for path, allowed in [("/api/runs", "GET, POST"), ("/api/runs/1/stop", "POST")]:
        answer = api.simulate_request("PATCH", path)
        assert answer.status_code == 405
        assert answer.json["status"] == 405
        assert answer.headers["Allow"].startswith(allowed)


@pytest.mark.parametrize(("path", "most"), [("/api/runs", 1 << 20), ("/api/metrics", 16 << 20)])
def test_a_body_that_is_too_large(api: TestClient, path: str, most: int) -> None:
    answer = api.simulate_post(path, body=b" " * (most + 1))
    assert answer.status_code == 413
    assert answer.json == {"status": 413, "message": f"body: at most {most} bytes"}
    assert api.simulate_post(path, body=b" " * most).status_code == 400


def test_a_body_that_is_announced_as_too_large_is_not_read(api: TestClient) -> None:
    for length in (str((1 << 20) + 1), "9" * 20):
        answer = api.simulate_post("/api/runs", body=b"{}", headers={"Content-Length": length})
        assert answer.status_code == 413


def test_nothing_of_it_all_began_a_second_run(sender: Sender, here: Run) -> None:
    sender.send(("POST", "/api/runs"), body=encode(GOOD_BODIES["/api/runs"]))
    assert [run.id for run in Run.select()] == [here.id]
    assert make_run(state="FINISHED").id != here.id
