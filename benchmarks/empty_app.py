"""A Falcon app that takes a POST and does nothing: what any API under gunicorn could reach."""

import falcon
from falcon import Request, Response


class _Empty:
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer that the app is there."""

    def on_post(self, req: Request, resp: Response) -> None:
        """Take the body, and answer as for something stored."""
        req.bounded_stream.read()
        resp.status = falcon.HTTP_CREATED


def get_app() -> falcon.App[Request, Response]:
    """Return the app, for gunicorn: ``benchmarks.empty_app:get_app()``."""
    app = falcon.App()
    app.add_route("/", _Empty())
    return app
