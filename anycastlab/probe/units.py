"""The systemd units around the probe, as text: what makes every death end in a withdrawn address.

    anycastlab-probe.service            the probe: watchdog, restart, and link down after its end however it ended
    anycastlab-escalate.path/.service   root's side of "FRR does not do what the link says"
    <resolver>.service.d/anycastlab.conf   link down before a planned stop and right after a crash
    sysusers.d/anycastlab.conf          the probe's user; run `systemd-sysusers` after writing it

Nothing here ever raises the link.
"""

from __future__ import annotations

from anycastlab.probe.config import ProbeConfig

PROBE_PATH = "/usr/local/lib/anycastlab/probe.pyz"
CONFIG_PATH = "/etc/anycastlab/probe.json"
PROBE_UNIT = "anycastlab-probe.service"
USER = "anycastlab"

# Seconds without a sign of life from the event loop until systemd kills the probe; it reports three times as often.
WATCHDOG_S = 3
# Where systemd keeps the processes of system services in the cgroup tree.
SYSTEM_SLICE = "system.slice"
# Seconds between link down and the resolver's SIGTERM in a planned stop. The route leaves the router's table after
# 0.12 s (two 50 ms work queues, node and router); answers to queries already on the way need the rest.
DRAIN_S = 0.5


def units(config: ProbeConfig, resolver_unit: str) -> dict[str, str]:
    """Path → text of every unit file; `resolver_unit` is such as `unbound.service`. Needs a daemon-reload."""
    return {
        f"/etc/systemd/system/{PROBE_UNIT}": _probe(config, resolver_unit),
        "/etc/systemd/system/anycastlab-escalate.path": _escalate_path(config),
        "/etc/systemd/system/anycastlab-escalate.service": _escalate_service(config),
        f"/etc/systemd/system/{resolver_unit}.d/anycastlab.conf": resolver_drop_in(config),
        "/etc/sysusers.d/anycastlab.conf": f'u {USER} - "anycastlab health probe"\n',
    }


def resolver_drop_in(config: ProbeConfig) -> str:
    """Planned stop: say so, withdraw, wait, then stop. Any end: link down at once (`+`: with root's rights).

    systemd runs ExecStop= also after a resolver that ended by itself without an error, then without MAINPID: nothing
    planned about that, and nothing to wait for.
    """
    link, flag = config.link, config.stopping_path
    return f"""\
# The service address follows this resolver: out before a planned stop, out at once after a crash.
[Service]
ExecStop=+-/bin/sh -c '[ -n "$$MAINPID" ] || exit 0; touch {flag}; ip link set {link} down; sleep {DRAIN_S}'
ExecStopPost=+-/bin/ip link set {link} down
ExecStopPost=+-/bin/rm -f {flag}
"""


def _probe(config: ProbeConfig, resolver_unit: str) -> str:
    return f"""\
[Unit]
Description=Health probe: announces the service address while this node resolves
# After everything it withdraws from, so that at shutdown it withdraws first.
# Not after network-online.target: it binds addresses that are yet to come.
After=network.target anycast0.service frr.service {resolver_unit}
Wants=anycast0.service anycastlab-escalate.path
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/bin/python3 -I {PROBE_PATH} --config {CONFIG_PATH}
ExecStopPost=+-/bin/ip link set {config.link} down
Restart=always
RestartSec=1
WatchdogSec={WATCHDOG_S}
# A frozen process takes no other signal.
WatchdogSignal=SIGKILL
TimeoutStartSec=10
TimeoutStopSec=5
User={USER}
SupplementaryGroups=frrvty
RuntimeDirectory=anycastlab
RuntimeDirectoryPreserve=yes
# A busy resolver on the same core must not make the probe late.
Nice=-5
OOMScoreAdjust=-500
MemoryMax=64M
TasksMax=8
AmbientCapabilities=CAP_NET_ADMIN
CapabilityBoundingSet=CAP_NET_ADMIN
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources

[Install]
WantedBy=multi-user.target
"""


def _escalate_path(config: ProbeConfig) -> str:
    return f"""\
[Unit]
Description=Waits for the health probe's call for help with FRR

[Path]
PathExists={config.escalate_path}

[Install]
WantedBy=multi-user.target
"""


def _escalate_service(config: ProbeConfig) -> str:
    link = config.link
    return f"""\
# FRR (or the link) does not follow the probe. Killed daemons close their sessions, so the router forgets the node at
# once; a frozen one could not be asked to. FRR then starts afresh and announces what the link says. Its own start limit
# (3 in 3 minutes) is reset first, and if even root cannot lower a link that must be down, FRR stays stopped.
[Unit]
Description=Restarts FRR by force for the health probe
StartLimitIntervalSec=0

[Service]
Type=oneshot
# The file is the probe's, and root reads it: a few octets and not for long, whatever lies there.
ExecStart=/bin/sh -c 'wanted=$$(timeout 2 head -c 4 {config.escalate_path}); rm -rf {config.escalate_path}; \\
  [ "$$wanted" = up ] || ip link set {link} down; \\
  systemctl kill --signal=KILL frr.service; systemctl reset-failed frr.service; \\
  if [ "$$wanted" != up ] && ip -oneline link show {link} up | grep -q .; \\
  then systemctl --no-block stop frr.service; else systemctl --no-block restart frr.service; fi'
TimeoutStartSec=20
"""
