"""The router's own resolver is down: local names have no source, and no node may leave for a cause that all share.

The household asks for local names that no cache can know; the well-known ones go on, stale, for hours.
"""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import PhoneUse, Scenario

SCENARIO = Scenario(
    title="The router's own resolver is down",
    fault=faults.router_dns_down,
    least_nodes=1,
    phone=PhoneUse(mix="lan"),
    expect=Expect(never_withdrawn=True, clean_kinds=("popular", "uncached"), failing_kinds=("local",)),
    uncacheable=("local",),
)
