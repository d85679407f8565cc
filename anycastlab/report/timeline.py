"""One run as a picture: every query a mark, by latency and outcome, in the lane of the node that served it.

Time runs to the right, in seconds from the fault (or from the first query). In a lane, height is latency on a
logarithmic scale from `FAST_MS` to the phone's timeout; what was never answered sits on the lane's upper edge. The bar
below a lane shows when the router had a route through that node. Queries whose node nobody knows have their own lane.
The row above all lanes is the household: whether names resolved for it, whoever answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

from anycastlab.outside_text import one_line
from anycastlab.phone.limits import TIMEOUT_S
from anycastlab.phone.records import LOSSES, OTHER_NODE, Outcome, Record
from anycastlab.report import palette
from anycastlab.report.run import Run
from anycastlab.report.statistics import Stretch, announced_spans, outages

NS = 1_000_000_000
WIDTH, LEFT = 1000, 124
SMALL_WIDTH, SMALL_LEFT = 388, 66  # fits into 420 pixels with the page's margins, its text as large as in the other
RIGHT, TOP, BOTTOM = 12, 26, 34
HOUSEHOLD = 12  # pixels: the row of the household as a whole
LANE, FLAT, BAR, GAP = 74, 15, 6, 14  # pixels: plot of a lane, of a flat one, its announcement bar, space to the next
FAST_MS = 0.1  # everything faster lies on the lane's lower edge
GRID_MS = (1, 10, 100, 1000)
UNKNOWN_LANE = "no answer"
# From so many troubled queries on, marks carry no tooltip each: nobody reads them, and the page stays light.
MOST_TOOLTIPS = 2000
_TICKS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)
_MOST_TICKS, _SMALL_TICKS = 14, 5
_SMALL_LABEL = 40  # characters of the fault's name that fit above a small picture
# An outage shorter than one part in so many of the run is drawn once more, enlarged, with this much around it.
DETAIL_SHARE = 8
DETAIL_MARGIN_NS = NS // 2

STYLE = """
.timeline text { font: 13px system-ui, sans-serif; fill: var(--text); }
.timeline .name { font-weight: 600; }
.timeline .quiet { fill: var(--quiet); font-size: 11px; }
.timeline .lane { fill: var(--panel); }
.timeline .grid { stroke: var(--line); stroke-width: 1; }
.timeline .fault { fill: var(--fault); fill-opacity: .13; }
.timeline .edge { stroke: var(--fault); stroke-width: 1.5; stroke-dasharray: 4 3; }
.timeline .fault-label { fill: var(--fault); font-weight: 600; }
.timeline .announced { fill: var(--announced); }
.timeline .resolves { fill: var(--answered); fill-opacity: .55; }
.timeline .outage { fill: var(--lost); }
.timeline .withdrawn { fill: none; stroke: var(--line); }
.timeline .answered { stroke: var(--answered); stroke-width: 3.4; stroke-linecap: round; stroke-opacity: .75; }
.timeline .stalled { fill: var(--stalled); }
.timeline .lost { stroke: var(--lost); stroke-width: 2; fill: none; }
.timeline .servfail { fill: var(--servfail); }
.timeline .wrong { fill: none; stroke: var(--wrong); stroke-width: 2; }
"""


@dataclass(frozen=True)
class Lane:
    """Where one node's queries are drawn. A flat lane holds only losses: it needs no latency."""

    name: str
    top: int
    flat: bool
    queries: tuple[Record, ...]

    @property
    def height(self) -> int:
        return FLAT if self.flat else LANE


