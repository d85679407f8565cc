"""The page as text; how it looks is tested in a browser (tests/contract/test_report_chromium.py)."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from anycastlab.report import html, tables
from tests.unit.report import samples

VOID_ELEMENTS = {"meta", "br", "img", "link"}


@pytest.fixture(scope="module")
def page() -> str:
    return html.page(tables.group(samples.several()))


class Balance(HTMLParser):
    """Fails on a closing tag that does not fit; collects what would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.order: list[str] = []
        self.links: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.order.append(tag)
        values = dict(attrs)
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)
        if tag in {"script", "img", "link", "iframe", "object"} or values.get("src"):
            self.loads.append(tag)
        if href := values.get("href"):
            self.links.add(href)
        if name := values.get("id"):
            self.ids.add(name)

    def handle_startendtag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.order.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_is_well_formed_and_loads_nothing(page: str) -> None:
    balance = Balance()
    balance.feed(page)

    assert balance.open == []
    assert balance.loads == []
    assert "url(" not in page
    assert "@import" not in page
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_the_table_comes_first_and_links_to_each_scenario(page: str) -> None:
    balance = Balance()
    balance.feed(page)

    assert balance.order.index("table") < balance.order.index("svg")
    assert len(balance.links) == 6
    assert {link.removeprefix("#") for link in balance.links} <= balance.ids


def test_every_run_has_a_timeline(page: str) -> None:
    # Short outages are drawn once more, enlarged; and each picture for a desk and for a telephone.
    assert page.count("<title>Timeline of ") == 2 * (8 + 5)


def test_reasons_and_proofs_are_told_and_escaped(page: str) -> None:
    assert "Expected at most 1.5 s without DNS &amp; got &lt;20 s&gt;." in page
    assert "not proven</span>: The rule on node03 matched 0 packets." in page


def test_the_run_in_the_middle_is_shown_first() -> None:
    # given outages of 1.5, 1.0 and 2.0 s
    home = [samples.Home(dead=samples.NODES, redirect_after_s=after) for after in (1.5, 1.0, 2.0)]
    page = html.page(tables.group([samples.run("freeze", "t", "x", h, number=n) for n, h in enumerate(home, 1)]))
    section = page[page.index('id="scenario-freeze"') :]

    shown, hidden = section.split("<details><summary>The other 2 runs</summary>", 1)
    assert "<b>Run 1 of 3</b>" in shown
    assert "<b>Run 2 of 3</b>" in hidden
    assert "<b>Run 3 of 3</b>" in hidden


def test_what_never_left_did_not_fail_to_return(page: str) -> None:
    wan = page[page.index('<section id="scenario-wan-down">') :]

    assert "<dt>withdrawn after</dt><dd>never</dd>" in wan
    assert "<dt>returned after</dt><dd>-</dd>" in wan


def test_groups_of_one_scenario_have_an_anchor_each() -> None:
    kill = samples.several()[0]
    groups = tables.group([kill, replace(kill, settings={**kill.settings, "bfd": "3 x 50 ms"})])
    balance = Balance()
    balance.feed(html.page(groups))

    assert len(balance.ids) == 2
    assert {link.removeprefix("#") for link in balance.links} == balance.ids
    assert "2 runs of 1 scenario " in html.page(groups)
