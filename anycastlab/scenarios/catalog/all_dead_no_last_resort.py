"""Control: every node is dead and netwatch is off. The household must be without DNS until the nodes are back."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="All nodes lose their power, without the last resort",
    fault=lambda stage: faults.without_last_resort(faults.killed(*(node.name for node in stage.site.nodes))),
    expect=Expect(outage_least_s=5.0, lost_least=50),
    least_nodes=1,
    control=True,
    in_quick_set=True,
)
