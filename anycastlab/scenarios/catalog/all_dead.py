"""Every node is dead: the router's own resolver is the last resort."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="All nodes lose their power; the last resort answers",
    fault=lambda stage: faults.killed(*(node.name for node in stage.site.nodes)),
    # Netwatch asks once a second and waits 0.4 s (routeros.rows_fallback).
    expect=Expect(outage_most_s=1.5, others_answer=True),
    least_nodes=1,
    in_quick_set=True,
)
