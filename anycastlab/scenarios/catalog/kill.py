"""The node that serves the client loses its power."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The serving node loses its power",
    fault=lambda stage: faults.killed(stage.serving_node()),
    # Its daemons' connections end with it, which the router hears at once: usually nothing is lost. BFD is the bound.
    expect=Expect(outage_detections=1.25, clean_from_s=2.0, withdrawn_within_s=1.0, stays_withdrawn=True),
    in_quick_set=True,
)
