"""Collects the errors of a browser: console messages, exceptions and failed requests."""

import re
from dataclasses import dataclass, field

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response, WebError

# A page aborts its requests when the user leaves it or it no longer needs them.
_ABORTED = "net::ERR_ABORTED"


@dataclass
class Watch:
    """The errors in a browser so far, including violations of the content security policy."""

    faults: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        """Collect errors of all pages of a context from now on."""
        context.on("console", self._hear)
        context.on("weberror", self._note_error)
        context.on("requestfailed", self._note_failure)
        context.on("response", self._note_answer)

    def expect(self, pattern: str) -> None:
        """Expect at least one error that matches a pattern."""
        self.expected.append(pattern)

    def allow(self, pattern: str) -> None:
        """Allow errors that match a pattern, without expecting one."""
        self.allowed.append(pattern)

    def check(self) -> None:
        """Fail if an error was not expected, or an expected error is missing."""
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
