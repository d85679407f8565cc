"""Runs a parsed script against the router's rows, with the rights of whoever runs it.

Every menu command goes through the `Console`, as an API client's would: same checks, same permissions, same log of
writes. `find` filters here, because the API has no regular expressions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping

from anycastlab.virtual_router.dataplane import timing
from anycastlab.virtual_router.dataplane.api import CommandRefused, Console
from anycastlab.virtual_router.dataplane.rows import seconds
from anycastlab.virtual_router.dataplane.script_parser import parse
from anycastlab.virtual_router.dataplane.script_tree import (
    Block,
    Command,
    Operation,
    ScriptError,
    Substitution,
    Text,
    Value,
    Variable,
)

Result = str | bool | int | list[str]
"""What a value or command comes to; `find` gives a list of ids."""

_NUMBERS_FIRST = {"set", "enable", "disable", "remove", "comment", "unset", "move"}


class _Return(Exception):  # noqa: N818 - control flow, not an error
    """`:return`"""


def text(value: Result) -> str:
    """A result as the script language writes it into a string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


def truthy(value: Result) -> bool:
    return value is True or (isinstance(value, str) and value in ("true", "yes"))


def _number(value: Result) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else None


def _equal(left: Result, right: Result) -> bool:
    spelled = {"yes": "true", "no": "false"}
    a, b = text(left), text(right)
    return a == b or spelled.get(a, a) == spelled.get(b, b)


def binary(operator: str, left: Result, right: Result) -> Result:
    """`left operator right`. Raises ScriptError for values the operator cannot take."""
    match operator:
        case "&&":
            return truthy(left) and truthy(right)
        case "||":
            return truthy(left) or truthy(right)
        case "=":
            return _equal(left, right)
        case "!=":
            return not _equal(left, right)
        case "~":
            try:
                return re.search(text(right), text(left)) is not None
            except re.error as error:
                raise ScriptError(f"bad regular expression {text(right)!r}: {error}") from error
        case ".":
            return text(left) + text(right)
        case "in":
            return text(left) in (right if isinstance(right, list) else [text(right)])
    first, second = _number(left), _number(right)
    if first is None or second is None:
        if operator in ("<", ">", "<=", ">="):
            a, b = text(left), text(right)
            return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator]
        raise ScriptError(f"cannot compute {text(left)} {operator} {text(right)}")
    if operator == "/" and second == 0:
        raise ScriptError("division by zero")
    results: dict[str, Callable[[int, int], Result]] = {
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
        "<=": lambda a, b: a <= b,
        ">=": lambda a, b: a >= b,
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a // b,
    }
    return results[operator](first, second)


