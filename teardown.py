"""Remove what deploy.py made, and nothing else: `pyinfra inventory/lab.py teardown.py`.

The router first, so that nothing is sent to nodes that are about to go. Base images stay for the next lab, unless
`--data images=true`.
"""

from pyinfra import inventory

from anycastlab.inventory_site import from_inventory
from anycastlab.run_lock import take_run_lock
from tasks.barrier import barrier
from tasks.removal import lab_removed, node_removed, router_removed

site = from_inventory(inventory)
take_run_lock(site)  # nobody else changes this home until the run has ended

router_removed(site)  # our rows, in the right order; settings back to what they were
barrier("the router is as it was")

node_removed(site)  # boards: our services and files; packages stay
barrier("the nodes are as they were")

lab_removed(site)  # embedded lab: instances, bridges, project
