"""``/openapi.json``: the API's description of itself, for tools and generated clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from falcon import Request, Response

from master.auth import Access


@dataclass(frozen=True)
class OpenApiResource:
    """The OpenAPI document. It holds no secret."""

    document: Mapping[str, Any]
    access: Access = "open"

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with the OpenAPI 3.1 document of this API."""
        resp.media = self.document
