"""The faults: what is done, how it is undone, how one sees that it worked. Each is a few actions and proofs."""

from __future__ import annotations

from dataclasses import replace

from anycastlab.node import layout
from anycastlab.report.run import Proof
from anycastlab.routeros.rows_bgp import connection_name
from anycastlab.scenarios import proofs, timing
from anycastlab.scenarios.actions import Action, Api, Deploy, On, OnHost, Power
from anycastlab.scenarios.model import Check, Fault
from anycastlab.scenarios.stage import CLIENT, ROUTER, UPSTREAM, Stage
from anycastlab.site import Node

NETWATCH, NETWATCH_TAG = "/tool/netwatch", "anycastlab:netwatch"


# Power and network ----------------------------------------------------------------------------------------------------


def killed(*machines: str) -> Fault:
    """The machines lose their power: every process dies at once and the interface is gone."""
    return Fault(
        what=f"{_list(machines)} killed",
        targets=machines,
        do=tuple(Power(machine, "stop") for machine in machines),
        undo=tuple(Power(machine, "start") for machine in machines),
        proofs=tuple(proofs.power_is(machine, "Stopped") for machine in machines),
    )


def frozen(stage: Stage, machine: str) -> Fault:
    """The machine is there, its link is up, and nothing comes out of it: the fault that only BFD sees.

    Pausing alone is not it: a paused container's kernel still answers ping and ARP. So its packets are dropped too.
    """
    interface = stage.host_interface(machine)
    table = "anycastlab_{lab}_freeze"
    rules = (
        f"table netdev {table} {{\n"
        f' chain in {{ type filter hook ingress device "{interface}" priority -500; counter drop; }}\n'
        f' chain out {{ type filter hook egress device "{interface}" priority -500; counter drop; }}\n'
        "}\n"
    )
    return Fault(
        what=f"{machine} frozen: link up, all packets dropped",
        targets=(machine,),
        do=(_load(rules), Power(machine, "freeze")),
        undo=(_unload("netdev", table), Power(machine, "unfreeze")),
        proofs=(proofs.power_is(machine, "Frozen"), proofs.packets_dropped("netdev", table, f"of {machine}")),
    )


def cable_pulled(stage: Stage, machine: str) -> Fault:
    """The machine's cable is out: it sees no carrier; the switch between hides that from the router."""
    interface = stage.host_interface(machine)
    return Fault(
        what=f"cable of {machine} pulled",
        targets=(machine,),
        do=(OnHost(("ip", "link", "set", interface, "down")),),
        undo=(OnHost(("ip", "link", "set", interface, "up"), strict=False),),
        proofs=(_no_carrier(machine),),
    )


def _no_carrier(machine: str) -> Check:
    def check(stage: Stage) -> Proof:
        seen = stage.run(machine, ["cat", "/sys/class/net/eth0/operstate"]).text.strip()
        return Proof(seen in ("down", "lowerlayerdown"), f"the link of {machine} was {seen}", {"operstate": seen})

    return check


def wan_down(stage: Stage) -> Fault:
    """The line to the provider is silent: questions leave and nothing comes back."""
    interface = stage.host_interface(UPSTREAM)
    table = "anycastlab_{lab}_wan"
    rules = (
        f"table netdev {table} {{\n"
        f' chain out {{ type filter hook egress device "{interface}" priority -500; counter drop; }}\n'
        "}\n"
    )
    return Fault(
        what="WAN silent: everything to the provider dropped",
        targets=(UPSTREAM,),
        withdraws=False,
        do=(_load(rules),),
        undo=(_unload("netdev", table),),
        proofs=(proofs.packets_dropped("netdev", table, "to the provider"),),
    )


def local_path_lost(stage: Stage, machine: str) -> Fault:
    """One node can no longer ask the router for local names; everything else of it works, and its cache is warm."""
    interface = stage.host_interface(machine)
    router = stage.site.resolver.router_dns
    table = "anycastlab_{lab}_local"
    drop = f"ip daddr {router} {{proto}} dport 53 counter drop"
    rules = (
        f"table netdev {table} {{\n"
        f' chain in {{ type filter hook ingress device "{interface}" priority -500;'
        f" {drop.format(proto='udp')}; {drop.format(proto='tcp')}; }}\n"
        "}\n"
    )
    return Fault(
        what=f"{machine} cannot ask the router for local names",
        targets=(machine,),
        do=(_load(rules),),
        undo=(_unload("netdev", table),),
        proofs=(proofs.packets_dropped("netdev", table, f"from {machine} to the router's resolver"),),
    )


# Daemons --------------------------------------------------------------------------------------------------------------


