"""A node that answers, but late: the failure that no yes-or-no check sees."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import Scenario

SCENARIO = Scenario(
    title="The resolver of the serving node answers everything, but late",
    fault=lambda stage: faults.resolver_slow(stage, stage.serving_node()),
    # The probe judges the second slowest of its last 20 answers, three times in a row; it asks every 0.3 s, so 1.5 s at
    # best, and the 6 s of its window at worst.
    expect=Expect(withdrawn_within_s=6.0, clean_from_s=6.0),
)
