"""The resolver hangs: its port is open and nobody answers. Only the probe sees it."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The resolver of the serving node hangs",
    fault=lambda stage: faults.resolver_stopped(stage, stage.serving_node()),
    # The probe: 0.3 s wait, 3 checks of 0.3 s, one look at its peers, and 0.12 s of BGP (see probe.config).
    expect=Expect(withdrawn_within_s=1.6, clean_from_s=1.6, stays_withdrawn=True),
)
