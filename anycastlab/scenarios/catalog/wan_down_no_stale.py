"""Control: the provider is silent and expired names are not served. Popular names must fail once they expire."""

from anycastlab.lab import upstream
from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario
from anycastlab.scenarios.timing import Lengths

SCENARIO = Scenario(
    title="WAN down, without serve-stale",
    fault=faults.wan_down,
    least_nodes=1,
    expect=Expect(
        never_withdrawn=True,
        clean_kinds=("local",),
        failing_kinds=("uncached",),
        lost_least_of={"popular": 20},
        # AdGuard Home asks once for several equal questions, and gives an empty answer to the others when that fails.
        wrong_most=None,
    ),
    uncacheable=("uncached",),
    quick=Lengths(calm_s=6.0, hold_s=upstream.TTL_S + 8.0, after_s=8.0),
    settings={"serve_stale": False},
    control=True,
)
