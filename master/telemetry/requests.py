"""The API's requests: how many of each kind, how they were answered, and how long it took."""

import time

import falcon
from falcon import Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram


class RequestMiddleware:
    """Counts and times requests by route, never by path: a path has ids in it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "route")
        self._seconds = Histogram(
            "mlbench_http_request_seconds", "Time to answer.", labels, registry=registry
        )
        self._requests = Counter(
            "mlbench_http_requests_total", "Answers.", (*labels, "status"), registry=registry
        )

    def process_request(self, req: Request, resp: Response) -> None:
        """Note when the request began."""
        req.context.began = time.perf_counter()

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Count the answer."""
        method = req.method if req.method in falcon.HTTP_METHODS else "other"
        labels = (method, req.uri_template or "none")
        self._seconds.labels(*labels).observe(time.perf_counter() - req.context.began)
        self._requests.labels(*labels, resp.status_code).inc()
