"""Control: layout `flat` with a router that sends ICMP redirects. Clients learn to go to one node directly, and when it
dies they go on asking it for minutes, though the router has long moved on."""

from anycastlab.report.expect import Expect
from anycastlab.scenarios import faults
from anycastlab.scenarios.model import PhoneUse, Scenario

SCENARIO = Scenario(
    title="Layout flat with ICMP redirects on: the serving node loses its power",
    fault=faults.redirected_node_killed,
    # The router's firewall drops redirects about connections it has not seen complete yet, and with a fresh port for
    # each query all are such. One flow is what a resolver over TCP or a stub with one socket looks like.
    phone=PhoneUse(one_flow=True),
    expect=Expect(outage_least_s=5.0, lost_least=50),
    layout="flat",
    prepare=faults.REDIRECTS_ON,
    restore=faults.REDIRECTS_OFF,
    control=True,
)