def resolver_killed(stage: Stage, machine: str) -> Fault:
    """The resolver's process dies; systemd starts it again."""
    unit = _resolver(stage, machine)
    return Fault(
        what=f"resolver of {machine} killed (SIGKILL)",
        targets=(machine,),
        do=(On(machine, ("systemctl", "kill", "-s", "KILL", unit)),),
        proofs=(proofs.restarted(stage, machine, unit),),
    )


def resolver_stopped(stage: Stage, machine: str) -> Fault:
    """The resolver hangs: its process is there, its port is open, and it answers nobody."""
    unit = _resolver(stage, machine)
    return Fault(
        what=f"resolver of {machine} hung (SIGSTOP)",
        targets=(machine,),
        do=(On(machine, ("systemctl", "kill", "-s", "STOP", unit)),),
        undo=(On(machine, ("systemctl", "kill", "-s", "CONT", unit), strict=False),),
        proofs=(_unanswered(machine),),
    )


# Seconds a starved resolver stands still and may then run: most answers are late, none takes as long as the 0.3 s after
# which the probe would take it for dead.
_STILL_S, _RUNS_S = 0.25, 0.03
_STARVING = "anycastlab-fault-starve"


def resolver_slow(stage: Stage, machine: str) -> Fault:
    """A gray failure: the resolver is stopped and let go again, so it answers everything, but late.

    Not by a quota of the processor: a container has no say in that where control groups are version 1.
    """
    unit = _resolver(stage, machine)
    address = str(stage.site.node(machine).address)
    loop = (
        f"p=$(systemctl show -p MainPID --value {unit}); trap 'kill -CONT $p; exit' TERM EXIT; "
        f"while kill -STOP $p; do sleep {_STILL_S}; kill -CONT $p; sleep {_RUNS_S}; done"
    )
    # systemd expands `$`; it must not.
    start = ("systemd-run", "-q", f"--unit={_STARVING}", "sh", "-c", loop.replace("$", "$$"))
    return Fault(
        what=f"resolver of {machine} slowed down",
        targets=(machine,),
        do=(On(machine, start),),
        undo=(
            On(machine, ("systemctl", "stop", _STARVING), strict=False),
            On(machine, ("systemctl", "kill", "-s", "CONT", unit), strict=False),
        ),
        proofs=(proofs.slow_answers(machine, address, "{random}.lan", least_s=_STILL_S / 5),),
    )


def flapping(stage: Stage, machine: str, every_s: float = 3.0) -> Fault:
    """The resolver dies again and again."""
    once = resolver_killed(stage, machine)
    unit = _resolver(stage, machine)
    return Fault(
        what=f"resolver of {machine} killed every {every_s:g} s",
        targets=once.targets,
        do=once.do,
        undo=(
            On(machine, ("systemctl", "reset-failed", unit), strict=False),
            On(machine, ("systemctl", "start", unit)),
        ),
        proofs=(proofs.restarted(stage, machine, unit, least=2),),
        repeat_every_s=every_s,
    )


def daemon_killed(machine: str, daemon: str) -> Fault:
    """One of FRR's daemons dies; watchfrr starts it again."""
    before = On(
        machine, ("sh", "-c", f"pidof {daemon} > /run/anycastlab-fault && kill -9 $(cat /run/anycastlab-fault)")
    )
    return Fault(
        what=f"{daemon} of {machine} killed (SIGKILL)",
        targets=(machine,),
        do=(before,),
        proofs=(_another_process(machine, daemon),),
    )


def service_link_down(machine: str) -> Fault:
    """The link that carries the service address goes down; the probe finds the node healthy and raises it again."""
    return Fault(
        what=f"{layout.LINK} of {machine} set down",
        targets=(machine,),
        do=(On(machine, ("ip", "link", "set", layout.LINK, "down")),),
    )


# Planned changes ------------------------------------------------------------------------------------------------------


def resolver_restarted(stage: Stage, machine: str) -> Fault:
    unit = _resolver(stage, machine)
    return Fault(
        what=f"resolver of {machine} restarted on purpose",
        targets=(machine,),
        do=(On(machine, ("systemctl", "restart", unit), limit_s=timing.ACTION_LIMIT_S),),
        planned=True,
    )


def rebooted(machine: str) -> Fault:
    return Fault(
        what=f"{machine} rebooted on purpose",
        targets=(machine,),
        do=(Power(machine, "restart", force=False),),
        planned=True,
    )


def drained(machine: str) -> Fault:
    return Fault(
        what=f"{machine} drained",
        targets=(machine,),
        do=(On(machine, ("sh", "-c", f"mkdir -p {layout.STATE} && echo scenario > {layout.DRAINED}")),),
        undo=(On(machine, ("rm", "-f", layout.DRAINED)),),
        proofs=(proofs.file_says(machine, layout.DRAINED, "scenario", "drained"),),
        planned=True,
    )


