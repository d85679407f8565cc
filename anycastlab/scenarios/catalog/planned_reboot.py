"""The node is rebooted on purpose."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="Planned reboot of the serving node",
    fault=lambda stage: faults.rebooted(stage.serving_node()),
    expect=Expect(lost_most=0, servfail_most=0),
)
