"""Which images the tests use: those that `make e2e` has built, or those that it was told of."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Images:
    """The images, by what they are called."""

    prefix: str
    tag: str

    @classmethod
    def from_environ(cls) -> "Images":
        """Return those under $E2E_IMAGES with the tag $E2E_TAG."""
        return cls(
            os.environ.get("E2E_IMAGES") or "localhost/mlbench", os.environ.get("E2E_TAG") or "e2e"
        )

    def __getitem__(self, name: str) -> str:
        """Return an image's whole name."""
        return f"{self.prefix}/{name}:{self.tag}"

    def values(self, name: str) -> dict[str, str]:
        """Return an image as the chart's values name it."""
        return {"repository": f"{self.prefix}/{name}", "tag": self.tag}
