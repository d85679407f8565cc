"""The embedded lab: everything on this machine, in Incus. One more node is one more line."""

from anycastlab.lab import machines as lab

nodes = lab.nodes(
    "node01",
    "node02",
    "node03",
)
router_machine = lab.machines("router")
upstream = lab.machines("upstream")
clients = lab.machines("client01")
router = lab.router_api()
