"""What RouterOS itself writes into a new row: who made it, when, and with which rights."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from anycastlab.virtual_router import errors
from anycastlab.virtual_router.config import POLICIES
from anycastlab.virtual_router.logs import stamp
from anycastlab.virtual_router.users import Caller

_SCRIPTED = ("/system/scheduler", "/system/script")
_LISTS = ("/ip/firewall/address-list", "/ipv6/firewall/address-list")
_OF_SESSIONS = frozenset({"local", "telnet", "ssh", "winbox", "web", "api", "rest-api"})
"""Policies about ways to log in; a script has none of them."""


def properties(menu: str, arguments: Mapping[str, str], caller: Caller, now: datetime) -> dict[str, str]:
    """Raises `not enough permissions (9)` for a script with rights that its maker lacks."""
    if menu in _LISTS:
        if arguments.get("timeout"):
            raise errors.not_emulated(f"{menu} timeout")
        return {"creation-time": stamp(now)}
    if menu not in _SCRIPTED:
        return {}
    made = {"owner": caller.user}
    asked = frozenset(part for part in arguments.get("policy", "").split(",") if part)
    if not asked <= caller.policies:
        raise errors.not_enough_permissions()
    if "policy" not in arguments:
        own = caller.policies - _OF_SESSIONS
        made["policy"] = ",".join(policy for policy in POLICIES if policy in own)
    if menu == "/system/scheduler":
        date, clock = stamp(now).split(" ")
        made |= {"start-date": date} if "start-date" not in arguments else {}
        made |= {"start-time": clock} if "start-time" not in arguments else {}
    return made
