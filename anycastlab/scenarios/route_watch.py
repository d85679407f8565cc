"""Runs on the router: tells from when on which nodes are in the kernel's route to the service address.

Its source is sent to the router (`python3 -c SOURCE ADDRESS FILE SECONDS`); only Python is needed there. Every line of
FILE is `{"time_ns": CLOCK_MONOTONIC, "hops": [gateway, …]}`: the first at once, then one for each change. The time is
taken when the kernel's notice is read, so it is late by no more than a millisecond or two. Ends by itself.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import time

# linux/rtnetlink.h: the multicast groups of IPv4 and IPv6 route changes.
_GROUPS = 0x40 | 0x400


def hops(address: str) -> list[str]:
    """Gateways of the route to exactly this address, sorted; empty without one."""
    family = "-6" if ":" in address else "-4"
    shown = subprocess.run(["ip", family, "-j", "route", "show", address], capture_output=True, text=True, check=False)
    found = set()
    for route in json.loads(shown.stdout or "[]"):
        for hop in route.get("nexthops", [route]):
            if "gateway" in hop:
                found.add(hop["gateway"])
    return sorted(found)


def watch(address: str, path: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    with (
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as notices,
        open(path, "w", encoding="utf-8", buffering=1) as out,
    ):
        notices.bind((0, _GROUPS))
        last: list[str] | None = None
        noticed = time.monotonic_ns()
        while True:
            now = hops(address)
            if now != last:
                out.write(json.dumps({"time_ns": noticed, "hops": now}) + "\n")
                last = now
            left = end - time.monotonic()
            if left <= 0:
                return
            # Once a second also without a notice: one that was lost must not hide the state for ever.
            select.select([notices], [], [], min(1.0, left))
            noticed = time.monotonic_ns()
            while select.select([notices], [], [], 0)[0]:
                notices.recv(65536)


if __name__ == "__main__":
    watch(sys.argv[1], sys.argv[2], float(sys.argv[3]))