class Interpreter:
    """One run of one script. `policies` bound what it may do, `user` is who the log of writes names."""

    def __init__(
        self,
        console: Console,
        policies: frozenset[str],
        user: str,
        variables: Mapping[str, Result] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.console = console
        self.policies = policies
        self.user = user
        self.variables: dict[str, Result] = dict(variables or {})
        self.sleep = sleep
        self.steps = 0

    async def run(self, source: str) -> None:
        """Parses, then runs. Raises ScriptError or CommandRefused (from the command that was refused)."""
        block = parse(source)
        try:
            await self.block(block)
        except _Return:
            return

    async def block(self, block: Block) -> Result:
        result: Result = ""
        for command in block.commands:
            result = await self.command(command)
        return result

    async def command(self, command: Command) -> Result:
        self.steps += 1
        if self.steps > timing.SCRIPT_STEPS:
            raise ScriptError(f"more than {timing.SCRIPT_STEPS} commands")
        if self.steps % timing.SCRIPT_STEPS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if command.menu is None:
            return await self.control(command)
        return await self.menu_command(command, command.menu)

    # --- values -------------------------------------------------------------------------------------------------

    async def value(self, value: Value, row: Mapping[str, str] | None = None) -> Result:
        """`row` is the row a `where` clause looks at: bare words on the left of an operator are its properties."""
        match value:
            case Text(parts):
                return "".join(p if isinstance(p, str) else text(self.variable(p.name)) for p in parts)
            case Variable(name):
                return self.variable(name)
            case Substitution(body):
                return await self.block(body)
            case Operation(operator, None, right):
                return not truthy(await self.condition(right, row))
            case Operation(operator, left, right) if left is not None:
                if operator in ("&&", "||"):
                    first = truthy(await self.condition(left, row))
                    if first == (operator == "||"):
                        return first
                    return truthy(await self.condition(right, row))
                return binary(operator, await self.left(left, row), await self.value(right))
            case Block():
                return await self.block(value)
        raise ScriptError("this value is not emulated")

    async def left(self, value: Value, row: Mapping[str, str] | None) -> Result:
        if row is not None and isinstance(value, Text) and value.bare:
            return row.get(value.literal or "", "")
        return await self.value(value, row)

    async def condition(self, value: Value, row: Mapping[str, str] | None) -> Result:
        """A bare word as condition is a flag of the row (`where disabled`)."""
        return await self.left(value, row)

    def variable(self, name: str) -> Result:
        return self.variables.get(name, "")

    # --- :commands ----------------------------------------------------------------------------------------------

    async def control(self, command: Command) -> Result:
        named, positional = dict(command.named), command.positional
        match command.verb:
            case "if":
                chosen = named["do"] if truthy(await self.value(positional[0])) else named.get("else")
                return await self.value(chosen) if chosen is not None else ""
            case "foreach":
                for item in _as_list(await self.value(named["in"])):
                    self.variables[_name(positional[0])] = item
                    await self.value(named["do"])
            case "for":
                await self.count(_name(positional[0]), named)
            case "while":
                while truthy(await self.value(positional[0])):
                    self.steps += 1
                    await self.value(named["do"])
                    self.limit()
            case "do":
                return await self.guarded(positional[0], named)
            case "local" | "global" | "set":
                self.variables[_name(positional[0])] = await self.value(positional[1]) if len(positional) > 1 else ""
            case "log":
                topic, message = text(await self.value(positional[0])), text(await self.value(positional[1]))
                self.console.log(f"script,{topic}", message)
            case "put":
                self.console.log("script,info", text(await self.value(positional[0])) if positional else "")
            case "delay":
                await self.sleep(_seconds(text(await self.value(positional[0]))))
            case "error":
                raise ScriptError(text(await self.value(positional[0])))
            case "return":
                raise _Return
            case "len":
                found = await self.value(positional[0])
                return len(found) if isinstance(found, list) else len(text(found))
            case "tostr":
                return text(await self.value(positional[0]))
            case "tonum":
                return _number(await self.value(positional[0])) or 0
        return ""

    def limit(self) -> None:
        if self.steps > timing.SCRIPT_STEPS:
            raise ScriptError(f"more than {timing.SCRIPT_STEPS} rounds")

    async def count(self, name: str, named: Mapping[str, Value]) -> None:
        low, high = [_number(await self.value(named[key])) for key in ("from", "to")]
        step = _number(await self.value(named["step"])) if "step" in named else 1
        if low is None or high is None or not step:
            raise ScriptError(":for needs numbers")
        for number in range(low, high + (1 if step > 0 else -1), step):
            self.steps += 1
            self.limit()
            self.variables[name] = number
            await self.value(named["do"])

    async def guarded(self, body: Value, named: Mapping[str, Value]) -> Result:
        try:
            result = await self.value(body)
            while "while" in named and truthy(await self.value(named["while"])):
                self.steps += 1
                self.limit()
                result = await self.value(body)
        except (CommandRefused, ScriptError):
            if "on-error" not in named:
                raise
            return await self.value(named["on-error"])
        return result

    # --- menu commands ------------------------------------------------------------------------------------------

    async def menu_command(self, command: Command, menu: str) -> Result:
        if command.verb in ("find", "print"):
            rows = await self.rows(menu, command.where)
            if command.verb == "find":
                return [row[".id"] for row in rows if ".id" in row]
            counting = any(isinstance(p, Text) and p.literal == "count-only" for p in command.positional)
            return len(rows) if counting else ""
        arguments = {name: text(await self.value(value)) for name, value in command.named}
        positional = [await self.value(value) for value in command.positional]
        if command.verb == "get":
            return await self.get(menu, arguments, positional)
        if menu == "/system/script" and command.verb == "run":
            return await self.call(text(positional[0]) if positional else arguments.get("number", ""))
        if positional and command.verb in _NUMBERS_FIRST:
            numbers = _as_list(positional.pop(0))
            if not numbers:
                return ""
            arguments["numbers"] = ",".join(numbers)
        if positional:
            raise ScriptError(f"{menu} {command.verb}: unexpected {text(positional[0])!r}")
        if command.verb in _NUMBERS_FIRST and arguments.get("numbers") == "":
            return ""
        replies = await self.execute(f"{menu.rstrip('/')}/{command.verb}", arguments)
        return replies[0].get("ret", "") if replies else ""

    async def execute(self, command: str, arguments: Mapping[str, str]) -> list[dict[str, str]]:
        return await self.console.execute(command, arguments, policies=self.policies, user=self.user)

    async def rows(self, menu: str, where: Value | None) -> list[dict[str, str]]:
        rows = await self.execute(f"{menu.rstrip('/')}/print", {})
        if where is None:
            return rows
        return [row for row in rows if truthy(await self.condition(where, row))]

    async def get(self, menu: str, arguments: Mapping[str, str], positional: list[Result]) -> Result:
        rows = await self.rows(menu, None)
        property_name = arguments.get("value-name", "")
        number = arguments.get("number", "")
        rest = [item for value in positional for item in _as_list(value)]
        single = len(rows) == 1 and ".id" not in rows[0]
        if rest and not number and not single:
            number = rest.pop(0)
        if rest and not property_name:
            property_name = rest.pop(0)
        for row in rows:
            if single or number in (row.get(".id"), row.get("name")):
                return row.get(property_name, "") if property_name else text([f"{k}={v}" for k, v in row.items()])
        raise CommandRefused("no such item")

    async def call(self, name: str) -> Result:
        """A stored script with more rights than ours is silently not run: the trap the documentation warns of."""
        for row in await self.rows("/system/script", None):
            if name in (row.get("name"), row.get(".id")):
                needs = {part for part in row.get("policy", "").split(",") if part}
                if not needs <= self.policies and row.get("dont-require-permissions") not in ("true", "yes"):
                    return ""
                return await self.block(parse(row.get("source", "")))
        raise CommandRefused("no such item")


def _as_list(value: Result) -> list[str]:
    if isinstance(value, list):
        return value
    return [part for part in text(value).split(",") if part]


def _name(value: Value) -> str:
    if isinstance(value, Variable):
        return value.name
    if isinstance(value, Text) and value.literal:
        return value.literal
    raise ScriptError("a variable name must be a word")


def _seconds(value: str) -> float:
    try:
        return seconds(value, 0.0)
    except ValueError as error:
        raise ScriptError(str(error)) from error
