"""The lab's internet: an authoritative Knot DNS behind dnsdist, which makes it as far away as a public resolver is.

Knot knows a root zone of its own (so an unknown name is NXDOMAIN rather than REFUSED), an ordinary zone with fixed
names, names that are never cached twice and answers too large for UDP, and a zone it signs itself. dnsdist adds the
delay: this lab needs no kernel with netem. The delay applies to UDP, which is what resolvers ask over.
"""

from __future__ import annotations

from anycastlab.node.managed import ManagedFile
from anycastlab.site import topology

ZONE = "lab.example"
SIGNED_ZONE = "signed.example"
RANDOM_ZONE = f"rnd.{ZONE}"  # any label below it has an address: names that no cache has seen
BIG_NAME = f"big.{ZONE}"  # its TXT answer does not fit into a UDP answer of 1232 bytes
POPULAR_NAMES = tuple(f"{label}.{ZONE}" for label in ("www", "mail", "news", "video", "shop", "chat"))
BLOCKED_NAME = f"ads.{ZONE}"

KNOT_PORT = 5300
# One zone-wide TTL, in seconds: short enough that a one-minute hold sees entries expire (serve-stale must do
# something), long enough that popular names are cached between two queries.
TTL_S = 20
_BIG_STRINGS = 12  # 12 strings of 200 bytes: about 2.4 kB, over every UDP limit in use, under one TCP segment pair


UNITS = ("knot.service", "dnsdist.service")


def files(delay_ms: int) -> tuple[ManagedFile, ...]:
    """Every file of the upstream machine; `delay_ms` is added to each UDP answer."""
    zones = {"root": root_zone(), ZONE: zone(), SIGNED_ZONE: signed_zone()}
    return (
        ManagedFile("/etc/knot/knot.conf", knot_conf().encode(), owner="root", group="knot", mode=0o640),
        *(
            # Knot's own, because systemd hands its whole state directory to it at the first start.
            ManagedFile(f"/var/lib/knot/zones/{name}.zone", text.encode(), owner="knot", group="knot")
            for name, text in zones.items()
        ),
        ManagedFile("/etc/dnsdist/dnsdist.conf", dnsdist_conf(delay_ms).encode()),
    )


def knot_conf() -> str:
    zones = "".join(
        f"  - domain: {domain}\n    file: {file}\n{extra}"
        for domain, file, extra in (
            (".", "root.zone", ""),
            (f"{ZONE}.", f"{ZONE}.zone", ""),
            # zonefile-sync off: Knot keeps its signatures in the journal and leaves the file as it was written.
            (f"{SIGNED_ZONE}.", f"{SIGNED_ZONE}.zone", "    dnssec-signing: on\n    dnssec-policy: lab\n"),
        )
    )
    return f"""server:
    listen: 127.0.0.1@{KNOT_PORT}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: syslog
    any: warning
policy:
  - id: lab
    algorithm: ecdsap256sha256
    single-type-signing: on
template:
  - id: default
    storage: /var/lib/knot/zones
    zonefile-sync: -1
    zonefile-load: difference
    journal-content: all
    semantic-checks: on
zone:
{zones}"""


def _soa(origin: str) -> str:
    return f"@ SOA ns.{ZONE}. hostmaster.{ZONE}. 1 3600 600 86400 {TTL_S}\n@ NS ns.{ZONE}.\n" + (
        f"ns A {topology.UPSTREAM_WAN}\n" if origin == ZONE else ""
    )


def root_zone() -> str:
    """A root of our own: the lab's names are delegated in it, everything else does not exist."""
    return (
        f"$ORIGIN .\n$TTL {TTL_S}\n{_soa('.')}"
        f"ns.{ZONE}. A {topology.UPSTREAM_WAN}\n{ZONE}. NS ns.{ZONE}.\n{SIGNED_ZONE}. NS ns.{ZONE}.\n"
    )


def zone() -> str:
    names = "".join(f"{name}. A 198.18.0.{10 + i}\n" for i, name in enumerate(POPULAR_NAMES))
    big = " ".join(f'"{i:02d}{"x" * 198}"' for i in range(_BIG_STRINGS))
    return (
        f"$ORIGIN {ZONE}.\n$TTL {TTL_S}\n{_soa(ZONE)}{names}"
        f"*.rnd A 198.18.1.1\n{BLOCKED_NAME}. A 198.18.0.99\nprobe A 198.18.0.100\n{BIG_NAME}. TXT {big}\n"
    )


def signed_zone() -> str:
    return f"$ORIGIN {SIGNED_ZONE}.\n$TTL {TTL_S}\n{_soa(SIGNED_ZONE)}www A 198.18.2.1\n"


def dnsdist_conf(delay_ms: int) -> str:
    return f"""-- The distance to a public resolver: every UDP answer waits {delay_ms} ms.
setLocal("{topology.UPSTREAM_WAN}:53")
setACL({{"0.0.0.0/0"}})
setSecurityPollSuffix("")
newServer({{address="127.0.0.1:{KNOT_PORT}", checkName="{ZONE}.", checkType="SOA", mustResolve=true}})
addAction(AllRule(), DelayAction({delay_ms}))
"""
