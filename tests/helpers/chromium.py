"""A real browser for tests: Debian's chromium without a window, driven by the DevTools protocol over two pipes."""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WHY_NOT = "needs chromium (apt-get install chromium)"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--remote-debugging-pipe",
)
PATIENCE = 30  # seconds until a test gives up


@contextlib.contextmanager
def browser():
    """Start chromium; yield a `Tab` with an empty page."""
    to_read, our_write = os.pipe()
    our_read, to_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:

        def place_pipes() -> None:
            """Put our ends where the protocol reads, descriptor 3, and writes, 4; first aside, as they may be there."""
            aside = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (to_read, to_write)]
            for descriptor, pipe in zip((3, 4), aside, strict=True):
                os.dup2(pipe, descriptor)

        process = subprocess.Popen(
            [PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=place_pipes,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        watchdog = threading.Timer(4 * PATIENCE, process.kill)  # a browser that hangs ends the read below
        watchdog.start()
        try:
            with os.fdopen(our_read, "rb", buffering=0) as read, os.fdopen(our_write, "wb", buffering=0) as write:
                tab = Tab(read, write)
                yield tab
                tab.send("Browser.close", of_browser=True)
            process.wait(PATIENCE)
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()


class Tab:
    """One page of the browser."""

    def __init__(self, read, write):
        self._read, self._write, self._rest, self._last = read, write, b"", 0
        self.session = None
        self.events = []
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, *, of_browser=False, **params):
        """Call a method of the protocol and return its result; events that come before it are kept."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self.session and not of_browser:
            message["sessionId"] = self.session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        while b"\0" not in self._rest:
            part = os.read(self._read.fileno(), 1 << 20)
            assert part, "chromium ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path) -> None:
        """Open a file of this machine, and wait until the page has loaded."""
        self.send("Page.navigate", url=path.absolute().as_uri())
        self.wait("document.readyState === 'complete'")

    def value(self, expression: str):
        """Return what a JavaScript expression gives; promises are waited for."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.value(condition):
            assert time.monotonic() < end, f"still not: {condition}"
            time.sleep(0.02)

    def size(self, width: int, height: int) -> None:
        """Set the size of the page in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, **features: str) -> None:
        """Set media features: `prefer(prefers_color_scheme="dark")`."""
        media = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.send("Emulation.setEmulatedMedia", features=media)

    def drag(self, *points: tuple[float, float]) -> None:
        """Press the mouse at the first point, move it over the others, and release it at the last."""
        kinds = ["mousePressed", *["mouseMoved"] * (len(points) - 1), "mouseReleased"]
        for kind, (x, y) in zip(kinds, [*points, points[-1]], strict=True):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def key(self, name: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, text=text)

    def give_file(self, selector: str, path: Path) -> None:
        """Choose a file in an input element."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save what is seen as a PNG; with `whole`, the page from top to bottom."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def problems(self) -> list[str]:
        """Return errors and warnings of the console, and requests to anything but the page itself."""
        self.value("1")  # whatever was on its way has come
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            if event.get("method") == "Log.entryAdded":
                found.append(params["entry"]["text"])
            if event.get("method") == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "blob:", "data:")):
                    found.append(url)
        return found
