#!/usr/bin/env python3
"""The web page in a headless Chromium, on a daemon that works.

test_page.py [SHINGLE] [--shots FOLDER]: the program, target/debug/shingle if it is left out, and where screenshots go. Without a browser it says so
and ends with 3.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import browser
from load import Load

DESKTOP = dict(width=1280, height=800)
PHONE = dict(width=390, height=844, scale=2, mobile=True)
ZONES = 100_000

STACK = """
[disk.zns]
type = "profile"
profile = "zns-1tb"
zones = 64
keep-data = false

[disk.flash]
type = "profile"
profile = "ssd-500gb"
size = "4GiB"
memory = "256MiB"

[disk.smr]
type = "zoned-dir"
path = "smr"

[disk.many]
type = "null"
size = "400000MiB"
zone-size = "4MiB"
zone-capacity = "3MiB"
conventional = 64
zones-offline = [700]
zones-read-only = [701]

[device.vol]
table = "{table}"

[disk.blank]
type = "zoned-dir"
path = "blank"

[device.broken]
table = "0 8192 stl blank"

[export.broken]
device = "broken"

[device.lower]
table = "0 4194304 linear flash 0"

[device.a-name-that-is-longer-than-any-box-of-a-graph-has-room-for]
table = "0 2097152 linear lower 0"

[export.vol]
device = "vol"

[export.zns]
device = "zns"

[export.many]
device = "many"

[export.lower]
device = "lower"

[listen]
unix = "nbd.sock"

[control]
socket = "control.sock"

[web]
tcp = "127.0.0.1:0"
"""


class Stack:
    """A daemon with a page, and clients that keep it busy."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.shingle("create", "smr", "--size", "96MiB", "--zone-size", "1MiB", "--conventional", "4")
        self.shingle("create", "blank", "--size", "96MiB", "--zone-size", "1MiB", "--conventional", "4")
        table = re.search(r'"table": *"([^"]*)"', self.shingle("stl", "format", "smr", "--json"))[1]
        (folder / "stack.toml").write_text(STACK.format(table=table))
        self.up()

    def up(self):
        self.process = subprocess.Popen([self.program, "up", "--degraded", "stack.toml"], cwd=self.folder, stdout=subprocess.PIPE,
                                        stderr=open(self.folder / "log", "a"), text=True)
        self.url = None
        for line in self.process.stdout:
            found = re.search(r"web page at (http\S+)", line)
            self.url = found[1] if found else self.url
            if line == "ready\n":
                break
        assert self.url, (self.folder / "log").read_text()
        socket = str(self.folder / "nbd.sock")
        self.loads = [Load(socket, "vol", block=16384), Load(socket, "lower", block=16384),
                      Load(socket, "zns", block=16384, zone=2 << 30, zones=14, room=1 << 30),
                      Load(socket, "many", block=1 << 18, zone=4 << 20, zones=4000, room=3 << 20, pause=0.001)]

    def shingle(self, *words):
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def down(self):
        for load in self.loads:
            load.stop()
        self.process.terminate()
        self.process.wait()


def opens(page, url, size, view, **look):
    """Opens a view and waits until it lives."""
    page.look(**size, **look)
    page.open(url)
    page.wait("document.getElementById('state')?.textContent === 'Live'")
    page.run(f"location.hash = '{view}'")
    page.wait(f"!document.getElementById('view-{view}').hidden")


