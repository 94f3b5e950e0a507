"""A headless Chromium, driven over a pipe by its own protocol: nothing but the standard library."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

# Chromium listens on descriptor 3 and answers on 4.
BEGIN = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for fd, wanted in zip(ends, (3, 4)):
    os.dup2(fd, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def executable():
    """The path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page. `with Browser() as page:`"""

    def __init__(self, width=1280, height=800, timeout=300):
        self.timeout, self.session, self.number, self.problems = timeout, None, 0, []
        self.folder = tempfile.mkdtemp(prefix="gradtape-browser-")
        commands_read, commands_write = os.pipe()
        answers_read, answers_write = os.pipe()
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.folder}",
            f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(commands_read), str(answers_write), executable(), *flags],
            pass_fds=(commands_read, answers_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands_read)
        os.close(answers_write)
        self.out, self.answers, self.rest = commands_write, answers_read, b""

    def __enter__(self):
        try:
            pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
            target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **params):
        """One command of the protocol, and its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answer()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(answer["params"])
            if answer.get("method") == "Network.requestWillBeSent":
                url = answer["params"]["request"]["url"]
                if not url.startswith(("file:", "about:", "data:")):
                    self.problems.append({"request": url})

    def _answer(self):
        end = time.monotonic() + self.timeout
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self.answers, 1 << 16)
            assert read, "the browser has gone"
            self.rest += read
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)

    def open(self, path, ready="document.readyState === 'complete'"):
        self.call("Page.navigate", url=path.as_uri())
        self.until(ready)

    def run(self, script):
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, condition):
        assert self.holds_within(condition, self.timeout), f"it never came true: {condition}"

    def holds_within(self, condition, seconds):
        """Whether a condition comes true in this time."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def text(self, element):
        """What a person reads in an element; nothing if it is hidden."""
        return self.run(f"(e => e.hidden ? '' : e.innerText)(document.getElementById({element!r}))")

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def click(self, x, y):
        self.press("mousePressed", x, y)
        self.press("mouseReleased", x, y)

    def wheel(self, x, y, delta):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def type(self, text):
        """Insert a text, and release its last key: some pages read a field only then."""
        self.call("Input.insertText", text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=text[-1])

    def key(self, key):
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowLeft": 37}
        facts = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        if len(key) == 1:
            facts["text"] = key
        self.call("Input.dispatchKeyEvent", type="keyDown", **facts)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
