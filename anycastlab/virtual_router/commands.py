"""Runs API commands on a router: `/menu/verb` with arguments and queries, in, rows or a refusal, out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from anycastlab.command_trees.schema import Menu
from anycastlab.virtual_router import creation, defaults, emulation, errors, runtime, scheduler, users
from anycastlab.virtual_router.dataplane.api import NETWATCH_POLICIES, CommandRefused
from anycastlab.virtual_router.query import Query, QueryError
from anycastlab.virtual_router.router import Router
from anycastlab.virtual_router.store import Row
from anycastlab.virtual_router.users import Caller

_ONLY_IN_API = ("getall", "listen")
"""Verbs of every list that no command tree shows."""
_PRINT_IGNORED = frozenset({
    "as-value", "brief", "comments", "detail", "show-ids", "show-sensitive", "stats", "stats-detail", "terse",
    "without-paging", "all",
})  # fmt: skip
"""They change how a console lays the output out; over the API every property comes anyway."""
_PRINT_FLAGS = frozenset({"dynamic", "static", "active", "inactive", "running", "disabled", "invalid"})
_PRINT_OWN = frozenset({".id", ".proplist", "proplist", "count-only", "from", "chain"})

_ROUTES = frozenset({"/ip/route", "/ipv6/route", "/routing/route"})
_ROUTE_FLAGS = frozenset({"active", "static", "dynamic", "bgp", "connect", "dhcp", "ecmp", "blackhole", "inactive"})

_ROWS_FROM_DATAPLANE = frozenset({"/ip/firewall/connection", "/routing/bgp/session", "/ip/dns/cache"})
"""Menus whose rows are the data plane's, so `remove` and the like go there."""


@dataclass(frozen=True)
class Reply:
    """`rows` become `!re`, `ret` goes into `!done`."""

    rows: Sequence[Mapping[str, str]] = ()
    ret: str | None = None


@dataclass(frozen=True)
class Call:
    """One command on its way through."""

    caller: Caller
    menu: Menu
    verb: str
    arguments: Mapping[str, str]
    queries: Sequence[str] = field(default=())

    def rest(self, *names: str) -> dict[str, str]:
        """Arguments but these and the row selectors."""
        left_out = {".id", "numbers", "number", *names}
        return {name: value for name, value in self.arguments.items() if name not in left_out}