@dataclass(frozen=True)
class Scale:
    """From nanoseconds and milliseconds to pixels."""

    start_ns: int
    end_ns: int
    zero_ns: int
    slow_ms: float
    width: int = WIDTH
    left: int = LEFT

    def x(self, time_ns: float) -> float:
        span = max(self.end_ns - self.start_ns, 1)
        return self.left + (self.width - self.left - RIGHT) * (time_ns - self.start_ns) / span

    def y(self, latency_ms: float | None, top: float) -> float:
        """Within a lane that starts at `top`; None is the upper edge."""
        if latency_ms is None:
            return top + 7
        share = math.log(max(latency_ms, FAST_MS) / FAST_MS) / math.log(self.slow_ms / FAST_MS)
        return top + LANE - 5 - (LANE - 17) * min(share, 1.0)


def svg(run: Run, standalone: bool = False, window: tuple[int, int] | None = None, small: bool = False) -> str:
    """The picture. Standalone it carries its own colors; inside a page it takes the page's.

    `window` (nanoseconds) shows a part of the run; its lanes stay those of the whole. `small` is for a telephone.
    """
    start_ns, end_ns = window or (run.start_ns, run.end_ns)
    lanes = layout(run)
    bottom = lanes[-1].top + lanes[-1].height + BAR + GAP
    height = bottom + BOTTOM
    fault = run.fault
    scale = Scale(
        start_ns=start_ns,
        end_ns=max(end_ns, start_ns + 1),
        zero_ns=fault.began_ns if fault else run.start_ns,
        slow_ms=max(float(run.phone.get("schedule", {}).get("timeout_s", TIMEOUT_S)) * 1000, 10 * FAST_MS),
        width=SMALL_WIDTH if small else WIDTH,
        left=SMALL_LEFT if small else LEFT,
    )
    parts = [
        f'<svg class="timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {scale.width} {height}" role="img">',
        f"<title>{escape(description(run))}</title>",
    ]
    if standalone:
        parts.append(f"<style>{palette.css()}svg {{ background: var(--page) }}{STYLE}</style>")
    parts.extend(_household(run, scale))
    for lane in lanes:
        parts.extend(_lane(run, lane, scale))
    parts.extend(_fault(run, scale, bottom))
    troubled = sum(r.outcome is not Outcome.ANSWERED for r in run.queries)
    for lane in lanes:
        parts.extend(_marks(lane, scale, tooltips=troubled <= MOST_TOOLTIPS))
    parts.extend(_axis(scale, bottom))
    return "\n".join([*parts, "</svg>"])


