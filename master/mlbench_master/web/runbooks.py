"""The runbooks: what to do about each alert, where an alert's own path leads."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response

from mlbench.assets import runbooks_folder
from mlbench_master.access import Access


@dataclass(frozen=True)
class RunbookResource:
    """``/docs/runbooks/{alert}.md``: what to do about an alert. Everybody may read it."""

    access: Access = "open"

    def on_get(self, req: Request, resp: Response, alert: str) -> None:
        """Answer with the Markdown, as text that a browser shows."""
        path = runbooks_folder() / f"{alert}.md"
        if not alert.isidentifier() or not path.is_file():
            raise falcon.HTTPNotFound(description="there is no alert of this name")
        resp.content_type = "text/plain; charset=utf-8"
        resp.data = path.read_bytes()
