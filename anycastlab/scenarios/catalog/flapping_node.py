"""A resolver that dies every few seconds: each return would cost something, so the node must stay away longer."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The resolver of the serving node dies again and again",
    fault=lambda stage: faults.flapping(stage, stage.serving_node()),
    # A few queries for the first death, as in `resolver-kill`, and few more because the node is held down.
    expect=Expect(lost_most=12, outage_most_s=0.6),
)
