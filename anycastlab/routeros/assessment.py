"""What one observation of the router says about each node and the service. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from anycastlab.routeros.limits import BFD_INTERVAL_TOLERANCE
from anycastlab.routeros.observe import BfdSession, Observation
from anycastlab.routeros.rows_bgp import connection_name
from anycastlab.routeros.rows_fallback import NETWATCH
from anycastlab.site.model import Site
from anycastlab.site.parts import Node


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `subject` is a node's name, `router` or `service`; `required`: counts against success."""

    subject: str
    check: str
    ok: bool
    text: str
    hint: str = ""
    required: bool = True


@dataclass(frozen=True)
class _Family:
    """One address family of the service: its prefix, and a node's address in it. `suffix` goes behind check names."""

    suffix: str
    prefix: str
    address: Callable[[Node], str]


def _families(site: Site) -> Iterator[_Family]:
    yield _Family("", str(site.service.prefix), lambda node: str(node.address))
    if site.service.prefix6:
        yield _Family(" over IPv6", str(site.service.prefix6), lambda node: str(node.address6))


def assess(site: Site, observation: Observation, multipath: bool, required: Collection[str]) -> Iterator[Finding]:
    """All findings about one observation. Pure."""
    families = list(_families(site))
    for node in site.nodes:
        for family in families:
            yield from _judge_node(site, node, family, observation, node.name in required)
    for family in families:
        yield _judge_hops(site, family, observation, multipath, required)
    allowed = {family.prefix for family in families}
    strange = sorted(
        {f"{r.prefix} from {r.gateway}" for r in observation.routes if r.prefix not in allowed and not r.filtered}
    )
    yield Finding(
        "router",
        "filter",
        not strange,
        f"accepted what no node may announce: {', '.join(strange)}."
        if strange
        else "nothing else accepted from the nodes",
        "The connection's input.filter is missing or another rule accepts it." if strange else "",
    )
    service = str(site.service.prefix)
    served = any(route.prefix == service and route.active for route in observation.routes)
    yield _judge_redirect(observation, served)


def _judge_redirect(observation: Observation, served: bool) -> Finding:
    if observation.redirect_wrong:
        state, says = ("on", "gets answers") if observation.redirect_active else ("off", "gets no answer")
        hint = f"A deploy puts it right. Does the script of {NETWATCH} run? See /log."
        return Finding("router", "redirect", False, f"the redirect is {state} although netwatch {says}.", hint)
    if observation.netwatch in ("missing", "off"):
        text = f"the entry in {NETWATCH} is {'disabled' if observation.netwatch == 'off' else 'missing'}."
        return Finding("router", "redirect", False, text, "Nothing switches the last resort on: run the deploy.")
    if served and observation.redirect_active:
        hint = "Netwatch gets no answer through the service address, or has not asked yet."
        return Finding("router", "redirect", False, "the redirect is on although nodes announce the address.", hint)
    return Finding("router", "redirect", True, "the redirect is as it must be")


def _judge_node(site: Site, node: Node, family: _Family, observation: Observation, required: bool) -> Iterator[Finding]:
    address, suffix = family.address(node), family.suffix
    bgp = observation.bgp.get(address)
    established = bgp is not None and bgp.established
    text = "established" if established else "no session"
    yield Finding(node.name, f"bgp{suffix}", established, text, required=required)
    bfd = observation.bfd.get(address)
    if bfd is None or not bfd.up:
        state = "no BFD session" if bfd is None else f"BFD is {bfd.state}"
        yield Finding(node.name, f"bfd{suffix}", False, state, required=required)
    elif problem := _interval_problem(site, bfd):
        hint = f"Both ends must have interval {site.bfd.interval_ms} ms x {site.bfd.multiplier}."
        yield Finding(node.name, f"bfd{suffix}", False, problem, hint, required=required)
    else:
        yield Finding(node.name, f"bfd{suffix}", True, "up", required=required)
    mine = [route for route in observation.routes if route.prefix == family.prefix and route.gateway == address]
    if any(not route.filtered for route in mine):
        yield Finding(node.name, f"route{suffix}", True, "announced", required=required)
    elif mine:
        hint = f"Look at the chain the connection {connection_name(node, bool(suffix))} names as input.filter."
        yield Finding(
            node.name, f"route{suffix}", False, f"{family.prefix} is rejected by the router's filter.", hint, required
        )
    else:
        hint = f"Is its resolver healthy, or is it drained? Look at the probe of {node.name}." if established else ""
        yield Finding(node.name, f"route{suffix}", False, f"{family.prefix} is not announced.", hint, required)


def _interval_problem(site: Site, bfd: BfdSession) -> str:
    """Judged by the hold time alone: the interval a router shows may be the peer's."""
    expected = site.bfd.interval_ms * 1000 * site.bfd.multiplier
    if bfd.hold_us and abs(bfd.hold_us - expected) > expected * BFD_INTERVAL_TOLERANCE:
        return f"negotiated detection time is {bfd.hold_us / 1000:g} ms instead of {expected / 1000:g} ms"
    return ""


def _judge_hops(
    site: Site, family: _Family, observation: Observation, multipath: bool, required: Collection[str]
) -> Finding:
    service, check = family.prefix, f"next hops{family.suffix}"
    routes = [route for route in observation.routes if route.prefix == service]
    hops = {route.gateway for route in routes if route.active}
    names = {family.address(node): node.name for node in site.nodes}
    shown = ", ".join(sorted(names.get(hop, hop) for hop in hops)) or "none"
    must = {family.address(node) for node in site.nodes if node.name in required}
    if not must:
        return Finding("service", check, True, shown, required=False)
    if not hops:
        return Finding("service", check, False, f"no active route to {service}.")
    if multipath and not must <= hops:
        missing = ", ".join(sorted(names[hop] for hop in must - hops))
        standing_by = {route.gateway for route in routes if not route.filtered} - hops
        hint = "ECMP needs one BGP instance with multipath, and equal attributes from all nodes." if standing_by else ""
        return Finding("service", check, False, f"{service} goes to {shown}; {missing} is left out.", hint)
    return Finding("service", check, True, shown)
