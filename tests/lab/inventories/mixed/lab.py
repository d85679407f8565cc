"""Three nodes, of both resolvers."""

from anycastlab.lab import machines as lab

nodes = lab.nodes(
    "node01",
    lab.node("node02", resolver="unbound"),
    "node03",
)
router_machine = lab.machines("router")
upstream = lab.machines("upstream")
clients = lab.machines("client01")
router = lab.router_api()
