"""The link that carries the service address goes down on a healthy node: the withdrawal by itself."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The service link of the serving node goes down",
    fault=lambda stage: faults.service_link_down(stage.serving_node()),
    # Linux goes on answering on the address while packets still come, so nothing is lost in the 0.12 s of BGP.
    expect=Expect(lost_most=0, withdrawn_within_s=1.0),
)
