"""The router's own resolver is down: local names have no source, and no node may leave for a cause that all share."""

from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Expect, Scenario

SCENARIO = Scenario(
    title="The router's own resolver is down",
    fault=faults.router_dns_down,
    expect=Expect(never_withdrawn=True, clean_kinds=("popular", "uncached")),
)
