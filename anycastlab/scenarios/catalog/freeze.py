"""The headline: a node that is there, with its link up, and says nothing any more. Only BFD sees it."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The serving node freezes: link up, all packets dropped",
    fault=lambda stage: faults.frozen(stage, stage.serving_node()),
    expect=Expect(outage_detections=1.25, clean_from_s=2.0, stays_withdrawn=True),
    in_quick_set=True,
)
