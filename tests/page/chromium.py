"""Headless Chromium for tests, driven over a pipe with the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATH = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--no-first-run",
)
VIRTUAL_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Browser:
    """A browser tab. `events` holds all events since the page was opened."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Security"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has exited")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        return event

    def open(self, place: Path | str, scheme: str = "light", width: int = 1000, height: int = 900) -> None:
        """Open a file or a URL, and wait until it is loaded."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", media="screen", features=features)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.call("Page.navigate", url=place if isinstance(place, str) else place.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def js(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def press(self, *keys: str) -> None:
        for key in keys:
            pressed: dict[str, Any] = {"key": key}
            if key in VIRTUAL_KEYS:
                pressed["windowsVirtualKeyCode"] = VIRTUAL_KEYS[key]
                # the text "\r" makes Enter press a button or submit a form
                pressed |= {"text": "\r"} if key == "Enter" else {}
            else:
                pressed["text"] = key
            self.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Save a screenshot of the whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """Return the messages of the console: errors, warnings, and failed scripts."""
        noisy = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in noisy]

    def requests(self) -> list[str]:
        """Return the requested URLs, except data URLs."""
        sent = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]


@contextmanager
def browser(flags: Sequence[str] = ()) -> Iterator[Browser]:
    """Start a separate Chromium for the duration of the block."""
    assert PATH is not None
    to_chromium, write = os.pipe()
    read, from_chromium = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [*FLAGS, *flags, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        command = f'exec "$0" "$@" 3<&{to_chromium} 4>&{from_chromium}'
        process = subprocess.Popen(
            ["bash", "-c", command, PATH, *options],
            pass_fds=(to_chromium, from_chromium),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_chromium)
        os.close(from_chromium)
        try:
            yield Browser(read, write)
        finally:
            os.close(write)
            os.close(read)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
