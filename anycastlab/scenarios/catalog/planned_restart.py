"""The resolver is restarted on purpose, as an update does it."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="Planned restart of the serving node's resolver",
    fault=lambda stage: faults.resolver_restarted(stage, stage.serving_node()),
    expect=Expect(lost_most=0, servfail_most=0),
)
