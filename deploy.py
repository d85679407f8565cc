"""Build or change the whole home: `pyinfra inventory/lab.py deploy.py`. Reads like a table of contents.

pyinfra orders operations by each host's own list, not by line number across hosts; a phase is real only because every
host takes part in the barrier at its end.
"""

from pyinfra import host, inventory

from anycastlab.inventory_site import from_inventory
from anycastlab.run_lock import take_run_lock
from tasks.barrier import barrier
from tasks.check import check
from tasks.lab import surroundings
from tasks.node import fresh_nodes, last_node, serving_node
from tasks.router import newcomers, router, router_first

site = from_inventory(inventory)  # everything is validated before the first operation
take_run_lock(site)  # nobody else changes this home until the run has ended

surroundings(site)  # embedded lab only: the internet, the router's machine, the clients
router_first(site)  # a plan that the router's own rows forbid ends the run here
barrier("the router was looked at")

fresh_nodes(site)  # nodes that serve nobody yet: all at once
barrier("nodes that serve nobody are set up")
newcomers(site)  # the router learns them before a node that serves withdraws for its change
barrier("new nodes serve")

# Nodes that serve somebody: one at a time, by name. A plain loop would be a cycle: pyinfra tells operations by line.
for node in host.loop(site.nodes):
    serving_node(site, node)
    barrier(f"{node.name} serves")

router(site)  # through its API, with a plan first
barrier("the router is set up")
last_node(site)  # one that served at its old address while the others moved
barrier("all nodes are where they should be")

check(site)  # the household's view: an answer through the service address
