"""How many single samples a second clients can post, beside an API that does nothing."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import falcon
from falcon import Request, Response

from benchmarks.load import Requests, post_json, send
from benchmarks.measure import Figure, alternate
from benchmarks.runs import store_run
from benchmarks.servers import (
    Master,
    database_url,
    free_port,
    gunicorn,
    running,
    running_master,
    running_prometheus,
)
from mlbench_master.models import open_database

CLIENTS = 8
_POSTS_OF_A_CLIENT = 250
CREATED = 201

Body = Mapping[str, object]


def measure(folder: Path) -> list[Figure]:
    """Return posts a second."""
    database = open_database(database_url(folder))
    with (
        running_prometheus(folder) as prometheus_url,
        running_master(folder, prometheus_url) as master,
        _running_empty_app(folder) as empty_port,
    ):
        figures = alternate(
            5,
            [
                ("POST /api/metrics/, 8 clients, one sample each", "posts/s", single_posts(master)),
                ("an empty Falcon POST, 8 clients", "posts/s", _empty_posts(empty_port)),
            ],
        )
    database.close()
    return figures


def single_posts(master: Master, posts: int = _POSTS_OF_A_CLIENT) -> Callable[[], float]:
    """Return what measures posts a second to a new run, and finds every sample by GET."""
    numbers = itertools.count(1)

    def once() -> float:
        run_id = store_run(f"post-rate-{next(numbers)}").id
        clients = bodies(run_id, posts)
        rate = send(master.port, _requests("/api/metrics/", clients, master.headers), CREATED)
        _check_all_there(master, run_id, clients)
        return rate

    return once


def bodies(run_id: int, posts: int) -> list[list[Body]]:
    """Return samples by client, all different: each client has a metric of its own.

    Dates go up to just now, two milliseconds and some microseconds apart. All fields that MLBench's
    own client sends are there.
    """
    start = datetime.now(UTC) - posts * timedelta(milliseconds=2)
    return [
        [
            {
                "run_id": run_id,
                "name": f"train_loss @ {client}",
                "date": text(start + timedelta(microseconds=2003 * i + client)),
                "value": str(client + i / posts),
                "cumulative": False,
                "metadata": "",
            }
            for i in range(posts)
        ]
        for client in range(CLIENTS)
    ]


def _requests(
    path: str, clients: Sequence[Sequence[Body]], headers: Mapping[str, str]
) -> list[Requests]:
    return [[post_json(path, body, headers) for body in client] for client in clients]


def _check_all_there(master: Master, run_id: int, clients: Sequence[Sequence[Body]]) -> None:
    answer = master.source.get(f"/api/metrics/{run_id}/?metric_type=run").body
    found = {
        (name, point["date"], float(point["value"]))
        for name, points in json.loads(answer).items()
        for point in points
    }
    posted = {
        (body["name"], body["date"], float(str(body["value"])))
        for client in clients
        for body in client
    }
    assert found == posted, (len(found), len(posted), sorted(found ^ posted)[:4])


def _empty_posts(port: int) -> Callable[[], float]:
    requests = _requests("/", bodies(1, 4 * _POSTS_OF_A_CLIENT), {})
    return lambda: send(port, requests, CREATED)


@contextmanager
def _running_empty_app(folder: Path) -> Iterator[int]:
    port = free_port()
    command = gunicorn(port, "benchmarks.post_rate:empty_app()")
    with running("empty", command, folder, {}, f"http://127.0.0.1:{port}/"):
        yield port


def text(date: datetime) -> str:
    """Return a date as the API writes it."""
    return date.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


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
