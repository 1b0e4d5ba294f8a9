"""What browsers may do with our answers: the headers of pages, and those of all answers."""

import re
from collections.abc import Mapping

from falcon import Request, Response

_ORIGIN = re.compile(r"https?://[A-Za-z0-9._-]+(:[0-9]+)?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


class AnswersMiddleware:
    """Says of every answer, errors too, what a browser may do with it."""

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Have it taken for what its Content-Type says, and kept only where it says so itself.

        An answer that the browser kept would be there after signing out, too. Pages of other ports
        of this host are of the same site, so that the session comes along with what they load.
        """
        resp.set_header("X-Content-Type-Options", "nosniff")
        resp.set_header("Cross-Origin-Resource-Policy", "same-origin")
        if resp.get_header("Cache-Control") is None:
            resp.set_header("Cache-Control", "no-store")


def page_headers(grafana_url: str | None) -> Mapping[str, str]:
    """Return the headers of a page, which may load what is ours, and frame that Grafana."""
    frames = (grafana_url and origin_of(grafana_url)) or "'none'"
    return {
        "Content-Security-Policy": "; ".join(
            (
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "img-src 'self' data: blob:",
                "connect-src 'self'",
                "font-src 'self'",
                f"frame-src {frames}",
                "form-action 'self'",
                "base-uri 'none'",
                "frame-ancestors 'none'",
            )
        ),
        # With no-referrer, browsers would not say either whose form it is that they send.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def origin_of(url: str) -> str | None:
    """Return scheme, host and port of a URL as a policy names them; None if it has none."""
    found = _ORIGIN.match(url)
    rest = url[found.end() :] if found else ""
    return found[0] if found and rest[:1] in {"", "/"} else None
