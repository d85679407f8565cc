"""/ip/settings and /ipv6/settings to kernel settings. Pure.

Values are RouterOS's; names are paths under /proc/sys. All of them are per network namespace.
"""

from __future__ import annotations

from anycastlab.virtual_router.dataplane.api import Row, Snapshot
from anycastlab.virtual_router.dataplane.interfaces import Interfaces
from anycastlab.virtual_router.dataplane.rows import singleton, truth

_HASH = {"l3": "0", "l4": "1", "l3-inner": "2"}
# Properties of /ipv6/settings without effect here, with the value that asks for none.
_NO_EFFECT6 = {
    "disable-ipv6": "false",
    "accept-redirects": "yes-if-forwarding-disabled",
    "accept-router-advertisements": "yes-if-forwarding-disabled",
    "max-neighbor-entries": "16384",
}
_RP_FILTER = {"no": "0", "strict": "1", "loose": "2"}


def refuse6(row: Row) -> str | None:
    """What of /ipv6/settings is not emulated."""
    for name, harmless in _NO_EFFECT6.items():
        if row.get(name, harmless) not in ("", harmless):
            return f"{name}={row[name]}"
    return None


def settings(snapshot: Snapshot, interfaces: Interfaces) -> dict[str, str]:
    """Path under /proc/sys to value."""
    ip = singleton(snapshot, "/ip/settings")
    ipv6 = singleton(snapshot, "/ipv6/settings")
    forward6 = truth(ipv6, "forward", default=True) and not truth(ipv6, "disable-ipv6")
    wanted = {
        "net/ipv4/ip_forward": _bit(ip, "ip-forward", True),
        "net/ipv4/fib_multipath_hash_policy": _HASH.get(ip.get("ipv4-multipath-hash-policy", "l3"), "0"),
        "net/ipv4/tcp_syncookies": _bit(ip, "tcp-syncookies", False),
        "net/ipv6/conf/all/forwarding": "1" if forward6 else "0",
        "net/ipv6/fib_multipath_hash_policy": _HASH.get(ipv6.get("multipath-hash-policy", "l3"), "0"),
    }
    # The kernel takes the larger of `all` and the interface's own for these, so both must say the same.
    for scope in ("all", "default", *(i.device for i in interfaces.all)):
        base = f"net/ipv4/conf/{scope}"
        wanted[f"{base}/send_redirects"] = _bit(ip, "send-redirects", True)
        wanted[f"{base}/accept_redirects"] = _bit(ip, "accept-redirects", False)
        wanted[f"{base}/secure_redirects"] = _bit(ip, "secure-redirects", True)
        wanted[f"{base}/accept_source_route"] = _bit(ip, "accept-source-route", False)
        wanted[f"{base}/rp_filter"] = _RP_FILTER.get(ip.get("rp-filter", "no"), "0")
    return wanted


def _bit(row: Row, name: str, default: bool) -> str:
    return "1" if truth(row, name, default) else "0"
