"""Layout `flat`, nodes among the clients: the serving node loses its power."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import PhoneUse, Scenario

SCENARIO = Scenario(
    title="Layout flat: the serving node loses its power",
    fault=lambda stage: faults.killed(stage.serving_node()),
    phone=PhoneUse(one_flow=True),
    expect=Expect(outage_detections=1.25, clean_from_s=2.0, withdrawn_within_s=1.0),
    layout="flat",
)
