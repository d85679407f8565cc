"""Large answers over TCP while their node is taken out of service: connections are short, so they finish."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import PhoneUse, Scenario

SCENARIO = Scenario(
    title="Large answers over TCP while their node is drained",
    fault=lambda stage: faults.drained(stage.serving_node()),
    phone=PhoneUse(mix="large", protocol="tcp"),
    expect=Expect(lost_most=1, withdrawn_within_s=2.0),
)
