"""A headless Chromium for tests, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from processes import PATIENCE, wait_until

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_OPTIONS = (
    "--headless=new --disable-gpu --no-sandbox --disable-dev-shm-usage --no-first-run "
    "--disable-extensions --disable-background-networking --disable-component-update "
    "--disable-sync --metrics-recording-only --mute-audio --remote-debugging-pipe"
)


class Browser:
    """One tab of a browser. `told` are the events that it has told: messages, errors, requests."""

    def __init__(self, send: IO[bytes], receive: IO[bytes]) -> None:
        self.told: list[dict[str, Any]] = []
        self._send = send
        self._receive = receive
        self._session = ""
        self._asked = 0
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=tab, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{part}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command; what the browser tells meanwhile is kept."""
        self._asked += 1
        message: dict[str, Any] = {"id": self._asked, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._send.write(json.dumps(message).encode() + b"\0")
        self._send.flush()
        while True:
            found = self._next()
            if found.get("id") == self._asked:
                assert "error" not in found, found
                return found["result"]
            self.told.append(found)

    def _next(self) -> dict[str, Any]:
        data = bytearray()
        while not data.endswith(b"\0"):
            part = self._receive.read(1)
            assert part, "the browser has ended"
            data += part
        return json.loads(data[:-1])

    def open(self, url: str) -> None:
        """Open an address, and wait until its scripts have started."""
        self.call("Page.navigate", url=url)
        self.wait(f"location.href === '{url}' && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        wait_until(lambda: self.evaluate(script), script)

    def text(self) -> str:
        return self.evaluate("document.body.innerText")

    def requested(self) -> set[str]:
        """The addresses that pages have asked for."""
        name = "Network.requestWillBeSent"
        return {one["params"]["request"]["url"] for one in self.told if one["method"] == name}

    def faults(self) -> list[str]:
        """Errors of scripts, and what the policy of a page has refused."""
        found = [one for one in self.told if one["method"] == "Runtime.exceptionThrown"]
        logged = [
            one
            for one in self.told
            if one["method"] == "Log.entryAdded"
            and one["params"]["entry"]["source"] in ("security", "javascript")
        ]
        return [json.dumps(one["params"]) for one in found + logged]

    def screenshot(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        """A picture of the page, for people."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser with an empty profile."""
    assert CHROMIUM is not None
    to_browser, from_test = os.pipe()
    to_test, from_browser = os.pipe()

    def place() -> None:
        """Give the browser its two ends where it expects them."""
        spare = os.dup(to_browser), os.dup(from_browser)
        os.dup2(spare[0], 3)
        os.dup2(spare[1], 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *_OPTIONS.split(), f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            command, preexec_fn=place, close_fds=False, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        with open(from_test, "wb") as send, open(to_test, "rb", buffering=0) as receive:
            try:
                yield Browser(send, receive)
            finally:
                process.terminate()
                try:
                    process.wait(PATIENCE)
                finally:
                    process.kill()
