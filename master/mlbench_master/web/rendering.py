"""Rendering of pages, and headers that restrict the files that browsers may load."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import falcon
from falcon import Request, Response
from jinja2 import Environment, PackageLoader

from mlbench.report.page import environment as page_environment
from mlbench_master.http import error_responses as http_errors
from mlbench_master.web import static_assets

_ORIGIN = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(?=/|\Z)")


@dataclass(frozen=True)
class PageRenderer:
    """Renders templates, and errors as pages for browsers."""

    root: str
    """Path below which browsers reach the pages; empty: at ``/``."""
    static_path: str
    """Prefix of the static files' paths."""
    headers: Mapping[str, str]

    def render(self, resp: Response, page: str, **values: object) -> None:
        """Return the template named ``page``, rendered with ``values``."""
        template = _templates().get_template(f"{page}.html")
        resp.text = template.render(
            root=self.root, static=self.root + self.static_path, page=page, **values
        )
        resp.content_type = falcon.MEDIA_HTML
        resp.set_headers(dict(self.headers))

    def redirect(self, resp: Response, path: str) -> None:
        """Return a redirect (303) to a percent-encoded path of this host."""
        resp.status = falcon.HTTP_303
        resp.set_headers({**self.headers, "Location": path})

    def render_error(self, req: Request, resp: Response, error: falcon.HTTPError) -> None:
        """Return an error: as a page for browsers outside of the API, otherwise as JSON."""
        if "text/html" not in req.accept or req.path.startswith("/api/"):
            http_errors.serialize(req, resp, error)
            return
        self.render(resp, "error", status=error.status_code, message=http_errors.message_of(error))
        resp.append_header("Vary", "Accept")


def page_headers(grafana_url: str | None) -> Mapping[str, str]:
    """Return the headers of pages, which allow only files of the master, and frames of Grafana."""
    frames = " ".join(filter(None, ["'self'", grafana_url and origin_of(grafana_url)]))
    return {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
            f"connect-src 'self'; font-src 'self'; frame-src {frames}; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        ),
        # Not no-referrer, because browsers would then send forms without a usable Origin.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def origin_of(url: str) -> str | None:
    """Return the scheme, host and port of an HTTP URL; None for any other text."""
    match = _ORIGIN.match(url)
    return match[0] if match else None


@cache
def _templates() -> Environment:
    environment = page_environment(PackageLoader("mlbench_master.web"))
    environment.globals["modules_of"] = cache(static_assets.load().modules_of)
    return environment
