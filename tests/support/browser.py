"""Debian's headless Chromium, driven by its debugging protocol through two pipes, where there is no network at all.

Here: starting it, and commands for one page. Not here: what a page should look like.
"""

import base64
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

_PATIENCE = 120.0  # seconds that an answer may take on a busy machine
_FLAGS = (
    "--headless",
    "--no-sandbox",  # which root has to do without
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Browser:
    """One browser with one page."""

    def __init__(self, folder: Path) -> None:
        """Start it; it keeps its files in this folder."""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # It reads commands from descriptor 3, and writes answers to 4.
        line = f'exec unshare --net chromium "$@" 3<&{theirs_in} 4>&{theirs_out}'
        flags = [*_FLAGS, f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", *flags],
            pass_fds=(theirs_in, theirs_out),
            env={**os.environ, "HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        """The messages since the last `open`."""

    def __enter__(self) -> Self:
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.do(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Carry out one command of the protocol, and return its result."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while (said := self._next()).get("id") != self._number:
            self.events.append(said)
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    def open(
        self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False, script: bool = True
    ) -> None:
        """Open a file in a window of this size, and wait until it is loaded."""
        self.events.clear()
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])
        self.do("Emulation.setScriptExecutionDisabled", value=not script)
        self.do("Page.navigate", url=f"file://{path}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        said = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def press(self, key: str, *, code: int) -> None:
        """Press and release one key, such as Tab (code 9)."""
        text = {"Enter": "\r"}.get(key, "")
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def type(self, text: str) -> None:
        """Type this into the element that has the focus."""
        self.do("Input.insertText", text=text)

    def picture(self) -> bytes:
        """The whole page as PNG."""
        data: str = self.do("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        return base64.b64decode(data)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 16)
            assert data, "the browser has ended"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found
