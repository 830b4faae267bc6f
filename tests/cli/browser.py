"""Chromium without a window, driven over its own pipe (the DevTools protocol): no driver, no port, no package."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = "chromium"
# A headless Chromium of a container runs as root, and has little shared memory.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)
WATCHED = ("Page", "Runtime", "Log", "Network", "Audits")


class Browser:
    """One page of a browser. `events` are all that it reported: requests, errors, violations of the page's policy."""

    def __init__(self, child: subprocess.Popen[bytes], requests: int, answers: int) -> None:
        self.child = child
        self.requests = requests
        self.answers = answers
        self.unread = b""
        self.count = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command of the protocol."""
        self.count += 1
        command = {"id": self.count, "method": method, "params": params, "sessionId": self.session}
        text = json.dumps({name: value for name, value in command.items() if value is not None})
        os.write(self.requests, text.encode() + b"\0")
        while (answer := self._next()).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while b"\0" not in self.unread:
            assert select.select([self.answers], [], [], max(deadline - time.monotonic(), 0))[0], "no answer for a minute"
            part = os.read(self.answers, 1 << 20)
            assert part, "the browser has ended"
            self.unread += part
        text, _, self.unread = self.unread.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def open_page(self) -> None:
        """An empty page, of which everything is reported."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in WATCHED:
            self.call(f"{domain}.enable")

    def show(self, page: Path) -> float:
        """Open a file; the seconds until its load event was handled."""
        self.events.clear()
        begin = time.monotonic()
        self.call("Page.navigate", url=page.as_uri())
        while not self.evaluate("document.readyState === 'complete' && location.protocol === 'file:'"):
            time.sleep(0.02)
        return time.monotonic() - begin

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requested(self) -> list[str]:
        """The addresses that the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[dict[str, Any]]:
        """Errors, warnings, console output, and violations of the policy."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Audits.issueAdded")
        return [event["params"] for event in self.events if event["method"] in kinds]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser of our own, with a profile that is removed."""
    to_read, requests = os.pipe()
    answers, to_write = os.pipe()

    def join_pipes() -> None:
        # Chromium reads from descriptor 3 and writes to 4; moved out of the way first, as either may be one of these.
        reading, writing = os.dup(to_read), os.dup(to_write)
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=join_pipes,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        try:
            browser = Browser(child, requests, answers)
            browser.open_page()
            yield browser
        finally:
            child.kill()
            child.wait()
            os.close(requests)
            os.close(answers)
