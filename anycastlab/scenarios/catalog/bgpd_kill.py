"""The routing daemon dies. The session's end tells the router; watchfrr starts it again."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="bgpd of the serving node is killed",
    fault=lambda stage: faults.daemon_killed(stage.serving_node(), "bgpd"),
    # The node still answers while the router changes its mind, so nothing may be lost.
    expect=Expect(lost_most=0, withdrawn_within_s=1.0),
)
