"""The node that serves the client loses its power."""

from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Expect, Scenario

SCENARIO = Scenario(
    title="The serving node loses its power",
    fault=lambda stage: faults.killed(stage.serving_node()),
    # Its interface vanishes with it, so the router knows at once: nothing may be lost.
    expect=Expect(lost_most=0, withdrawn_within_s=2.0),
    in_quick_set=True,
)
