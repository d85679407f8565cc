"""A person takes the node out of service."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The serving node is drained",
    fault=lambda stage: faults.drained(stage.serving_node()),
    expect=Expect(lost_most=0, servfail_most=0, withdrawn_within_s=2.0, stays_withdrawn=True),
)
