"""From a site and a reading to a plan: deploying, removing, restoring. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anycastlab.routeros import handover
from anycastlab.routeros.backup import Backup, desired_from
from anycastlab.routeros.conflicts import conflicts
from anycastlab.routeros.errors import PlanError
from anycastlab.routeros.look_around import look_around
from anycastlab.routeros.obstacles import Obstacle, told
from anycastlab.routeros.plan import Add, Change, Move, Plan, make_plan
from anycastlab.routeros.reading import Reading
from anycastlab.routeros.record import recorded
from anycastlab.routeros.redirect import mends
from anycastlab.routeros.row import Row
from anycastlab.routeros.rows import Device, check, desired_rows
from anycastlab.routeros.rows_fallback import NETWATCH
from anycastlab.routeros.rows_settings import given_back
from anycastlab.site import deployed
from anycastlab.site.model import Site


@dataclass(frozen=True)
class Planned:
    """A plan with all it was made from. `changes` is False when there is nothing to do.

    Rows hold keys, and pyinfra prints the arguments of a command: neither is in the repr.
    """

    plan: Plan = field(repr=False)
    desired: tuple[Row, ...] = field(repr=False)
    reading: Reading
    obstacles: tuple[Obstacle, ...] = ()
    """Rows of a person that undo ours; the plan's notes tell of them, too."""

    @property
    def changes(self) -> bool:
        return bool(self.plan)

    def again(self, reading: Reading) -> Plan:
        """What is still missing on a router that was read later."""
        return make_plan(self.desired, reading.menus, host=reading.host)


Originals = Mapping[str, Mapping[str, str]]
"""Menu, or key of a row that was handed over → property → value before our first change (`originals`, `handover`)."""


def plan_site(site: Site, reading: Reading, originals: Originals | None = None) -> Planned:
    """The plan of a deploy; what is not needed any more and was not ours gets back its values of `originals`.

    Raises RouterError for an unsupported version and PlanError for contradictions.
    """
    device = reading.device
    desired = desired_rows(site, device)
    notes = [*device.caps.notes, *_was_deployed(site, reading), *conflicts(site, desired, reading)]
    if site.service.address6:
        notes += _ipv6_notes(device)
    found = look_around(site, reading)
    for obstacle in found:
        if obstacle.weight == "exposes":
            raise PlanError(f"Router {reading.host}: {obstacle.where}: {obstacle.means}", obstacle.hint, reading.host)
    notes += told(found)
    planned = _planned([*desired, *given_back(reading.menus, originals or {}, desired)], reading, notes)
    back = handover.given_back(planned.plan, originals or {}, reading.menus)
    planned = replace(planned, plan=back, obstacles=found)
    if any(isinstance(step, Add | Change | Move) and step.row.menu == NETWATCH for step in planned.plan.steps):
        return planned  # netwatch begins anew, and its first result sets the redirect
    return replace(planned, plan=replace(planned.plan, steps=(*planned.plan.steps, *mends(desired, reading.menus))))


def _was_deployed(site: Site, reading: Reading) -> list[str]:
    found = deployed.differences(recorded(reading.menus.get(NETWATCH, ())), site)
    return [f"the router was {deployed.said(found, 'this run has')}."] if found else []


def _ipv6_notes(device: Device) -> list[str]:
    notes = ["the last resort is IPv4's alone: while no node answers, the IPv6 service address answers nobody."]
    if not device.ipv6_firewall:
        notes.append("this router has no IPv6 firewall menu: BGP and BFD over IPv6 are not opened there.")
    if not device.ipv6_hash:
        notes.append("this router cannot spread IPv6 by port: each IPv6 client always asks one node.")
    return notes


def plan_removal(site: Site, reading: Reading, originals: Originals) -> Planned:
    """Own rows go; a setting that still has our value gets back the one it had before (`originals`)."""
    del site
    planned = _planned(given_back(reading.menus, originals, ()), reading, ())
    return replace(planned, plan=handover.given_back(planned.plan, originals, reading.menus))


def plan_restore(backup: Backup, reading: Reading, originals: Originals | None = None) -> Planned:
    """The plan that puts a backup back; a row that was handed over since is given back, not removed.

    Raises PlanError when this version does not take its rows.
    """
    notes = [f"puts back the state of {backup.taken_at}"]
    desired = desired_from(backup)
    if backup.version != reading.version:
        caps = reading.capabilities
        if problems := list(check(desired, caps.schema)):
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise PlanError(
                f"The backup is from RouterOS {backup.version}; {caps.version.number} does not take its rows: "
                f"{problems[0]}{more}.",
                "`anycastlab up` writes the rows of this version. Nothing was changed.",
                reading.host,
            )
        notes.append(f"the backup is from RouterOS {backup.version}; this is {reading.version}")
    planned = _planned(desired, reading, notes)
    return replace(planned, plan=handover.given_back(planned.plan, originals or {}, reading.menus))


def _planned(desired: Sequence[Row], reading: Reading, notes: Sequence[str]) -> Planned:
    return Planned(make_plan(desired, reading.menus, notes, reading.host), tuple(desired), reading)
