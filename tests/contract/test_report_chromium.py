"""The report in a real browser: light, dark, on a phone; complaining about nothing, loading nothing.

Chromium runs without a window and with a profile of its own. What it must show is asked in two ways: its log and its
network log while it loads the page itself, and measurements by a script of the test in a page around it.
"""

from __future__ import annotations

import html as markup
import json
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anycastlab.report import html, tables
from anycastlab.report.palette import COLORS
from tests.unit.report import samples
from tests.unit.report.test_palette import contrast

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--enable-logging=stderr",
    # Whatever might ask for a name gets none: nothing leaves this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
DESKTOP, PHONE = 1280, 390
TIMEOUT_S = 120


@dataclass(frozen=True)
class Visit:
    """What a load left behind."""

    dom: str
    console: list[str]
    requests: list[str]


class Browser:
    """Runs Chromium once per question."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium")
        assert program, "chromium is missing: apt-get install chromium"
        self._program = program
        self._folder = folder
        self._visits = 0

    def visit(self, page: str, *options: str, dark: bool = False) -> Visit:
        """Load a page from a file."""
        self._visits += 1
        folder = self._folder / str(self._visits)
        folder.mkdir()
        file, log = folder / "page.html", folder / "net.json"
        file.write_text(page, encoding="utf-8")
        command = [
            self._program, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", *options, file.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        return Visit(done.stdout, console, requested(log))

    def measure(self, page: str, width: int, dark: bool = False) -> dict[str, Any]:
        """What a page measures in a frame of that width."""
        visit = self.visit(FRAME % {"page": markup.escape(page), "width": width}, "--dump-dom", dark=dark)
        result = re.search(r'<pre id="result">(.*?)</pre>', visit.dom, re.DOTALL)
        assert result, visit.console
        assert visit.console == []
        measured = json.loads(markup.unescape(result[1]))
        assert isinstance(measured, dict)
        return measured

    def picture(self, page: str, dark: bool) -> list[tuple[int, int, int]]:
        """The pixels of a screenshot."""
        target = self._folder / f"screen-{self._visits}.png"
        self.visit(page, f"--screenshot={target}", f"--window-size={DESKTOP},800", dark=dark)
        return pixels(target.read_bytes())


FRAME = """<!doctype html><html style="color-scheme: light dark"><body style="margin:0">
<iframe style="width:%(width)dpx;height:900px;border:0;color-scheme:light dark" srcdoc="%(page)s"></iframe>
<pre id="result"></pre>
<script>
addEventListener("load", () => {
  const doc = document.querySelector("iframe").contentDocument, view = doc.defaultView;
  const visible = element => element.checkVisibility() && element.getClientRects().length > 0;
  const style = selector => view.getComputedStyle(doc.querySelector(selector));
  const texts = [...doc.querySelectorAll("main *")].filter(e => visible(e) && [...e.childNodes].some(
    n => n.nodeType === 3 && n.textContent.trim()));
  const scaled = e => {
    const svg = e.closest("svg");
    const factor = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    return parseFloat(view.getComputedStyle(e).fontSize) * factor;
  };
  document.querySelector("#result").textContent = JSON.stringify({
    width: doc.documentElement.clientWidth,
    contentWidth: doc.documentElement.scrollWidth,
    background: style("body").backgroundColor,
    text: style("body").color,
    lost: style(".timeline .lost").stroke,
    quiet: style(".quiet").color,
    heads: visible(doc.querySelector("thead")),
    tableTop: doc.querySelector("table").getBoundingClientRect().top,
    pictureTop: [...doc.querySelectorAll(".scroll svg, .small svg")].find(visible).getBoundingClientRect().top,
    pictures: [...doc.querySelectorAll(".scroll svg, .small svg")].filter(visible).length,
    widestPicture: Math.max(...[...doc.querySelectorAll(".scroll svg, .small svg")].filter(visible).map(
      e => e.getBoundingClientRect().right)),
    smallest: Math.min(...texts.filter(e => e.tagName !== "title").map(scaled)),
    cellsOutside: [...doc.querySelectorAll("td")].filter(visible).filter(
      e => e.getBoundingClientRect().right > doc.documentElement.clientWidth + 1).length,
    overflowing: [...doc.querySelectorAll("td div, dd")].filter(visible).filter(
      e => e.scrollWidth > e.clientWidth + 1).length,
    fromElsewhere: view.performance.getEntriesByType("resource").length,
  });
});
</script>"""


def requested(log: Path) -> list[str]:
    """Every address that the page made Chromium ask for, out of its network log.

    Chromium asks for things of its own as well (updates, the time); those have no page as their initiator, and the
    host rules above keep them here.
    """
    document = json.loads(log.read_text(encoding="utf-8"))
    start = document["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = (
        event["params"] for event in document["events"] if event["type"] == start and "url" in event.get("params", {})
    )
    by_page = {params["url"] for params in asked if params.get("initiator") != "not an origin"}
    return sorted(url for url in by_page if not url.startswith("file:"))


def pixels(png: bytes) -> list[tuple[int, int, int]]:
    """The colors of an 8-bit RGB or RGBA picture without interlacing (PNG specification, chapters 7 and 9)."""
    width, height, depth, kind, _, _, interlaced = struct.unpack("!IIBBBBB", png[16:29])
    assert (depth, interlaced) == (8, 0)
    size = {2: 3, 6: 4}[kind]
    data, position = b"", 8
    while position < len(png):
        length = int.from_bytes(png[position : position + 4], "big")
        if png[position + 4 : position + 8] == b"IDAT":
            data += png[position + 8 : position + 8 + length]
        position += 12 + length
    raw, stride = zlib.decompress(data), width * size
    above = bytearray(stride)
    found: list[tuple[int, int, int]] = []
    for y in range(height):
        start = y * (stride + 1)
        line = bytearray(raw[start + 1 : start + 1 + stride])
        for i in range(stride):
            left = line[i - size] if i >= size else 0
            corner = above[i - size] if i >= size else 0
            line[i] = (line[i] + _predicted(raw[start], left, above[i], corner)) & 0xFF
        found += [(line[i], line[i + 1], line[i + 2]) for i in range(0, stride, size)]
        above = line
    return found


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
    if kind < 4:
        return (0, left, up, (left + up) // 2)[kind]
    estimate = left + up - corner
    return min((left, up, corner), key=lambda value: abs(estimate - value))


def hexadecimal(color: str) -> str:
    """`rgb(1, 2, 3)` as `#010203`."""
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", color)[:3])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return Browser(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def page() -> str:
    return html.page(tables.group(samples.several()))


def test_the_browser_complains_of_nothing_and_asks_nobody(browser: Browser, page: str) -> None:
    visit = browser.visit(page, "--dump-dom")

    assert visit.console == []
    assert visit.requests == []
    assert visit.dom.count("<title>Timeline of ") == 2 * 13  # each run's once for wide and once for narrow screens


def test_these_tests_would_notice(browser: Browser, page: str) -> None:
    # given the same page with a picture from elsewhere, once without and once under the page's policy
    picture = '<img src="http://127.0.0.1:9/picture.png">'
    loose = page.replace("<main>", f"<main>{picture}").replace("default-src 'none';", "default-src *;")
    strict = page.replace("<main>", f"<main>{picture}")

    assert browser.visit(loose, "--dump-dom").requests == ["http://127.0.0.1:9/picture.png"]
    refused = browser.visit(strict, "--dump-dom")
    assert refused.requests == []
    assert any("Content Security Policy" in line for line in refused.console)


@pytest.mark.parametrize("dark", [False, True])
def test_it_follows_the_readers_light_or_dark(browser: Browser, page: str, dark: bool) -> None:
    measured = browser.measure(page, DESKTOP, dark)

    colors = {name: hexadecimal(measured[name]) for name in ("background", "text", "lost", "quiet")}
    assert colors == {
        "background": COLORS["page"][dark], "text": COLORS["text"][dark], "lost": COLORS["lost"][dark],
        "quiet": COLORS["quiet"][dark],
    }  # fmt: skip
    assert contrast(colors["text"], colors["background"]) >= 7


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_painted_is_what_the_palette_says(browser: Browser, page: str, dark: bool) -> None:
    painted = browser.picture(page, dark)

    ground, ink = (tuple(int(COLORS[name][dark][i : i + 2], 16) for i in (1, 3, 5)) for name in ("page", "text"))
    assert painted.count(ground) > len(painted) * 0.8  # type: ignore[arg-type]
    assert painted.count(ink) > 500  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [PHONE, 768, DESKTOP])
def test_it_fits_the_screen(browser: Browser, page: str, width: int) -> None:
    measured = browser.measure(page, width)

    assert measured["width"] == width
    assert measured["contentWidth"] <= width, "the page scrolls sideways"
    assert measured["cellsOutside"] == 0
    assert measured["overflowing"] == 0
    assert measured["smallest"] >= 10, "text that nobody can read"
    assert measured["tableTop"] < measured["pictureTop"]
    assert measured["pictures"] == 9  # one per scenario and one more for each short outage; repeats are folded
    assert measured["heads"] is (width > 960)
    assert measured["fromElsewhere"] == 0