def detail(run: Run, stretch: Stretch) -> tuple[int, int] | None:
    """The window around an outage that is too short to be seen in the whole run; None when it can be seen there."""
    length_ns = stretch.ended_ns - stretch.began_ns
    if length_ns * DETAIL_SHARE > run.end_ns - run.start_ns:
        return None
    margin_ns = max(length_ns // 2, DETAIL_MARGIN_NS)
    began_ns, ended_ns = stretch.began_ns, stretch.ended_ns
    if run.fault and began_ns - margin_ns * 4 < run.fault.began_ns < began_ns:
        began_ns = run.fault.began_ns  # what caused it belongs in the picture
    return max(began_ns - margin_ns, run.start_ns), min(ended_ns + margin_ns, run.end_ns)


def description(run: Run) -> str:
    """For those who do not see the picture."""
    lost = sum(r.outcome in LOSSES for r in run.queries)
    what = f" The fault: {run.fault.what}." if run.fault else ""
    return f"Timeline of {run.title}, run {run.number}: {len(run.queries)} queries, {lost} lost.{what}"


def layout(run: Run) -> list[Lane]:
    """Lanes from top to bottom: nodes that served or were announced, whoever else answered, nobody known."""
    seen = {_lane_name(r) for r in run.queries}
    nodes = sorted((seen | {e.node for e in run.announcements}) - {UNKNOWN_LANE, OTHER_NODE})
    lanes: list[Lane] = []
    top = TOP + HOUSEHOLD + GAP
    for name in [*nodes, *(lane for lane in (OTHER_NODE, UNKNOWN_LANE) if lane in seen)] or [UNKNOWN_LANE]:
        mine = tuple(r for r in run.queries if _lane_name(r) == name)
        flat = name == UNKNOWN_LANE and all(r.outcome in LOSSES or r.latency_ms is None for r in mine)
        lanes.append(Lane(name, top, flat, mine))
        top += lanes[-1].height + BAR + GAP
    return lanes


def _lane_name(record: Record) -> str:
    return record.node or UNKNOWN_LANE


def _household(run: Run, scale: Scale) -> Iterable[str]:
    """One row for all of it: names resolve, or they do not, as `statistics.outages` has it."""
    left, width = scale.left, scale.width - scale.left - RIGHT
    yield f'<text class="name" x="4" y="{TOP + 11}">{"home" if scale.width == SMALL_WIDTH else "household"}</text>'
    yield f'<rect class="resolves" x="{left}" y="{TOP}" width="{width}" height="{HOUSEHOLD}"/>'
    for stretch in outages(run.queries):
        if stretch.ended_ns < scale.start_ns or stretch.began_ns > scale.end_ns:
            continue
        began = max(scale.x(stretch.began_ns), left)
        ended = min(scale.x(stretch.ended_ns), scale.width - RIGHT)
        title = f"names did not all resolve from {_relative(stretch.began_ns, scale)} on, for {stretch.seconds:.2f} s"
        yield (
            f'<rect class="outage" x="{began:.1f}" y="{TOP}" width="{max(ended - began, 1):.1f}" height="{HOUSEHOLD}">'
            f"<title>{title}</title></rect>"
        )


def _lane(run: Run, lane: Lane, scale: Scale) -> Iterable[str]:
    left, width, top = scale.left, scale.width - scale.left - RIGHT, lane.top
    yield f'<rect class="lane" x="{left}" y="{top}" width="{width}" height="{lane.height}"/>'
    for latency_ms in GRID_MS:
        if latency_ms <= scale.slow_ms and not lane.flat:
            y = scale.y(latency_ms, top)
            yield f'<path class="grid" d="M{left} {y:.1f}h{width}"/>'
            if scale.width == SMALL_WIDTH and latency_ms == GRID_MS[-1]:
                continue  # the lane's name is there
            label = f"{latency_ms} ms" if latency_ms < 1000 else "1 s"
            yield f'<text class="quiet" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield f'<text class="name" x="4" y="{top + 12}">{escape(lane.name)}</text>'
    if not any(e.node == lane.name for e in run.announcements):
        return
    y = top + lane.height + 2
    yield f'<rect class="withdrawn" x="{left}" y="{y + 0.5}" width="{width}" height="{BAR - 1}"/>'
    for began, ended in announced_spans(run.announcements, lane.name, scale.start_ns, scale.end_ns):
        x = scale.x(began)
        title = f"{escape(lane.name)} announced from {_relative(began, scale)} to {_relative(ended, scale)}"
        yield (
            f'<rect class="announced" x="{x:.1f}" y="{y}" width="{max(scale.x(ended) - x, 0.5):.1f}" height="{BAR}">'
            f"<title>{title}</title></rect>"
        )


def _fault(run: Run, scale: Scale, bottom: float) -> Iterable[str]:
    if run.fault is None:
        return
    end_ns = run.fault.reverted_ns if run.fault.reverted_ns is not None else scale.end_ns
    if end_ns <= scale.start_ns or run.fault.began_ns >= scale.end_ns:
        return
    edges = [scale.x(at) for at in (run.fault.began_ns, end_ns)]
    left, right = scale.left, scale.width - RIGHT
    began, ended = max(edges[0], left), min(edges[1], right)
    top = TOP - 8
    yield f'<rect class="fault" x="{began:.1f}" y="{top}" width="{max(ended - began, 1):.1f}" height="{bottom - top}"/>'
    for x in (edge for edge in edges if left <= edge <= right):
        yield f'<path class="edge" d="M{x:.1f} {top}V{bottom}"/>'
    # Beside the middle of the window, the label would leave the picture when the window is at its edge.
    small = scale.width == SMALL_WIDTH
    x = scale.width / 2 if small else min(max((began + ended) / 2, left + 150), right - 150)
    label = one_line(run.fault.what, _SMALL_LABEL) if small else run.fault.what
    yield f'<text class="fault-label" x="{x:.1f}" y="13" text-anchor="middle">{escape(label)}</text>'


def _marks(lane: Lane, scale: Scale, tooltips: bool) -> Iterable[str]:
    seen = [r for r in lane.queries if scale.start_ns <= r.intended_ns <= scale.end_ns]
    # One path for all ordinary answers, and each pixel once: ten thousand elements would make the page crawl.
    spots = {
        (round(scale.x(r.intended_ns), 1), round(scale.y(r.latency_ms, lane.top), 1))
        for r in seen
        if r.outcome is Outcome.ANSWERED
    }
    if spots:
        yield f'<path class="answered" d="{"".join(f"M{x:g} {y:g}h0" for x, y in sorted(spots))}"/>'
    for record in seen:
        if record.outcome in (Outcome.ANSWERED, Outcome.OPEN, Outcome.SKIPPED):
            continue
        never = record.outcome in LOSSES
        x, y = scale.x(record.intended_ns), scale.y(None if never else record.latency_ms, lane.top)
        kind = "lost" if never else record.outcome.value
        title = f"<title>{escape(_tooltip(record, scale))}</title>" if tooltips else ""
        yield f'<path class="{kind}" d="{_shape(kind, x, y)}">{title}</path>'


def _shape(kind: str, x: float, y: float) -> str:
    """Path of a mark: stalled a triangle, lost a cross, SERVFAIL a square, wrong an open diamond."""
    if kind == "stalled":
        return f"M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z"
    if kind == "servfail":
        return f"M{x - 3.5:.1f} {y - 3.5:.1f}h7v7h-7z"
    if kind == "wrong":
        return f"M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5-4.5z"
    return f"M{x - 3.5:.1f} {y - 3.5:.1f}l7 7m0-7l-7 7"


def legend_mark(kind: str) -> str:
    """A small picture of one mark for the legend."""
    if kind == "announced":
        inner = '<rect class="announced" x="1" y="5" width="16" height="6"/>'
    elif kind == "answered":
        inner = '<path class="answered" d="M4 10h0M9 6h0M14 9h0"/>'
    else:
        inner = f'<path class="{kind}" d="{_shape(kind, 9, 8)}"/>'
    return f'<svg class="timeline mark" viewBox="0 0 18 16" width="18" height="16" aria-hidden="true">{inner}</svg>'


def _axis(scale: Scale, bottom: float) -> Iterable[str]:
    span_s = (scale.end_ns - scale.start_ns) / NS
    most = _SMALL_TICKS if scale.width == SMALL_WIDTH else _MOST_TICKS
    step = next((tick for tick in _TICKS_S if span_s / tick <= most), _TICKS_S[-1])
    first = math.ceil((scale.start_ns - scale.zero_ns) / NS / step)
    last = math.floor((scale.end_ns - scale.zero_ns) / NS / step)
    for tick in range(first, last + 1):
        x = scale.x(scale.zero_ns + tick * step * NS)
        yield f'<path class="grid" d="M{x:.1f} {bottom}v5"/>'
        yield f'<text class="quiet" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{tick * step:.4g} s</text>'


def _tooltip(record: Record, scale: Scale) -> str:
    latency = "" if record.latency_ms is None else f", {record.latency_ms:.0f} ms"
    reason = record.note or (record.rcode if record.outcome is not Outcome.STALLED else "")
    return f"{_relative(record.intended_ns, scale)}: {record.name} {record.outcome.value}{latency} {reason}".rstrip()


def _relative(time_ns: int, scale: Scale) -> str:
    return f"{(time_ns - scale.zero_ns) / NS:.2f} s"
