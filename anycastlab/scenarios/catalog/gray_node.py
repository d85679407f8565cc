"""A node that answers, but late: the failure that no yes-or-no check sees."""

from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Expect, Scenario

SCENARIO = Scenario(
    title="The resolver of the serving node answers everything, but late",
    fault=lambda stage: faults.resolver_slow(stage, stage.serving_node()),
    # The probe looks at the slowest 5 % of 20 answers, three times in a row: 1.5 s, and as much for the first of them.
    expect=Expect(withdrawn_within_s=5.0, clean_from_s=5.0),
)
