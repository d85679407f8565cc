"""Client programs that others wrote get along with the virtual router: each logs in, reads, writes and understands no.

Tried by hand beside these: Ansible's community.routeros (api, api_info, api_facts, api_modify with ensure_order,
api_find_and_modify), napalm-ros, nornir-routeros and mktxp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import librouteros
import pytest
import ros_api
import routeros_api
from librouteros.exceptions import TrapError
from librouteros.login import plain, token
from librouteros.query import And, Key, Or

from anycastlab.virtual_router.dataplane.api import NullDataplane
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router

FILTER = "/ip/firewall/filter"
RULES = [
    {"chain": "input", "action": "accept", "connection-state": "established,related", "comment": "first"},
    {"chain": "input", "action": "drop", "comment": "last"},
]
NO_MATCH = "input does not match any value of action"


@pytest.fixture(params=["7.16.2", "7.22.3 (stable)"])
def router(request: pytest.FixtureRequest) -> Iterator[RunningRouter]:
    """One version before and one after `!empty`."""
    plane = NullDataplane()
    plane.runtime["/routing/bgp/session"] = [{".id": "*2800001", "name": "node01-1", "established": "true"}]
    with running_router(version=request.param, rows={FILTER: RULES}, dataplane=plane) as running:
        yield running


@pytest.mark.parametrize("plaintext", [True, False], ids=["password", "challenge"])
def test_routeros_api(router: RunningRouter, plaintext: bool) -> None:
    pool = routeros_api.RouterOsApiPool(
        router.host, username="admin", password=PASSWORD, port=router.port, plaintext_login=plaintext
    )
    try:
        api = pool.get_api()
        rules = api.get_resource(FILTER)
        rules.add(chain="input", action="accept", protocol="udp", comment="mine", **{"dst-port": "3784"})
        (mine,) = rules.get(comment="mine")
        rules.set(id=mine["id"], disabled="yes")
        assert rules.get(id=mine["id"])[0]["disabled"] == "true"
        rules.call("move", {"numbers": mine["id"], "destination": rules.get()[0]["id"]})
        assert [row["comment"] for row in rules.get()] == ["mine", "first", "last"]
        rules.remove(id=mine["id"])
        assert rules.get(comment="mine") == []
        with pytest.raises(routeros_api.exceptions.RouterOsApiCommunicationError, match=NO_MATCH):
            rules.add(chain="input", action="nope")
        assert api.get_resource("/routing/bgp/session").get()[0]["established"] == "true"
        assert api.get_resource("/ip/firewall/nat").get() == []
    finally:
        pool.disconnect()


def test_routeros_api_is_told_about_a_wrong_password(router: RunningRouter) -> None:
    pool = routeros_api.RouterOsApiPool(
        router.host, username="admin", password="wrong", port=router.port, plaintext_login=True
    )
    with pytest.raises(
        routeros_api.exceptions.RouterOsApiCommunicationError, match=r"invalid user name or password \(6\)"
    ):
        pool.get_api()
    pool.disconnect()


def test_ros_api(router: RunningRouter) -> None:
    api = ros_api.Api(router.host, user="admin", password=PASSWORD, port=router.port)
    try:
        assert api.talk("/system/identity/print") == [{"name": "router"}]
        rows = api.talk(f"{FILTER}/print\n=.proplist=comment\n?chain=input")
        assert rows == [{"comment": "first"}, {"comment": "last"}]
        with pytest.raises(ros_api.api.RouterOSTrapError, match=NO_MATCH):
            api.talk(f"{FILTER}/add\n=chain=input\n=action=nope")
    finally:
        api.sock.close()


@pytest.mark.parametrize("method", [plain, token])
def test_librouteros(router: RunningRouter, method: object) -> None:
    api = librouteros.connect(
        router.host, port=router.port, username="admin", password=PASSWORD, login_method=method, encoding="utf-8"
    )
    try:
        path = api.path(FILTER)
        number = path.add(chain="input", comment="Küche", **{"dst-port": "53", "protocol": "udp"})
        name, port = Key("comment"), Key("dst-port")
        assert list(path.select(name).where(port > 52, port < 54)) == [{"comment": "Küche"}]
        either = Or(name == "first", name == "last")
        assert len(list(path.select(name).where(And(either, Key("chain") == "input")))) == 2
        assert len(list(path.select(name).where(name.In("first", "last", "none")))) == 2
        path.update(**{".id": number, "disabled": True})
        assert next(iter(path.select().where(Key(".id") == number)))["disabled"] is True
        path.remove(number)
        with pytest.raises(TrapError, match="no such item"):
            path.remove(number)
        assert list(api.path("/ip/firewall/nat")) == []
    finally:
        api.close()


def test_librouteros_async(router: RunningRouter) -> None:
    async def go() -> tuple[list[object], list[object]]:
        api = await librouteros.async_connect(
            host=router.host, port=router.port, username="admin", password=PASSWORD, encoding="utf-8"
        )
        rows = [row async for row in api.path(FILTER)]
        name = Key("name")
        chosen = [row async for row in api.path("/interface").select(name).where(name == "lo")]
        await api.close()
        return rows, chosen

    rows, chosen = asyncio.run(go())
    assert len(rows) == 2
    assert chosen == [{"name": "lo"}]
