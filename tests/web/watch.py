"""Noting all that goes wrong in a browser: what its console says, errors, requests that failed."""

import re
from dataclasses import dataclass, field

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response, WebError

# A page that is left, and one that no longer needs an answer, end their requests themselves.
_ABORTED = "net::ERR_ABORTED"


@dataclass
class Watch:
    """What went wrong in a browser so far. What breaks the pages' policy is told in its console."""

    faults: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        """Note from now on what goes wrong in any page of a context."""
        context.on("console", self._hear)
        context.on("weberror", self._note_error)
        context.on("requestfailed", self._note_failure)
        context.on("response", self._note_answer)

    def expect(self, pattern: str) -> None:
        """Say that faults which match are meant to be, and that there will be one."""
        self.expected.append(pattern)

    def allow(self, pattern: str) -> None:
        """Say that faults which match may be, or not, as it happens."""
        self.allowed.append(pattern)

    def check(self) -> None:
        """Fail if something went wrong that was not expected, or not what was."""
        wrong = [
            fault
            for fault in self.faults
            if not any(re.search(pattern, fault) for pattern in [*self.expected, *self.allowed])
        ]
        assert not wrong, "\n".join(wrong)
        for pattern in self.expected:
            assert any(re.search(pattern, fault) for fault in self.faults), f"no {pattern!r}"

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            where = message.location
            at = f"{where['url']}:{where['lineNumber']}" if where else "?"
            self.faults.append(f"console {message.type}: {message.text} ({at})")

    def _note_error(self, error: WebError) -> None:
        self.faults.append(f"uncaught: {error.error}")

    def _note_failure(self, request: Request) -> None:
        if request.failure != _ABORTED:
            self.faults.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _note_answer(self, response: Response) -> None:
        if response.status >= 500:
            request = response.request
            self.faults.append(f"answer: {request.method} {request.url} {response.status}")
