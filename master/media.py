"""How JSON is written, and what its content type is called."""

import falcon
import orjson
from falcon import Request, Response
from falcon.media import JSONHandler

_JAVASCRIPT = "text/javascript"


def install(app: falcon.App[Request, Response]) -> None:
    """Have the app write JSON, by both of its names."""
    handler = JSONHandler(dumps=orjson.dumps, loads=orjson.loads)
    app.resp_options.media_handlers.update({falcon.MEDIA_JSON: handler, _JAVASCRIPT: handler})
    app.add_middleware(MediaTypeMiddleware())


class MediaTypeMiddleware:
    """Calls JSON ``text/javascript`` where the client accepts that by name."""

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Set Content-Type by the Accept header."""
        if not (resp.content_type or falcon.MEDIA_JSON).startswith(falcon.MEDIA_JSON):
            return
        resp.append_header("Vary", "Accept")
        if _JAVASCRIPT in req.accept:
            resp.content_type = _JAVASCRIPT