def fits(page):
    """There is nothing to scroll to the side."""
    wide = page.run("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1], f"the page is {wide[0]} wide on {wide[1]}"


def graph_is_drawn(page):
    page.wait("document.querySelectorAll('#graph g').length >= 11")
    page.wait("[...document.querySelectorAll('#graph text')].some((it) => /^R [1-9].*B\\/s/.test(it.textContent))")
    boxes = page.run("[...document.querySelectorAll('#graph rect')].map((it) => { const b = it.getBoundingClientRect(); "
                     "return [b.left, b.top, b.right, b.bottom]; })")
    for n, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[n + 1:]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, "two boxes of the graph lie on each other"


def a_failed_volume_says_why(page):
    why = "broken cannot be used: no root was found"
    page.wait(f"[...document.querySelectorAll('#faults li')].some((it) => it.textContent.startsWith('{why}'))")
    page.wait("document.querySelectorAll('#faults li').length === 1 && document.title.startsWith('\u25B2')")
    page.wait("[...document.querySelectorAll('#graph .bad text.note')].filter((it) => it.textContent.startsWith('failed')).length === 2")


def pick(page, field, value):
    """Chooses something in a list."""
    page.run(f"(() => {{ const it = document.getElementById('{field}'); it.value = '{value}'; it.dispatchEvent(new Event('change')); }})()")


def chosen(page, device):
    pick(page, "device", device)
    page.wait(f"shingle.state.device === '{device}' && shingle.state.zones.count > 0")


def map_is_drawn(page):
    chosen(page, "zns")
    page.wait("/empty: \\d/.test(document.getElementById('legend').textContent)")
    page.wait("/open: [1-9]/.test(document.getElementById('legend').textContent)")
    colours = page.run("(() => { const c = document.querySelector('#map canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, "
                       "c.height).data; return new Set(new Uint32Array(d.buffer)).size; })()")
    assert colours > 4, f"the map has {colours} colours"


def keys_work(page):
    page.run("document.querySelector('#map canvas').focus()")
    for key, code in (("ArrowRight", 39), ("ArrowRight", 39), ("ArrowRight", 39), ("+", 187)):
        page.key(key, code)
    page.wait("/^Zone [0-9]+: .*start sector/.test(document.getElementById('zone').textContent)")


def charts_are_drawn(page):
    pick(page, "subject", "export vol")
    page.wait("document.querySelectorAll('#charts .uplot').length >= 3")
    page.wait("shingle.history.last(60, ['readP99'])[1].filter((it) => it !== null).length > 2")
    pick(page, "subject", "device vol")
    page.wait("[...document.querySelectorAll('#charts figcaption')].some((it) => it.textContent.includes('amplification'))")


def a_cut_is_an_event(page, stack):
    stack.shingle("power", "cut", "flash")
    page.wait("[...document.querySelectorAll('#list li')].some((it) => it.textContent.includes('power.cut of device'))")
    page.run("location.hash = 'stack'")
    page.wait("[...document.querySelectorAll('#graph .bad')].some((it) => it.textContent.includes('no power'))")
    stack.shingle("power", "on", "flash")
    page.run("location.hash = 'events'")
    page.wait("[...document.querySelectorAll('#list li')].some((it) => it.textContent.includes('power.on of device'))")


FRAMES = """(async () => {
  const canvas = document.querySelector('#map canvas');
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const turn = (n) => canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: n % 60 < 30 ? -40 : 40, clientX: left + width * (0.3 + 0.4 * Math.sin(n)),
    clientY: top + height / 2, cancelable: true }));
  const gaps = [];
  shingle.map.frames.length = 0;
  let last = performance.now();
  for (let n = 0; n < 240; n += 1) {
    turn(n);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }
  const p95 = (all) => all.sort((a, b) => a - b)[Math.floor(all.length * 0.95)];
  return [p95([...shingle.map.frames]), p95(gaps)];
})()"""


def frames_of_many_zones(page, name):
    chosen(page, "many")
    assert page.run("shingle.state.zones.count") == ZONES
    before = page.thread_seconds()
    painted, between = page.run(FRAMES)
    busy = (page.thread_seconds() - before) * 1000 / 240
    memory = page.run("performance.memory?.usedJSHeapSize ?? 0") >> 20
    print(f"{name}: zone map of {ZONES} zones: p95 of painting one {painted:.1f} ms, from frame to frame "
          f"{between:.1f} ms, processor time of the page {busy:.1f} ms a frame, heap {memory} MiB")


def comes_back(page, stack):
    stack.down()
    page.wait("document.getElementById('state').classList.contains('bad')")
    stack.up()
    # Another start, another token: the page says so, and opens with the new address.
    page.open(stack.url)
    page.wait("document.getElementById('state')?.textContent === 'Live'")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shingle", nargs="?", default="target/debug/shingle", type=pathlib.Path)
    parser.add_argument("--shots", type=pathlib.Path)
    arguments = parser.parse_args()
    program = browser.find()
    if not program:
        print("the web page is not tested: there is no Chromium; install chromium-headless-shell, or name one with CHROMIUM=")
        return 3
    shots = arguments.shots
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(arguments.shingle.resolve(), pathlib.Path(folder))
        page = browser.Browser(program, os.path.join(folder, "profile"))
        try:
            for name, size in (("desktop", DESKTOP), ("phone", PHONE)):
                steps = {"stack": graph_is_drawn, "zones": map_is_drawn, "time": charts_are_drawn, "events": lambda _: None}
                for dark in (False, True) if shots else (name == "phone",):
                    opens(page, stack.url, size, "stack", dark=dark)
                    a_failed_volume_says_why(page)
                    for view, step in steps.items():
                        page.run(f"location.hash = '{view}'")
                        page.wait(f"!document.getElementById('view-{view}').hidden")
                        step(page)
                        fits(page)
                        if shots:
                            time.sleep(3)
                            page.shot(shots / f"{name}-{view}-{'dark' if dark else 'light'}.png")
                page.run("location.hash = 'zones'")
                keys_work(page)
                frames_of_many_zones(page, name)
                fits(page)
                if shots:
                    page.shot(shots / f"{name}-many.png")
                page.run("location.hash = 'events'")
                a_cut_is_an_event(page, stack)
            complaints = page.complaints()
            assert not complaints, "\n".join(complaints)
            comes_back(page, stack)
        finally:
            page.close()
            stack.down()
    print(f"the web page works: {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
