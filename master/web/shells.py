"""The shells of pages: templates that hold no data, rendered with the headers of pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import falcon
from falcon import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from master import errors


@dataclass(frozen=True)
class Shells:
    """Renders pages, and errors as pages where a browser shows them."""

    static: str
    """What the URLs of static files begin with."""
    headers: Mapping[str, str]

    def show(self, resp: Response, page: str, **values: object) -> None:
        """Answer with a page: the template of its name, given ``values``."""
        template = _templates().get_template(f"{page}.html")
        resp.text = template.render(static=self.static, page=page, **values)
        resp.content_type = falcon.MEDIA_HTML
        resp.set_headers(dict(self.headers))

    def lead(self, resp: Response, place: str) -> None:
        """Answer with where to go on: a path of ours, percent-encoded."""
        resp.status = falcon.HTTP_303
        resp.set_headers({**self.headers, "Location": place})

    def show_error(self, req: Request, resp: Response, error: falcon.HTTPError) -> None:
        """Answer with an error: as a page to a browser that is not at the API, else as JSON."""
        if "text/html" not in req.accept or req.path.startswith("/api/"):
            errors.serialize(req, resp, error)
            return
        self.show(resp, "error", status=error.status_code, message=errors.message_of(error))
        resp.append_header("Vary", "Accept")


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("master.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
