"""The resolver's process dies; systemd takes the link down at once and starts it again."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The resolver of the serving node is killed",
    fault=lambda stage: faults.resolver_killed(stage, stage.serving_node()),
    # 0.12 s of BGP plus what systemd needs to notice; a third of the queries of that time go to this node.
    expect=Expect(lost_most=4, outage_most_s=0.6, withdrawn_within_s=0.6),
)
