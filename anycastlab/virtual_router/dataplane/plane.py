"""The real `Dataplane`: BIRD, nftables, kernel settings, netwatch and a resolver make the rows true."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_interface

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router.config import Config
from anycastlab.virtual_router.dataplane import netwatch, nft, policy_routing, probes, readout, static_routes, sysctl
from anycastlab.virtual_router.dataplane.api import CommandRefused, Console, Row, Snapshot
from anycastlab.virtual_router.dataplane.bird_daemon import Bird
from anycastlab.virtual_router.dataplane.chains import RULES
from anycastlab.virtual_router.dataplane.conntrack import Conntrack, Tracked, joined
from anycastlab.virtual_router.dataplane.filters import RuleError, parse
from anycastlab.virtual_router.dataplane.interfaces import Interface, Interfaces
from anycastlab.virtual_router.dataplane.kernel import Runner, load_ruleset, run, write_settings
from anycastlab.virtual_router.dataplane.nft_matchers import LIST_MENUS
from anycastlab.virtual_router.dataplane.peers import CONNECTION, TEMPLATE, Bgp, Notes, not_emulated
from anycastlab.virtual_router.dataplane.resolver import Resolver, Settings
from anycastlab.virtual_router.dataplane.routing import RESETS
from anycastlab.virtual_router.dataplane.rows import duration, items, seconds, truth
from anycastlab.virtual_router.dataplane.watcher import Watcher

CONNECTIONS = "/ip/firewall/connection"
SESSIONS = "/routing/bgp/session"
STATIC_NAMES = "/ip/dns/static"
_REMOVED_AT_ONCE = 16
"""Connections removed without a thread: each takes some ten microseconds, and scripts remove one at a time."""
_AFI = {"ip4": "ip", "ip6": "ipv6"}
"""Address families of a route as recent versions write them."""
_PING_COUNT, _PING_MOST = 4, 1000
_PING_INTERVAL_S = 1.0


def create(config: Config) -> LinuxDataplane:
    """The data plane of one configuration."""
    interfaces = Interfaces.of(
        Interface(each.name, each.device, tuple(ip_interface(address) for address in each.addresses))
        for each in config.interfaces
    )
    return LinuxDataplane(
        config.parsed_version,
        interfaces,
        hostname=socket.gethostname(),
        startup_delay_s=config.netwatch_startup_delay_s,
        connection_form=config.connection_form,
    )


class LinuxDataplane:
    """See `api.Dataplane`. `startup_delay_s` replaces netwatch's own when it is not None."""

    def __init__(
        self,
        version: Version,
        interfaces: Interfaces,
        hostname: str = "router",
        startup_delay_s: float | None = None,
        runner: Runner = run,
        resolver: Resolver | None = None,
        connection_form: str = "apart",
    ) -> None:
        self.version = version
        self.interfaces = interfaces
        self.hostname = hostname
        self.routing = Bird(runner)
        self.resolver = resolver or Resolver()
        self._runner = runner
        self._startup_delay_s = startup_delay_s
        self._conntrack = Conntrack()
        self._joined = connection_form == "joined"
        self._new_afi = (version.major, version.minor) >= (7, 20)
        self._watcher: Watcher | None = None
        self._console: Console | None = None
        self._bgp: Bgp | None = None
        self._notes: Notes = {}
        self._problems: set[str] = set()
        self._tracked: dict[str, Tracked] = {}
        self._rules: dict[str, Sequence[Row]] | None = None
        self._rule_notes: Notes = {}
        self._tables: dict[str, Sequence[Row]] = {}
        self._filled: frozenset[str] = frozenset()

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self, console: Console) -> None:
        self._console = console
        self._watcher = Watcher(console, probes.test, self._startup_delay_s)
        self.resolver.start()
        self._watcher.start()

    async def stop(self) -> None:
        """Routes, sessions, rules stay as they are: a restart of this process must not be felt."""
        if self._watcher is not None:
            await self._watcher.stop()
        await asyncio.to_thread(self.resolver.stop)

    # --- writing ------------------------------------------------------------------------------------------------

    async def apply(self, snapshot: Snapshot) -> None:
        notes: Notes = {}
        problems = write_settings(sysctl.settings(snapshot, self.interfaces))
        notes |= await self._apply_rules(snapshot, problems)
        await self._apply_tables(snapshot, problems)
        settings = Settings.of(snapshot)
        notes |= {(STATIC_NAMES, row): {"invalid": "true", ".why": why} for row, why in settings.names.problems.items()}
        try:
            await self.resolver.configure(settings)
        except OSError as error:
            problems.append(f"resolver: port {self.resolver.port}: {error.strerror}")
        if self._watcher is not None:
            self._watcher.update(snapshot)
        rendered = self.routing.render(snapshot, self.version, self.interfaces, self.hostname)
        self._bgp = rendered.bgp
        self._notes = notes | rendered.notes
        await self.routing.apply(rendered)
        if self.routing.problem:
            problems.append(f"BIRD: {self.routing.problem}")
        self._report(set(problems))

    async def _apply_rules(self, snapshot: Snapshot, problems: list[str]) -> Notes:
        """Rules that did not change are not looked at: thousands of them must not slow down a change of a BGP row."""
        rows = {menu: snapshot[menu] for menu in (*nft.MENUS, nft.TRACKING, *LIST_MENUS) if menu in snapshot}
        if rows != self._rules:
            ruleset, notes = nft.render(snapshot, self.interfaces)
            result = await load_ruleset(ruleset, self._runner)
            notes |= {(menu, row): {"invalid": "true", ".why": why} for (menu, row), why in result.refused.items()}
            problems += [f"nftables: {result.problem}"] if result.problem else []
            self._rules, self._rule_notes = (None if result.problem else rows), notes
        return self._rule_notes

    async def _apply_tables(self, snapshot: Snapshot, problems: list[str]) -> None:
        """Nothing is asked of the kernel where there was never a table or rule but its own."""
        rows = {menu: snapshot[menu] for menu in policy_routing.MENUS if menu in snapshot}
        names = policy_routing.tables(snapshot)
        if rows == self._tables or not (names or self._filled or snapshot.get("/routing/rule") or self._tables):
            return
        lines = policy_routing.commands(snapshot, self.interfaces, self._filled)
        result = await self._runner(["ip", "-force", "-batch", "-"], "\n".join(lines) + "\n")
        # A table that was never filled cannot be flushed, and that is all the kernel may complain of.
        told = [line for line in result.stderr.splitlines() if line and "FIB table does not exist" not in line]
        told = [line for line in told if not line.startswith(("Flush terminated", "Command failed"))]
        problems += [f"routing tables: {told[0]}"] if told else []
        self._tables, self._filled = rows, names

    def _report(self, problems: set[str]) -> None:
        """Each problem is logged once, until it is gone."""
        for problem in sorted(problems - self._problems):
            if self._console is not None:
                self._console.log("system,error", problem)
        self._problems = problems

    def refuse(self, menu: str, row: Row) -> str | None:
        if menu in nft.MENUS:
            return nft.refuse(menu, row)
        if menu in (CONNECTION, TEMPLATE):
            return not_emulated(row)
        if menu in static_routes.MENUS:
            return static_routes.refused(row)
        if menu == netwatch.MENU:
            return netwatch.refuse(row)
        if menu == "/ipv6/settings":
            return sysctl.refuse6(row)
        return None

    def annotate(self, menu: str, row: Row) -> dict[str, str]:
        row_id = row.get(".id", "")
        if menu == netwatch.MENU and self._watcher is not None:
            return {} if truth(row, "disabled") else self._watcher.runtime(row)
        if menu == RULES and not truth(row, "disabled"):
            # Told from the text at once: a client that writes a rule and reads it back must not see a stale mark.
            try:
                parse(row.get("rule", ""))
            except RuleError as error:
                return {"inactive": "true", "invalid": "true", ".why": f"not emulated: {error}"}
            return {}
        if menu in static_routes.MENUS and row.get("routing-table", "main") != "main":
            return {"active": "true"}
        if menu in static_routes.MENUS:
            # `read` of the same print has just looked; this only sorts what it saw.
            active = readout.static_route_is_active(row, self.routing.last)
            return {"active": "true"} if active else self._notes.get((menu, row_id), {})
        return self._notes.get((menu, row_id), {})

    # --- reading ------------------------------------------------------------------------------------------------

    async def read(self, menu: str) -> list[dict[str, str]] | None:
        match menu:
            case "/routing/bgp/session":
                return readout.bgp_sessions(await self.routing.look(), self._bgp)
            case "/routing/bfd/session":
                return readout.bfd_sessions(await self.routing.look(), self._bgp)
            case "/routing/route":
                every = readout.routes(await self.routing.look(), self._bgp, self.interfaces)
                return [row | {"afi": _AFI.get(row["afi"], row["afi"])} for row in every] if self._new_afi else every
            case "/ip/route" | "/ipv6/route":
                every = readout.routes(await self.routing.look(), self._bgp, self.interfaces)
                return readout.ip_routes(every, "ip4" if menu == "/ip/route" else "ip6")
            case "/ip/firewall/connection":
                self._tracked = {entry.key: entry for entry in await asyncio.to_thread(self._conntrack.entries)}
                return [
                    {".id": key, **(joined(entry.row) if self._joined else entry.row)}
                    for key, entry in self._tracked.items()
                ]
            case "/ip/dns/cache":
                return self.resolver.cache.rows()
        return None

    # --- doing --------------------------------------------------------------------------------------------------

    async def action(self, menu: str, verb: str, arguments: Mapping[str, str]) -> list[dict[str, str]] | None:
        match (menu, verb):
            case ("/ip/firewall/connection", "remove"):
                await self._remove_connections(items(arguments.get("numbers") or arguments.get(".id")))
                return []
            case ("/routing/bgp/session", verb) if verb in RESETS:
                await self._reset_sessions(verb, items(arguments.get("numbers") or arguments.get(".id")))
                return []
            case ("/ip/dns/cache", "flush"):
                self.resolver.flush()
                return []
            case ("/" | "/tool" | "", "ping"):
                return await self._ping(arguments)
        return None

    async def _remove_connections(self, ids: list[str]) -> None:
        """By the entries last listed: the kernel itself checks that an id still names the same connection."""
        if not set(ids) <= self._tracked.keys():
            self._tracked = {entry.key: entry for entry in await asyncio.to_thread(self._conntrack.entries)}
        wanted = [self._tracked[row] for row in ids if row in self._tracked]
        if len(wanted) <= _REMOVED_AT_ONCE:
            removed = self._conntrack.remove(wanted)
        else:
            removed = await asyncio.to_thread(self._conntrack.remove, wanted)
        # Like the router: what is there is removed, and what vanished meanwhile is an error all the same.
        if len(wanted) < len(ids) or not all(removed):
            raise CommandRefused("no such item (4)")

    async def _reset_sessions(self, verb: str, numbers: list[str]) -> None:
        rows = readout.bgp_sessions(await self.routing.look(fresh=True), self._bgp)
        for number in numbers:
            row = next((row for row in rows if number in (row[".id"], row["name"])), None)
            if row is None:
                raise CommandRefused("no such item (4)")
            await self.routing.reset(row["remote.address"], verb)

    async def _ping(self, arguments: Mapping[str, str]) -> list[dict[str, str]]:
        address = arguments.get("address", "")
        count = min(int(arguments.get("count") or _PING_COUNT), _PING_MOST)
        interval = seconds(arguments.get("interval"), _PING_INTERVAL_S)
        rows: list[dict[str, str]] = []
        received = 0
        for number in range(count):
            try:
                echo = await probes.ping(address, interval, arguments.get("src-address", ""))
            except ValueError as error:
                raise CommandRefused("invalid value for argument address") from error
            except OSError as error:
                echo, reason = None, (error.strerror or "").lower()
            else:
                reason = "" if echo else "timeout"
            row = {"seq": str(number), "host": address}
            if echo is not None:
                received += 1
                row |= {"size": "56", "time": _milliseconds(echo.seconds)}
                row |= {"ttl": str(echo.ttl)} if echo.ttl is not None else {}
            else:
                row["status"] = reason
            lost = round(100 * (number + 1 - received) / (number + 1))
            rows.append({**row, "sent": str(number + 1), "received": str(received), "packet-loss": str(lost)})
            if number + 1 < count:
                await asyncio.sleep(interval)
        return rows


def _milliseconds(value: float) -> str:
    """`1ms204us`, as ping prints it."""
    whole, micro = divmod(round(value * 1_000_000), 1000)
    return (duration(whole / 1000) if whole else "") + (f"{micro}us" if micro or not whole else "")
