"""The same freeze, asked over one socket: every query of the household goes to the node that dies.

With a fresh port for each query only a third of them do; this is the figure to hold beside the published one.
"""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import PhoneUse, Scenario

SCENARIO = Scenario(
    title="The node that serves the client's one flow freezes",
    fault=lambda stage: faults.frozen(stage, stage.serving_node()),
    phone=PhoneUse(one_flow=True),
    expect=Expect(outage_detections=1.25, clean_from_s=2.0),
)
