"""The numbers of a run: worked examples with the published figures, and properties that hold for any run."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.phone.records import LOSSES, Outcome, Record
from anycastlab.report import statistics
from anycastlab.report.run import Announcement, FaultWindow, Verdict
from anycastlab.report.statistics import Gap, announced_spans, outages, returned_after, withdrawn_after, worst_gap
from tests.unit.report import samples

NS = 1_000_000_000
STEP = NS // 20  # 20 queries per second
LETTERS = {
    ".": Outcome.ANSWERED, "s": Outcome.STALLED, "x": Outcome.LOST, "l": Outcome.LATE, "f": Outcome.SERVFAIL,
    "w": Outcome.WRONG, "-": Outcome.SKIPPED, "?": Outcome.OPEN,
}  # fmt: skip
LATENCY_MS = {".": 10.0, "s": 800.0, "l": 2500.0, "f": 30.0, "w": 1.0}
RUNS = st.text("...sxxlfw-?", max_size=120)


def queries(letters: str) -> list[Record]:
    """One query per letter, 50 ms apart."""
    return [
        Record(i, "wire", "s", "n", "A", "popular", i * STEP, i * STEP, LATENCY_MS.get(letter), LETTERS[letter], "", "",
               False, 0, 0, 1, LETTERS[letter], None)
        for i, letter in enumerate(letters)
    ]  # fmt: skip


# --- felt outage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "seconds"),
    [
        ("....................", []),
        ("", []),
        # The published freeze: 16 lost at 20 per second. The next query, 0.8 s after the first lost one, is answered.
        ("....xxxxxxxxxxxxxxxx....", [0.81]),
        # Lost and answered alternate while one of three nodes is frozen: one outage.
        ("..x..x.x..x....", [0.46]),
        # A stalled query ends it with its own answer.
        ("..s......", [0.8]),
        ("..xs.....", [0.85]),
        ("..f..", [0.03]),
        ("..w..", [0.001]),
        # An answer after the timeout is no answer.
        ("..l...", [0.06]),
        # Never recovered: until the end of the record.
        ("..xxx", [0.15]),
        ("x", [0.0]),
        # More than a second of good answers between: two.
        ("x" + "." * 21 + "xx...", [0.06, 0.11]),
        ("x" + "." * 19 + "x...", [1.06]),
        # What was never asked, or never decided, is neither good nor bad.
        ("..x-x..", [0.16]),
        ("..xx??", [0.1]),
    ],
)
def test_outages(letters: str, seconds: list[float]) -> None:
    assert [s.seconds for s in outages(queries(letters))] == pytest.approx(seconds)


def test_at_low_rates_a_stretch_needs_twenty_good_queries_to_be_over() -> None:
    slow = [replace(r, intended_ns=r.intended_ns * 100) for r in queries("x....x....")]  # one query every 5 s

    assert len(outages(slow)) == 1


@given(RUNS)
def test_every_bad_query_is_in_exactly_one_stretch(letters: str) -> None:
    found = outages(queries(letters))

    assert sum(s.bad for s in found) == sum(letters.count(bad) for bad in "sxlfw")
    for stretch in found:
        assert stretch.ended_ns >= stretch.began_ns
    for before, after in itertools.pairwise(found):
        assert after.began_ns - before.began_ns > NS


@given(RUNS, RUNS)
def test_good_answers_around_a_run_do_not_shrink_its_outage(before: str, letters: str) -> None:
    """Unlike "answered %": a quiet hour does not make an outage smaller."""
    alone = max((s.seconds for s in outages(queries(letters + "."))), default=0.0)
    quiet = "." * (len(before) + 30)

    padded = max((s.seconds for s in outages(queries(quiet + letters + "." + quiet))), default=0.0)

    assert padded == pytest.approx(alone)


# --- worst gap --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "gap"),
    [
        ("", Gap()),
        ("...", Gap()),
        ("..xxxxxxxxxxxxxxxx..", Gap(16, 0.8)),
        ("xx.xxx.x", Gap(3, 0.15)),
        ("..xlx..", Gap(3, 0.15)),
        ("..xsx..", Gap(1, 0.05)),
        ("..xfx..", Gap(1, 0.05)),
        (".xxx", Gap(3, 0.15)),
        (".x-x.", Gap(2, 0.15)),
    ],
)
def test_worst_gap(letters: str, gap: Gap) -> None:
    assert worst_gap(queries(letters)) == gap


@given(RUNS.map(lambda letters: letters.replace("-", "").replace("?", "")))
def test_worst_gap_is_the_longest_row_of_losses(letters: str) -> None:
    losses = {letter for letter, outcome in LETTERS.items() if outcome in LOSSES}
    marked = "".join("x" if letter in losses else " " for letter in letters)

    gap = worst_gap(queries(letters))

    assert gap.queries == max((len(row) for row in marked.split()), default=0)
    if len(letters) > 1:
        assert gap.seconds == pytest.approx(gap.queries / 20)


# --- announcements ----------------------------------------------------------------------------------------------------

FAULT = FaultWindow("x", ("a", "b"), began_ns=10 * NS, reverted_ns=20 * NS)


def log(*events: tuple[float, str]) -> list[Announcement]:
    """`+a` announces a, `-a` withdraws it."""
    return [Announcement(round(at * NS), what[1:], what[0] == "+") for at, what in events]


UP = ((0, "+a"), (0, "+b"), (0, "+c"))


@pytest.mark.parametrize(
    ("events", "withdrawn", "returned"),
    [
        ((*UP, (10.5, "-a"), (10.8, "-b"), (21, "+a"), (23, "+b")), 0.8, 3.0),
        ((*UP, (10.5, "-a"), (21, "+a")), None, 1.0),  # b never went; what went, came back
        (UP, None, None),
        ((*UP, (10.5, "-a"), (10.6, "-b")), 0.6, None),
        ((*UP, (10, "-a"), (10, "-b"), (20, "+a"), (20, "+b")), 0.0, 0.0),
        ((*UP, (10.5, "-c"), (10.6, "+c")), None, None),  # a node that was not hit
        ((*UP, (5, "-a"), (5, "-b"), (10.5, "-c")), None, None),  # they were gone before
        ((*UP, (10.5, "-a"), (11, "+a"), (12, "-b"), (12.5, "-a"), (21, "+a"), (21, "+b")), 2.5, 1.0),
        ((*UP, (10.5, "-a"), (10.6, "-b"), (15, "+a"), (15, "+b")), 0.6, 0.0),  # back before the fault was reverted
        ((*UP, (20.5, "-a"), (20.6, "-b"), (21, "+a"), (21, "+b")), None, None),  # after its end: not by it
    ],
)
def test_times_at_the_router(
    events: tuple[tuple[float, str], ...], withdrawn: float | None, returned: float | None
) -> None:
    assert withdrawn_after(FAULT, log(*events)) == withdrawn
    assert returned_after(FAULT, log(*events)) == returned


def test_without_a_fault_there_are_no_times() -> None:
    assert withdrawn_after(None, log(*UP)) is None
    assert returned_after(None, log(*UP)) is None
    assert returned_after(replace(FAULT, reverted_ns=None), log((11, "-a"), (12, "+a"))) is None


@pytest.mark.parametrize(
    ("events", "spans"),
    [
        ((), []),
        (((0, "+a"),), [(5, 30)]),
        (((0, "-a"),), []),
        (((0, "+a"), (10, "-a"), (20, "+a")), [(5, 10), (20, 30)]),
        (((10, "-a"),), [(5, 10)]),  # before its first line, the opposite held
        (((10, "+a"),), [(10, 30)]),
        (((0, "+a"), (2, "-a")), []),
        (((0, "+a"), (40, "-a")), [(5, 30)]),
        (((0, "+a"), (10, "+a"), (12, "-a")), [(5, 12)]),
        (((0, "+b"),), []),
    ],
)
def test_spans_of_an_announcement(events: tuple[tuple[float, str], ...], spans: list[tuple[int, int]]) -> None:
    found = announced_spans(log(*events), "a", 5 * NS, 30 * NS)

    assert found == [(began * NS, ended * NS) for began, ended in spans]


@given(st.lists(st.tuples(st.floats(0, 40), st.sampled_from(["+a", "-a"]))))
def test_spans_are_disjoint_ordered_and_inside(events: list[tuple[float, str]]) -> None:
    spans = announced_spans(log(*events), "a", 5 * NS, 30 * NS)

    flat = [edge for span in spans for edge in span]
    assert flat == sorted(flat)
    assert all(5 * NS <= edge <= 30 * NS for edge in flat)
    assert all(ended > began for began, ended in spans)


# --- a run, and several -----------------------------------------------------------------------------------------------


def test_a_frozen_node_comes_out_as_it_was() -> None:
    run = samples.run("freeze", "t", "node01 frozen", samples.Home(dead=("node01",), withdrawn_after_s=0.87))

    numbers = statistics.summarize(run)

    assert (numbers.withdrawn_after_s, numbers.returned_after_s) == (0.87, 1.3)
    assert 0 < numbers.lost < 18  # 18 queries were due before the withdrawal, about a third of them through node01
    assert numbers.felt_outage_s <= 0.95
    assert sum(numbers.share.values()) == pytest.approx(1, abs=0.001)
    assert set(numbers.share) == set(samples.NODES)


def test_the_wan_takes_the_uncached_names_and_no_other() -> None:
    run = samples.run("wan-down", "t", "WAN down", samples.Home(wan_down=True))

    numbers = statistics.summarize(run)

    failed = {r.kind for r in run.queries if r.outcome is Outcome.SERVFAIL}
    assert failed == {"uncached"}
    assert numbers.servfail == 80  # two of ten, 20 per second, 20 s
    assert numbers.lost == 0


def test_json_has_the_documented_fields() -> None:
    fields = statistics.summarize(samples.run("kill", "t", "x", samples.Home())).as_json()

    assert {
        "sent", "lost", "stalled", "servfail", "felt_outage_s", "worst_gap", "withdrawn_after_s", "returned_after_s",
        "share", "proof", "phone",
    } <= set(fields)  # fmt: skip
    assert set(fields["worst_gap"]) == {"queries", "seconds"}
    assert set(fields["phone"]) == {"late_p99_ms", "skipped"}


@given(st.lists(st.none() | st.floats(0, 100), max_size=9))
def test_a_spread_is_median_and_range_of_what_exists(values: list[float | None]) -> None:
    known = [v for v in values if v is not None]

    found = statistics.spread(values)

    if not known:
        assert found is None
    else:
        assert found is not None
        assert (found.low, found.high, found.count) == (min(known), max(known), len(known))
        assert 2 * sum(v <= found.median for v in known) >= len(known)
        assert 2 * sum(v >= found.median for v in known) >= len(known)


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ([], Verdict.VOID),
        ([Verdict.OK], Verdict.OK),
        ([Verdict.OK, Verdict.FAILED], Verdict.FAILED),
        ([Verdict.FAILED, Verdict.VOID, Verdict.OK], Verdict.VOID),
    ],
)
def test_the_worst_verdict_speaks_for_all(verdicts: list[Verdict], worst: Verdict) -> None:
    assert statistics.worst_verdict(verdicts) is worst
