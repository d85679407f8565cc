"""The provider is silent. What is cached and what is local goes on; every name that was never asked must fail."""

from anycastlab.lab import upstream
from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario
from anycastlab.scenarios.timing import Lengths

SCENARIO = Scenario(
    title="WAN down, with serve-stale",
    fault=faults.wan_down,
    least_nodes=1,
    expect=Expect(never_withdrawn=True, clean_kinds=("popular", "local"), failing_kinds=("uncached",)),
    uncacheable=("uncached",),
    # Longer than the names' lifetime: only stale answers can be right at its end.
    quick=Lengths(calm_s=6.0, hold_s=upstream.TTL_S + 8.0, after_s=8.0),
)