def rolling_deploy(stage: Stage) -> Fault:
    """A setting changes on every node, one node after the other, under load."""
    other = stage.site.resolver.stale_ttl_s + 1
    return Fault(
        what="rolling deploy of a changed setting",
        targets=tuple(node.name for node in stage.site.nodes),
        do=(Deploy((("stale_ttl_s", str(other)),)),),
        undo=(Deploy(),),
        planned=True,
    )


# The router -----------------------------------------------------------------------------------------------------------


def router_dns_down(stage: Stage) -> Fault:
    """The router's own resolver refuses everybody: local names have no source on any node."""
    address = str(stage.site.resolver.router_dns)
    return Fault(
        what="the router's resolver refuses remote requests",
        targets=(ROUTER,),
        withdraws=False,
        do=(Api("/ip/dns", "set", (("allow-remote-requests", "no"),)),),
        undo=(Api("/ip/dns", "set", (("allow-remote-requests", "yes"),)),),
        proofs=(proofs.no_answer(address, "{random}.lan", "a local name asked at the router"),),
    )


def session_reset(stage: Stage, machine: str) -> Fault:
    """The router drops its BGP session with one node; it comes back by itself."""
    session = f"{connection_name(stage.site.node(machine))}-1"  # RouterOS numbers the sessions of a connection
    return Fault(
        what=f"BGP session with {machine} reset at the router",
        targets=(machine,),
        do=(Api("/routing/bgp/session", "clear", (("numbers", session),)),),
    )


# The layout `flat` without its first protection: the router tells clients of shorter ways. A client keeps what it was
# told for about 300 s, so it is made to forget.
def _redirects(wanted: bool) -> tuple[Action, ...]:
    """The setting, and the wait until the router's kernel has it: one late redirect, and the client clings again."""
    settled = f"until [ $(cat /proc/sys/net/ipv4/conf/all/send_redirects) = {int(wanted)} ]; do sleep 0.05; done"
    return (
        Api("/ip/settings", "set", (("send-redirects", "yes" if wanted else "no"),)),
        On(ROUTER, ("sh", "-c", settled)),
    )


REDIRECTS_ON: tuple[Action, ...] = _redirects(True)
REDIRECTS_OFF: tuple[Action, ...] = (*_redirects(False), On(CLIENT, ("ip", "route", "flush", "cache")))


def redirected_node_killed(stage: Stage) -> Fault:
    """The node that the router told the client to go to directly loses its power."""
    machine = stage.serving_node()
    return replace(killed(machine), proofs=(*killed(machine).proofs, _goes_directly(stage.site.node(machine))))


def without_last_resort(fault: Fault) -> Fault:
    """The same fault while netwatch is off."""
    return Fault(
        what=f"{fault.what}, without the last resort",
        targets=fault.targets,
        do=(Api(NETWATCH, "disable", tagged=NETWATCH_TAG), *fault.do),
        undo=(*fault.undo, Api(NETWATCH, "enable", tagged=NETWATCH_TAG)),
        proofs=fault.proofs,
    )


# Inside ---------------------------------------------------------------------------------------------------------------


def _load(rules: str) -> Action:
    script = f"printf '%s' '{rules}' | nft -f -"
    return OnHost(("sh", "-c", script))


def _unload(family: str, table: str) -> Action:
    return OnHost(("nft", "delete", "table", family, table), strict=False)


def _resolver(stage: Stage, machine: str) -> str:
    return layout.resolver_unit(stage.site.node(machine).resolver)


def _goes_directly(node: Node) -> Check:
    def check(stage: Stage) -> Proof:
        shown = stage.run(CLIENT, ["ip", "route", "get", str(stage.site.service.address)]).text
        holds = f"via {node.address} " in f"{shown} "
        way = f"directly to {node.name}" if holds else "to the router"
        return Proof(holds, f"the client sent its questions {way}", {"route": " ".join(shown.split())})

    return check


def _unanswered(machine: str) -> Check:
    def check(stage: Stage) -> Proof:
        node = stage.site.node(machine)
        return proofs.no_answer(str(node.address), stage.site.service.identity_name, f"{machine} asked directly")(stage)

    return check


def _another_process(machine: str, daemon: str) -> Check:
    def check(stage: Stage) -> Proof:
        was = stage.run(machine, ["cat", "/run/anycastlab-fault"]).text.strip()
        now = stage.run(machine, ["pidof", daemon]).text.strip()
        gone = bool(was) and was != now
        return Proof(gone, f"{daemon} of {machine} was process {was}, then {now or 'none'}", {"was": was, "now": now})

    return check


def _list(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
