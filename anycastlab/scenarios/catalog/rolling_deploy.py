"""A setting changes on all nodes by the ordinary deploy, while the household asks."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="Rolling deploy of a changed setting",
    fault=faults.rolling_deploy,
    expect=Expect(lost_most=0, servfail_most=0),
)
