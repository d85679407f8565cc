"""How the virtual router lives on its machine: file places and the systemd unit. Constants for the control side."""

from __future__ import annotations

ARCHIVE_PATH = "/usr/local/lib/anycastlab/router.pyz"
CONFIG_PATH = "/etc/anycastlab/router.json"
UNIT_NAME = "anycastlab-router.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT_NAME}"

UNIT = f"""\
# The lab's stand-in for a MikroTik router. FRR, rules and routes outlive a restart of this service.
[Unit]
Description=anycastlab virtual router (RouterOS API in front of FRR, nftables and a resolver)
After=network.target systemd-sysctl.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=/usr/bin/python3 {ARCHIVE_PATH} --config {CONFIG_PATH}
Restart=always
RestartSec=1
StateDirectory=anycastlab-router
# Only the program itself: FRR is a service of its own and stays.
KillMode=mixed
TimeoutStartSec=90
TimeoutStopSec=10
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""
"""`Type=notify`: `systemctl start` returns once the API answers and the saved configuration has been applied."""
