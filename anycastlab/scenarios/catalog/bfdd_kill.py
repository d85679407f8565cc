"""The BFD daemon dies: to the router the node looks dead, though it answers."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="bfdd of the serving node is killed",
    fault=lambda stage: faults.daemon_killed(stage.serving_node(), "bfdd"),
    expect=Expect(lost_most=0, withdrawn_within_s=1.5),
)
