"""Menus that the API side answers itself: the log, who is logged in, the system, and the stand-in's own read-outs.

`/anycastlab/…` is no RouterOS menu: `/anycastlab/write-log` lists every write since the start, `/anycastlab/api` counts
sentences, and both are there so that a test can prove what was not done.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping

from anycastlab.virtual_router import kernel
from anycastlab.virtual_router.router import Router
from anycastlab.virtual_router.times import print_ms
from anycastlab.virtual_router.users import Caller

Rows = list[dict[str, str]]


def rows(router: Router, menu: str, caller: Caller) -> Rows | None:
    """Rows of a menu answered here; None for any other."""
    answer = _MENUS.get(menu)
    return None if answer is None else answer(router, caller)


def _resource(router: Router, _caller: Caller) -> Rows:
    memory = kernel.memory()
    disk = shutil.disk_usage(router.config.state_dir if os.path.isdir(router.config.state_dir) else "/")
    cpus = os.cpu_count() or 1
    return [
        {
            "uptime": print_ms(1000 * round(time.monotonic() - router.started)),
            "version": str(router.config.parsed_version),
            "build-time": "2026-01-01 00:00:00",
            "factory-software": router.config.parsed_version.number,
            "free-memory": str(memory.get("MemAvailable", 0)),
            "total-memory": str(memory.get("MemTotal", 0)),
            "cpu": platform.machine(),
            "cpu-count": str(cpus),
            "cpu-frequency": "0",
            "cpu-load": str(min(100, round(100 * os.getloadavg()[0] / cpus))),
            "free-hdd-space": str(disk.free),
            "total-hdd-space": str(disk.total),
            "write-sect-since-reboot": str(router.writes.count),
            "write-sect-total": str(router.writes.count),
            "architecture-name": platform.machine(),
            "board-name": router.config.board,
            "platform": "anycastlab",
        }
    ]


def _clock(router: Router, _caller: Caller) -> Rows:
    now = router.clock()
    return [{"time": now.strftime("%H:%M:%S"), "date": now.strftime("%Y-%m-%d"), "gmt-offset": "+00:00"}]


def _package(router: Router, _caller: Caller) -> Rows:
    version = router.config.parsed_version.number
    return [{".id": "*1", "name": "routeros", "version": version, "build-time": "2026-01-01 00:00:00", "scheduled": ""}]


def _update(router: Router, _caller: Caller) -> Rows:
    return [{"installed-version": router.config.parsed_version.number}]


def _device_mode(router: Router, _caller: Caller) -> Rows:
    home = router.config.device_mode == "home"
    features = {"scheduler": not home, "fetch": not home, "container": False, "pptp": not home, "l2tp": not home}
    return [
        {"mode": router.config.device_mode, **{name: "true" if on else "false" for name, on in features.items()}},
    ]


def _license(_router: Router, _caller: Caller) -> Rows:
    return [{"system-id": "anycastlab", "level": "free"}]


def _routerboard(router: Router, _caller: Caller) -> Rows:
    return [{"routerboard": "false", "model": router.config.board, "serial-number": "anycastlab"}]


def _cpu(_router: Router, _caller: Caller) -> Rows:
    return [
        {".id": f"*{number:X}", "cpu": f"cpu{number}", "load": str(load), "irq": "0", "disk": "0"}
        for number, load in enumerate(kernel.cpu_loads())
    ]


def _arp(router: Router, _caller: Caller) -> Rows:
    names = {interface.device: interface.name for interface in router.config.interfaces}
    return [
        {
            ".id": f"*{number:X}",
            "address": entry.address,
            "mac-address": entry.mac,
            "interface": names[entry.device],
            "complete": "true" if entry.complete else "false",
            "published": "false",
            "disabled": "false",
            "dynamic": "true",
        }
        for number, entry in enumerate(kernel.neighbours(), start=1)
        if entry.device in names
    ]


def _ipv6_address(router: Router, _caller: Caller) -> Rows:
    found = [(a, i.name) for i in router.config.interfaces for a in i.addresses if ":" in a]
    return [
        {".id": f"*{number:X}", "address": address, "interface": name, "disabled": "false", "dynamic": "false"}
        for number, (address, name) in enumerate(found, start=1)
    ]


def _snmp(_router: Router, _caller: Caller) -> Rows:
    return [{"enabled": "false", "contact": "", "location": "", "engine-id": "", "trap-version": "1"}]


def _off(_router: Router, _caller: Caller) -> Rows:
    """A service that this router does not have: it is there, and off."""
    return [{"enabled": "false"}]


def _nothing(_router: Router, _caller: Caller) -> Rows:
    return []


def interface(router: Router, row: Mapping[str, str]) -> dict[str, str]:
    """State and counters of an interface, as the kernel has them."""
    name = row.get("name", "")
    return kernel.link(next((i.device for i in router.config.interfaces if i.name == name), name))


def _log(router: Router, _caller: Caller) -> Rows:
    return router.log.rows()


def _active(router: Router, _caller: Caller) -> Rows:
    return [{".id": f"*{number:X}", **session} for number, session in router.sessions.items()]


def _history(router: Router, _caller: Caller) -> Rows:
    """Newest first, as RouterOS lists it; writes under safe mode carry `floating-undo`."""
    floating = router.safe_mode.changes if router.safe_mode.hold is not None else 0
    done = [row for row in router.writes.rows() if row["result"] == "done"]
    return [
        {
            ".id": row[".id"],
            "action": f"{row['command']} {row['arguments']}".strip(),
            "by": row["user"],
            "policy": "write",
            "time": row["time"],
            "undoable": "false" if index < floating else "true",
            "redoable": "false",
            "floating-undo": "true" if index < floating else "false",
        }
        for index, row in enumerate(reversed(done))
    ]


def _safe_mode(router: Router, caller: Caller) -> Rows:
    return [router.safe_mode.status(caller.session)]


def _write_log(router: Router, _caller: Caller) -> Rows:
    return router.writes.rows()


def _api(router: Router, _caller: Caller) -> Rows:
    counters = router.counters
    return [
        {
            "sentences": str(counters.sentences),
            "rows": str(counters.rows),
            "logins": str(counters.logins),
            "traps": str(counters.traps),
            "writes": str(router.writes.count),
            "sessions": str(len(router.sessions)),
        }
    ]


_MENUS: Mapping[str, Callable[[Router, Caller], Rows]] = {
    "/system/resource": _resource,
    "/system/clock": _clock,
    "/system/package": _package,
    "/system/package/update": _update,
    "/system/device-mode": _device_mode,
    "/system/license": _license,
    "/system/history": _history,
    "/log": _log,
    "/system/routerboard": _routerboard,
    "/system/resource/cpu": _cpu,
    "/ip/arp": _arp,
    "/ipv6/address": _ipv6_address,
    "/snmp": _snmp,
    "/system/ntp/client": _off,
    **dict.fromkeys(
        (
            "/interface/bridge",
            "/interface/bridge/host",
            "/interface/bridge/vlan",
            "/ip/neighbor",
            "/ipv6/neighbor",
            "/snmp/community",
            "/system/health",
        ),
        _nothing,
    ),
    "/user/active": _active,
    "/safe-mode": _safe_mode,
    "/anycastlab/write-log": _write_log,
    "/anycastlab/api": _api,
}
