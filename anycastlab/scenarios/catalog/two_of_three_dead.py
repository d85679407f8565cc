"""All nodes but one lose their power at once."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="All nodes but one lose their power",
    fault=lambda stage: faults.killed(*(node.name for node in stage.site.nodes[1:])),
    expect=Expect(outage_detections=1.25, clean_from_s=2.0, withdrawn_within_s=1.0),
)
