"""A home with boards, inside the lab: two nodes that are reached over SSH and one container.

The boards and how to reach them come from the test that makes them (see `tests/lab/board_lab.py`), as JSON.
"""

import json
import os

from anycastlab.lab import machines

nodes = [
    *((name, data) for name, data in json.loads(os.environ["ANYCASTLAB_TEST_BOARDS"]).items()),
    *machines.nodes("node03"),
]
router_machine = machines.machines("router")
upstream = machines.machines("upstream")
clients = machines.machines("client01")
router = machines.router_api()
lab = [name for name, _ in (*nodes, *router_machine, *upstream, *clients, *router)]  # group_data/lab.py is theirs too
