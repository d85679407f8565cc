"""The router drops its BGP session with a node, which is as healthy as before."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The router resets its BGP session with the serving node",
    fault=lambda stage: faults.session_reset(stage, stage.serving_node()),
    expect=Expect(lost_most=0, withdrawn_within_s=1.0),
)
