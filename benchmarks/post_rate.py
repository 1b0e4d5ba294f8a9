"""How many single samples a second clients can post, beside an API that does nothing."""

import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import falcon
from falcon import Request, Response
from peewee import chunked

from benchmarks.load import Requests, post_json, send
from benchmarks.measure import Figure, Measure, alternate
from benchmarks.servers import Master, free_port, gunicorn, measured_master, running
from benchmarks.stored import store_run

CLIENTS = 8
CREATED = 201
_POSTS_OF_A_CLIENT = 250
_DATE = "%Y-%m-%dT%H:%M:%S.%fZ"

Body = Mapping[str, object]


def measure(folder: Path) -> list[Figure]:
    """Return posts a second."""
    port = free_port()
    empty = gunicorn(port, "benchmarks.post_rate:empty_app()")
    with (
        running("empty", empty, folder, {}, f"http://127.0.0.1:{port}/"),
        measured_master(folder) as master,
    ):
        requests = _requests("/", bodies(1, 4 * _POSTS_OF_A_CLIENT), {})
        measures = {
            "POST /api/metrics/, 8 clients, one sample each": posts(master, _POSTS_OF_A_CLIENT),
            "an empty Falcon POST, 8 clients": lambda: send(port, requests, CREATED),
        }
        return alternate(5, "posts/s", measures)


def posts(master: Master, of_a_client: int, *, lists: bool = False) -> Measure:
    """Return what measures samples a second that are posted to a new run, and checks them by GET.

    Each client posts so many, one a request; with ``lists``, a single client posts as many for all,
    1,000 a request.
    """
    numbers = itertools.count(1)

    def measure_once() -> float:
        run_id = store_run(f"post-rate-{next(numbers)}").id
        clients = bodies(run_id, of_a_client)
        sent: list[Sequence[object]] = [*clients]
        if lists:
            sent = [[*chunked(itertools.chain(*clients), 1000)]]
        rate = send(master.port, _requests("/api/metrics/", sent, master.headers), CREATED)
        _check_all_there(master, run_id, clients)
        return rate * 1000 if lists else rate

    return measure_once


def bodies(run_id: int, number: int) -> list[list[Body]]:
    """Return samples by client, all different: each client has a metric of its own.

    Dates go up to just now, two milliseconds and some microseconds apart. All fields that MLBench's
    own client sends are there.
    """
    start = datetime.now(UTC) - number * timedelta(milliseconds=2)
    return [
        [
            {
                "run_id": run_id,
                "name": f"train_loss @ {client}",
                "date": (start + timedelta(microseconds=2003 * i + client)).strftime(_DATE),
                "value": str(client + i / number),
                "cumulative": False,
                "metadata": "",
            }
            for i in range(number)
        ]
        for client in range(CLIENTS)
    ]


def _requests(
    path: str, clients: Sequence[Sequence[object]], headers: Mapping[str, str]
) -> list[Requests]:
    return [[post_json(path, body, headers) for body in client] for client in clients]


def _check_all_there(master: Master, run_id: int, clients: Sequence[Sequence[Body]]) -> None:
    answer = master.get(f"/api/metrics/{run_id}/?metric_type=run").body
    stored = {
        (name, point["date"], float(point["value"]))
        for name, points in json.loads(answer).items()
        for point in points
    }
    posted = {
        (body["name"], body["date"], float(str(body["value"])))
        for client in clients
        for body in client
    }
    assert stored == posted, (len(stored), len(posted), sorted(stored ^ posted)[:4])


class _Empty:
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer that the app is there."""

    def on_post(self, req: Request, resp: Response) -> None:
        """Take the body, and answer as for something stored."""
        req.bounded_stream.read()
        resp.status = falcon.HTTP_CREATED


def empty_app() -> falcon.App[Request, Response]:
    """Return an app that takes a POST and does nothing: what any API under gunicorn could reach."""
    app = falcon.App()
    app.add_route("/", _Empty())
    return app
