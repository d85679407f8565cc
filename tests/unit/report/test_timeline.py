"""The picture of a run: every query is a mark, in the right lane, at the right place."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from anycastlab.phone.records import LOSSES, Outcome
from anycastlab.report import timeline
from anycastlab.report.run import Run
from anycastlab.report.statistics import outages
from tests.unit.report import samples

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def freeze() -> Run:
    return samples.run("freeze", "Freeze", "node01 frozen", samples.Home(dead=("node01",)))


def parsed(run: Run, standalone: bool = False) -> ET.Element:
    return ET.fromstring(timeline.svg(run, standalone))


def by_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if element.get("class") == name]


def test_every_loss_is_a_mark_of_its_own_and_every_answer_a_dot(freeze: Run) -> None:
    root = parsed(freeze)

    lost = [r for r in freeze.queries if r.outcome in LOSSES]
    assert len(by_class(root, "lost")) == len(lost) > 0
    dots = sum((path.get("d") or "").count("M") for path in by_class(root, "answered"))
    assert dots == len(freeze.queries) - len(lost)


def test_lanes_are_the_nodes_and_whoever_else_answered() -> None:
    run = samples.run("all-dead", "t", "x", samples.Home(dead=samples.NODES, redirect_after_s=1))

    assert [lane.name for lane in timeline.layout(run)] == [*samples.NODES, "other", "no answer"]


def test_a_node_that_never_served_still_has_its_lane(freeze: Run) -> None:
    idle = replace(freeze, queries=tuple(replace(r, node="node02") for r in freeze.queries))

    assert [lane.name for lane in timeline.layout(idle)] == list(samples.NODES)


def test_every_query_is_in_one_lane(freeze: Run) -> None:
    lanes = timeline.layout(freeze)

    assert sum(len(lane.queries) for lane in lanes) == len(freeze.queries)
    edges = [edge for lane in lanes for edge in (lane.top, lane.top + lane.height)]
    assert edges == sorted(edges)


def test_the_fault_is_shaded_from_its_begin_to_its_end(freeze: Run) -> None:
    (shade,) = by_class(parsed(freeze), "fault")

    span = (freeze.end_ns - freeze.start_ns) / samples.NS
    plot = timeline.WIDTH - timeline.LEFT - timeline.RIGHT
    assert float(shade.get("x", 0)) == pytest.approx(timeline.LEFT + plot * 10 / span, abs=0.1)
    assert float(shade.get("width", 0)) == pytest.approx(plot * 20 / span, abs=0.1)


def test_a_withdrawn_node_has_a_hole_in_its_bar(freeze: Run) -> None:
    bars = by_class(parsed(freeze), "announced")

    titles = [bar.findtext(f"{SVG}title") for bar in bars]
    assert len(bars) == 4  # two pieces of node01, one of each other
    assert titles[:2] == ["node01 announced from -10.00 s to 0.87 s", "node01 announced from 21.30 s to 34.95 s"]


def test_a_short_outage_is_enlarged_with_its_cause() -> None:
    run = samples.run("x", "t", "x", samples.Home(dead=samples.NODES, redirect_after_s=1.05))
    (stretch,) = outages(run.queries)

    window = timeline.detail(run, stretch)

    assert window is not None
    assert run.fault is not None
    assert window[0] < run.fault.began_ns <= stretch.began_ns
    assert window[1] > stretch.ended_ns
    assert window[1] - window[0] < 4 * samples.NS
    enlarged = ET.fromstring(timeline.svg(run, window=window))
    assert len(by_class(enlarged, "lost")) == stretch.bad
    shown = [float(m) for path in enlarged.iter() for m in re.findall(r"M(-?[0-9.]+) ", path.get("d") or "")]
    assert min(shown) >= timeline.LEFT - 4
    assert max(shown) <= timeline.WIDTH - timeline.RIGHT + 4


def test_an_outage_that_fills_the_picture_is_not_drawn_twice() -> None:
    run = samples.run("x", "t", "x", samples.Home(dead=samples.NODES))
    (stretch,) = outages(run.queries)

    assert timeline.detail(run, stretch) is None


def test_a_window_beside_the_fault_shows_no_fault(freeze: Run) -> None:
    calm = ET.fromstring(timeline.svg(freeze, window=(freeze.start_ns, freeze.start_ns + samples.NS)))

    assert by_class(calm, "fault") == []


def test_slower_is_higher_and_nothing_leaves_its_lane() -> None:
    scale = timeline.Scale(0, 1, 0, 2000.0)

    heights = [scale.y(ms, 100) for ms in (0.01, 0.1, 1, 10, 100, 1000, 2000, 9000)]

    assert heights == sorted(heights, reverse=True)
    assert all(100 < y < 100 + timeline.LANE for y in [*heights, scale.y(None, 100)])


@pytest.mark.parametrize("outcome", [Outcome.STALLED, Outcome.SERVFAIL, Outcome.WRONG, Outcome.LOST])
def test_outcomes_differ_in_shape_not_only_in_color(freeze: Run, outcome: Outcome) -> None:
    run = replace(freeze, queries=tuple(replace(r, outcome=outcome) for r in freeze.queries[:3]))

    shapes = {re.sub(r"M[^a-zA-Z]*", "M", path.get("d") or "") for path in by_class(parsed(run), outcome.value)}
    others = {re.sub(r"M[^a-zA-Z]*", "M", timeline._shape(kind, 0, 0)) for kind in
              {"stalled", "servfail", "wrong", "lost"} - {outcome.value}}  # fmt: skip
    assert len(shapes) == 1
    assert not shapes & others


def test_a_run_of_many_losses_stays_light(freeze: Run) -> None:
    lost = replace(freeze.queries[0], outcome=Outcome.LOST, latency_ms=None, node="")
    many = tuple(replace(lost, query=i, intended_ns=lost.intended_ns + i * 1_000_000) for i in range(5000))

    text = timeline.svg(replace(freeze, queries=many))

    assert len(text) < 400_000
    assert text.count("<title>") < 20


def test_names_with_markup_are_text(freeze: Run) -> None:
    evil = '<script>&"'
    run = replace(
        freeze,
        title=evil,
        fault=replace(freeze.fault, what=evil) if freeze.fault else None,
        queries=tuple(replace(r, node=evil, name=evil) for r in freeze.queries),
    )

    root = parsed(run)

    assert evil in [text.text for text in root.iter(f"{SVG}text")]
    assert not list(root.iter(f"{SVG}script"))


@pytest.mark.parametrize("count", [0, 1])
def test_almost_nothing_is_still_a_picture(freeze: Run, count: int) -> None:
    run = replace(freeze, queries=freeze.queries[:count], announcements=(), fault=None)

    assert parsed(run).tag == f"{SVG}svg"


def test_alone_it_brings_its_colors(freeze: Run) -> None:
    assert "--lost:" in timeline.svg(freeze, standalone=True)
    assert "--lost:" not in timeline.svg(freeze)
