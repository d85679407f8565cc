"""The node's cable is out: the node sees it, the router does not, for a switch lies between them."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The cable of the serving node is pulled",
    fault=lambda stage: faults.cable_pulled(stage, stage.serving_node()),
    expect=Expect(outage_detections=1.25, clean_from_s=2.0, stays_withdrawn=True),
)
