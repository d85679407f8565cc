"""Accounts, groups and what each may do."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from anycastlab.virtual_router import errors
from anycastlab.virtual_router.config import POLICIES
from anycastlab.virtual_router.store import Store

READ_VERBS = frozenset({"print", "getall", "get", "find", "listen", "monitor", "check", "inspect"})
TEST_VERBS = frozenset({"ping"})
_POLICY_MENUS = ("/user", "/user/group", "/user/aaa")


@dataclass(frozen=True)
class Caller:
    """Who runs a command. `via` is `api`, `api-ssl` or `script`."""

    user: str
    policies: frozenset[str]
    session: int = 0
    via: str = "api"


def group_policies(store: Store, group: str) -> frozenset[str]:
    """Policies of a group row; `!x` denies, unknown groups have none."""
    for row in store.rows("/user/group"):
        if row.values.get("name") == group:
            listed = row.values.get("policy", "").split(",")
            return frozenset(name for name in listed if name in POLICIES)
    return frozenset()


def login(store: Store, name: str, password: str, address: str) -> frozenset[str]:
    """Policies of the account. Raises CommandRefused when name, password, source address or group do not allow it."""
    return _admit(store, name, address, lambda known: hmac.compare_digest(_bytes(known), _bytes(password)))


def challenge_login(store: Store, name: str, challenge: bytes, response: str, address: str) -> frozenset[str]:
    """The login of RouterOS before 6.43: MD5 over a zero byte, the password and the challenge."""

    def matches(known: str) -> bool:
        digest = hashlib.md5(b"\0" + _bytes(known) + challenge, usedforsecurity=False).hexdigest()
        return hmac.compare_digest(_bytes("00" + digest), _bytes(response.lower()))

    return _admit(store, name, address, matches)


def _admit(store: Store, name: str, address: str, matches: Callable[[str], bool]) -> frozenset[str]:
    for row in store.rows("/user"):
        account = row.values
        if account.get("name") != name:
            continue
        if account.get("disabled") == "true" or not matches(account.get("password", "")):
            break
        allowed = [net for net in account.get("address", "").split(",") if net]
        if allowed and not any(ip_address(address) in ip_network(net, strict=False) for net in allowed):
            break
        policies = group_policies(store, account.get("group", ""))
        if "api" not in policies:
            break
        return policies
    raise errors.invalid_login()


def require(caller: Caller, menu: str, verb: str) -> None:
    """Raises `not enough permissions (9)`."""
    if verb in READ_VERBS:
        needed = "read"
    elif verb in TEST_VERBS:
        needed = "test"
    elif menu in _POLICY_MENUS:
        needed = "policy"
    else:
        needed = "write"
    if needed not in caller.policies:
        raise errors.not_enough_permissions()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
