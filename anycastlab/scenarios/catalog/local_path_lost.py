"""One node cannot ask the router for local names, while its cache still knows the ones everybody asks for.

The household asks for local names that no cache can know, because a warm cache would make any node look fine.
"""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import PhoneUse, Scenario

SCENARIO = Scenario(
    title="The serving node loses its way to local names",
    fault=lambda stage: faults.local_path_lost(stage, stage.serving_node()),
    phone=PhoneUse(mix="lan"),
    # The probe withdraws after 1.2 s and BGP takes 0.12 s.
    expect=Expect(withdrawn_within_s=2.0, clean_from_s=2.0),
    uncacheable=("local",),
)