class Interpreter:
    """Also the console for scripts: it has what `dataplane.api.Console` asks for."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self._verbs: Mapping[str, Callable[[Call], Awaitable[Reply]]] = {
            "print": self._print,
            "getall": self._print,
            "listen": self._listen,
            "get": self._get,
            "find": self._find,
            "add": self._add,
            "set": self._set,
            "unset": self._unset,
            "reset": self._reset,
            "remove": self._remove,
            "enable": self._enable,
            "disable": self._disable,
            "comment": self._comment,
            "move": self._move,
        }

    async def run(
        self, caller: Caller, command: str, arguments: Mapping[str, str], queries: Sequence[str] = ()
    ) -> Reply:
        """Raises CommandRefused. Every command that would change something goes to the write log."""
        menu, verb = self._locate(command)
        users.require(caller, menu.path, verb)
        call = Call(caller, menu, verb, arguments, queries)
        if verb in users.READ_VERBS or verb in users.TEST_VERBS or menu.path == "/safe-mode":
            return await self._dispatch(call)
        result = "done"
        try:
            return await self._dispatch(call)
        except CommandRefused as refusal:
            result = refusal.message
            raise
        finally:
            self.router.writes.add(caller.user, caller.session, command, arguments, result)

    # --- the console of scripts ---------------------------------------------------------------------------------

    async def execute(
        self,
        command: str,
        arguments: Mapping[str, str] = MappingProxyType({}),
        *,
        queries: Sequence[str] = (),
        policies: frozenset[str] = NETWATCH_POLICIES,
        user: str = "netwatch",
    ) -> list[dict[str, str]]:
        """See `dataplane.api.Console`."""
        reply = await self.run(Caller(user, policies, 0, "script"), command, arguments, queries)
        if reply.ret is not None:
            return [{"ret": reply.ret}]
        return [dict(row) for row in reply.rows]

    def log(self, topics: str, message: str) -> None:
        self.router.log.add(topics, message)

    # --- finding the way ----------------------------------------------------------------------------------------

    def _locate(self, command: str) -> tuple[Menu, str]:
        path, _, verb = command.rpartition("/")
        schema = self.router.schema
        menu = schema.menu(path or "/")
        if menu is None:
            raise errors.no_such_command() if schema.is_prefix(path) else errors.no_such_command_prefix()
        if verb in _ONLY_IN_API and "print" in menu.verbs:
            return menu, verb
        if verb not in menu.verbs:
            raise errors.no_such_command()
        return menu, verb

    async def _dispatch(self, call: Call) -> Reply:
        if call.menu.path == "/safe-mode" and call.verb in ("take", "release", "unroll", "toggle"):
            return self._safe_mode(call)
        if call.menu.path == "/log" and call.verb in ("info", "warning", "error", "debug"):
            self.router.log.add(f"script,{call.verb}", call.arguments.get("message", ""))
            return Reply()
        if call.menu.path == scheduler.SCRIPTS and call.verb == "run":
            return await self._run_script(call)
        if call.menu.path in _ROWS_FROM_DATAPLANE and call.verb not in users.READ_VERBS:
            return await self._action(call)
        if call.verb in emulation.WRITE_VERBS:
            emulation.check(call.menu.path)
        handler = self._verbs.get(call.verb)
        return await (handler(call) if handler is not None else self._action(call))

    async def _action(self, call: Call) -> Reply:
        """A verb that does something rather than changing rows: the data plane's."""
        arguments = self._checked(call, call.rest())
        if numbers := _selector(call):
            arguments["numbers"] = numbers
        await self.router.settle()
        rows = await self.router.dataplane.action(call.menu.path, call.verb, arguments)
        if rows is None:
            raise errors.not_emulated(f"{call.menu.path.rstrip('/')}/{call.verb}")
        return Reply(rows)

    async def _run_script(self, call: Call) -> Reply:
        """A stored script runs with its own policies, and only for who has them all."""
        (row,) = self._targets(call)
        shown = self.router.store.shown(call.menu.path, row)
        needed = frozenset(shown["policy"].split(","))
        if not needed <= call.caller.policies and shown["dont-require-permissions"] != "true":
            raise errors.not_enough_permissions()
        await scheduler.run_script(self.router, self, shown["source"], needed, call.caller.user)
        return Reply()

    def _checked(self, call: Call, arguments: Mapping[str, str]) -> dict[str, str]:
        return self.router.store.check(call.menu, call.verb, arguments)

    def _safe_mode(self, call: Call) -> Reply:
        safe, caller = self.router.safe_mode, call.caller
        arguments = self._checked(call, call.arguments)
        verb = call.verb
        if verb == "toggle":
            verb = "release" if safe.status(caller.session)["current"] == "true" else "take"
        if verb == "take":
            safe.take(caller.session, caller.user, caller.via, arguments.get("on-error", "unroll"))
        elif verb == "release":
            safe.release(caller.session)
        else:
            safe.unroll(caller.session)
        if verb == "release":
            self.router.mark_unsaved()
        return Reply()

    # --- reading ------------------------------------------------------------------------------------------------

    async def _print(self, call: Call) -> Reply:
        wanted = call.arguments.get(".proplist") or call.arguments.get("proplist")
        self._check_print(call)
        rows = await self._rows(call)
        rows = [row for row in rows if self._selected(call, row)]
        if self.router.config.flag_form == "empty" and call.menu.path in _ROUTES:
            rows = [
                {name: "" if name in _ROUTE_FLAGS and value == "true" else value for name, value in row.items()}
                for row in rows
            ]
        if "count-only" in call.arguments:
            return Reply(ret=str(len(rows)))
        if wanted:
            names = [name for name in wanted.split(",") if name]
            rows = [{name: row[name] for name in names if name in row} for row in rows]
        return Reply(rows)

    def _check_print(self, call: Call) -> None:
        allowed = call.menu.arguments("print")
        for name in call.arguments:
            if name in _PRINT_OWN - {"from", "chain"} or name in _PRINT_IGNORED & allowed:
                continue
            if name not in allowed:
                raise errors.unknown_parameter(name)
            if name not in _PRINT_OWN | _PRINT_FLAGS | _PRINT_IGNORED:
                raise errors.not_emulated(f"print {name}")

    async def _rows(self, call: Call) -> list[dict[str, str]]:
        """All rows of a menu as this caller may see them, in order, that match the query."""
        router, path = self.router, call.menu.path
        try:
            query = Query(call.queries)
        except QueryError as error:
            raise CommandRefused(str(error)) from error
        # A script looking at its own rows need not wait for what they do; one that looks for connections must.
        if call.caller.via != "script" or path in _ROWS_FROM_DATAPLANE:
            await router.settle()
        own = runtime.rows(router, path, call.caller)
        live = await router.dataplane.read(path)
        rows = [self._shown(path, row) for row in router.store.rows(path)] if own is None else own
        if call.menu.singleton:
            base = self._shown(path, router.store.rows(path)[0]) if own is not None else rows[0]
            rows = [{**base, **(own[0] if own else {}), **(live[0] if live else {})}]
        elif live:
            rows += [{".id": f"*F{number:07X}", **row} for number, row in enumerate(live, start=1)]
        sensitive = "sensitive" in call.caller.policies
        visible = (_visible(row, sensitive) for row in rows)
        return [row for row in visible if query.matches(row)]

    def _shown(self, path: str, row: Row) -> dict[str, str]:
        shown = self.router.store.shown(path, row)
        for name, value in self.router.dataplane.annotate(path, shown).items():
            shown[".about" if name == ".why" else name] = value
        if path in ("/interface", "/interface/ethernet"):
            shown |= runtime.interface(self.router, shown)
        elif path == scheduler.MENU:
            shown |= self.router.scheduled(shown)
        if path in _ROUTES and shown.get("disabled") == "true":
            shown.pop("dynamic", None)  # a route that is switched off is not said to be the router's own or not
        if "comment" in shown:  # RouterOS prints it last
            shown["comment"] = shown.pop("comment")
        return shown

    def _selected(self, call: Call, row: Mapping[str, str]) -> bool:
        arguments = call.arguments
        for name in _PRINT_FLAGS & arguments.keys():
            if row.get(name, "true" if name == "static" and row.get("dynamic") != "true" else "false") != "true":
                return False
        if "chain" in arguments and row.get("chain") != arguments["chain"]:
            return False
        ids = arguments.get(".id") or arguments.get("from")
        return not ids or bool({row.get(".id"), row.get("name")} & set(ids.split(",")))

    async def _listen(self, call: Call) -> Reply:
        raise errors.not_emulated(f"{call.menu.path}/listen")

    async def _find(self, call: Call) -> Reply:
        if unknown := call.rest(".proplist"):
            raise errors.unknown_parameter(next(iter(unknown)))
        return Reply(ret=";".join(row[".id"] for row in await self._rows(call) if ".id" in row))

    async def _get(self, call: Call) -> Reply:
        self._checked(call, call.rest())
        rows = await self._rows(call)
        if not call.menu.singleton:
            selector = _selector(call)
            if not selector:
                raise errors.missing_id()
            rows = [row for row in rows if selector in (row.get(".id"), row.get("name"))]
        if not rows:
            raise errors.no_such_item((_selector(call) or "").startswith("*"))
        name = call.arguments.get("value-name")
        if name is None:
            return Reply(ret=";".join(f"{key}={value}" for key, value in rows[0].items()))
        if name not in rows[0] and name not in call.menu.properties:
            raise errors.no_match("value-name")
        return Reply(ret=rows[0].get(name, ""))

    # --- writing ------------------------------------------------------------------------------------------------

    async def _add(self, call: Call) -> Reply:
        store, menu = self.router.store, call.menu
        arguments = call.rest("copy-from", "place-before")
        for name in ("copy-from", "place-before"):
            if name in call.arguments and name not in menu.arguments("add"):
                raise errors.unknown_parameter(name)
        if source := call.arguments.get("copy-from"):
            (row,) = store.find(menu.path, source)
            copied = {name: value for name, value in row.values.items() if name in menu.arguments("add")}
            arguments = {**copied, **arguments}
        made = creation.properties(menu.path, arguments, call.caller, self.router.clock())
        return Reply(ret=store.add(menu, arguments, call.arguments.get("place-before"), made).id)

    async def _set(self, call: Call) -> Reply:
        changes: dict[str, str | None] = {}
        for name, value in call.rest().items():
            if name.startswith("!"):
                changes[name[1:]] = None
            else:
                changes[name] = value
        self.router.store.set(call.menu, self._targets(call), changes)
        return Reply()

    async def _unset(self, call: Call) -> Reply:
        self._checked(call, call.rest())
        names = call.arguments.get("value-name", "")
        if not names:
            raise errors.missing_arguments(["value-name"])
        self.router.store.set(call.menu, self._targets(call), dict.fromkeys(names.split(",")))
        return Reply()

    async def _reset(self, call: Call) -> Reply:
        names = [name for name in call.rest() if name in call.menu.arguments("reset")]
        if unknown := set(call.rest()) - set(names):
            raise errors.unknown_parameter(min(unknown))
        self.router.store.set(call.menu, self._targets(call), dict.fromkeys(names))
        return Reply()

    async def _remove(self, call: Call) -> Reply:
        self._no_more(call)
        self.router.store.remove(call.menu, self._targets(call))
        return Reply()

    async def _enable(self, call: Call) -> Reply:
        self._no_more(call)
        self.router.store.set(call.menu, self._targets(call), {"disabled": "no"})
        return Reply()

    async def _disable(self, call: Call) -> Reply:
        self._no_more(call)
        self.router.store.set(call.menu, self._targets(call), {"disabled": "yes"})
        return Reply()

    async def _comment(self, call: Call) -> Reply:
        self._no_more(call, "comment")
        text = call.arguments.get("comment") or None
        self.router.store.set(call.menu, self._targets(call), {"comment": text})
        return Reply()

    async def _move(self, call: Call) -> Reply:
        self._no_more(call, "destination")
        destination, selector = call.arguments.get("destination"), _selector(call) or ""
        rows = self.router.store.rows(call.menu.path)
        positions = [int(number) for number in selector.split(",") if number.isdigit()]
        if positions and max(positions) < len(rows) and len(positions) == selector.count(",") + 1:
            targets: Sequence[Row] = [rows[position] for position in positions]  # bare numbers are places, not ids
        else:
            targets = self._targets(call)
        self.router.store.move(call.menu, targets, destination)
        return Reply()

    def _targets(self, call: Call) -> Sequence[Row]:
        if call.menu.singleton:
            return self.router.store.rows(call.menu.path)
        selector = _selector(call)
        if selector is None:
            raise errors.missing_id()
        return self.router.store.find(call.menu.path, selector)

    def _no_more(self, call: Call, *known: str) -> None:
        if unknown := call.rest(*known):
            raise errors.unknown_parameter(next(iter(unknown)))


def _selector(call: Call) -> str | None:
    """Which rows: `.id`, `numbers` or `number`; they mean the same."""
    for name in (".id", "numbers", "number"):
        if name in call.arguments:
            return call.arguments[name]
    return None


def _visible(row: Mapping[str, str], sensitive: bool) -> dict[str, str]:
    hidden = defaults.NEVER_SHOWN if sensitive else defaults.SENSITIVE
    return {name: value for name, value in row.items() if name not in hidden}
