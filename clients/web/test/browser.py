"""A headless Chromium, driven over its DevTools pipe (--remote-debugging-pipe): JSON with a zero byte behind each message."""

import base64
import collections
import itertools
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find():
    """The browser's program, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with a page."""

    def __init__(self, program, profile):
        to_it, ours = os.pipe()
        answers, from_it = os.pipe()

        # What it reads is its descriptor 3, what it writes is 4.
        def place():
            high = [os.dup(to_it), os.dup(from_it)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        flags = ["--headless", "--no-sandbox", "--remote-debugging-pipe", "--hide-scrollbars", "--no-first-run",
                 "--disable-gpu", "--disable-background-networking", "--no-proxy-server", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen([program, *flags, "about:blank"], preexec_fn=place, pass_fds=(3, 4),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it)
        os.close(from_it)
        self._to, self._from, self._rest = ours, answers, b""
        self._ids = itertools.count(1)
        self.events = collections.deque(maxlen=2000)
        target = next(t for t in self.call("Target.getTargets", session=None)["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", session=None, targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.call("Performance.enable", timeDomain="threadTicks")
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session = None

    def _read(self, patience):
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], patience)[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._from, 1 << 16)
            if not more:
                raise EOFError("the browser has ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=True, **params):
        """Has the browser do something; what it says."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if session and self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data):]
        while True:
            answer = self._read(60)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def run(self, script):
        """The value of a script, whose promise is waited for."""
        said = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(f"{script}: {said['exceptionDetails'].get('exception', said['exceptionDetails'])}")
        return said["result"].get("value")

    def wait(self, script, patience=30):
        """Waits until a script is true; what it is."""
        end = time.monotonic() + patience
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"this did not come true: {script}; the page says: {self.run('document.body.innerText')[:600]}")
            time.sleep(0.1)

    def look(self, width, height, scale=1, mobile=False, dark=False):
        """Makes it a screen of this size, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)
        self.call("Emulation.setTouchEmulationEnabled", enabled=mobile)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, url):
        """Opens an address."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def shot(self, path):
        """Saves what is to be seen."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def key(self, key, code=0):
        """Presses a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def mouse(self, kind, x, y, **more):
        """Does something with the mouse."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def thread_seconds(self):
        """Processor time of the page's thread, whatever else the machine does."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(it["value"] for it in metrics if it["name"] == "TaskDuration")

    def complaints(self):
        """What the console has as errors: exceptions, failed loads, violations of the policy of contents."""
        self.run("0")
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
        return found

    def close(self):
        """Ends it."""
        self.process.terminate()
        self.process.wait()
        os.close(self._to)
        os.close(self._from)
