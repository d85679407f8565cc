"""A real home, to be edited: boards reached over SSH and a MikroTik router.

Put the router's password into the environment (ANYCASTLAB_ROUTER_PASSWORD), never into a file of this folder. Look
before you leap: `anycastlab plan -i inventory/home.py` shows every change, the router's included, and makes none.

Containers on another Incus server work too: `("@incus/myserver:node01", {...})`, with `myserver` one of your
`incus remote list`.
"""

_DNS_SUBNET = {"prefix_length": 24, "gateway": "192.168.53.1"}  # the router's address in the nodes' own subnet

nodes = [
    ("192.168.53.11", {"node_name": "node01", "address": "192.168.53.11", "ssh_user": "root", **_DNS_SUBNET}),
    ("192.168.53.12", {"node_name": "node02", "address": "192.168.53.12", "ssh_user": "root", **_DNS_SUBNET}),
    ("192.168.53.13", {"node_name": "node03", "address": "192.168.53.13", "ssh_user": "root", **_DNS_SUBNET}),
]
router = ["@routeros/192.168.88.1"]
