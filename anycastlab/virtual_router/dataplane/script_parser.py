"""The subset of RouterOS's script language that inline netwatch scripts use, parsed to a tree. Pure.

A script is parsed as a whole before any of it runs: what is not understood is an error here, and nothing happens.
Commands: menu commands in both spellings (`/ip firewall nat enable …`, `/ip/firewall/nat/enable …`), a bare menu that
sets the context of the following ones, `:if :foreach :for :while :do :local :global :set :log :put :delay :error`.
Values: words, strings with escapes and `$name`, `$name`, `[command]`, `(expression)`, `{block}`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

MENU_VERBS = frozenset(
    (
        *("add", "set", "enable", "disable", "remove", "find", "get", "print", "comment", "unset", "move"),
        *("flush", "clear", "refresh", "run", "info", "warning", "error", "debug"),
    )
)
CONTROL = frozenset(
    (
        *("if", "foreach", "for", "while", "do", "local", "global", "set", "log", "put", "delay", "error", "return"),
        *("len", "tostr", "tonum"),
    )
)
_LOG_TOPICS = ("debug", "info", "warning", "error")
_END_OF_WORD = set(' \t\r\n;[]{}()"$=')
_OPERATORS = ("&&", "||", "!=", "<=", ">=", "=", "~", "<", ">", "+", "*", "/", ".", "-")
_WORD_OPERATORS = {"and": "&&", "or": "||", "in": "in"}
_LEVELS = (("||",), ("&&",), ("=", "!=", "<", ">", "<=", ">=", "~", "in"), (".",), ("+", "-"), ("*", "/"))
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "?": "?", "_": " ", "a": "\a"}
MAX_DEPTH = 50
"""Deepest nesting of blocks and brackets."""


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.depth = 0
        self.in_parentheses = False

    # --- characters ---------------------------------------------------------------------------------------------

    def peek(self, count: int = 1) -> str:
        return self.source[self.at : self.at + count]

    def fail(self, problem: str) -> ScriptError:
        line = self.source.count("\n", 0, self.at) + 1
        column = self.at - self.source.rfind("\n", 0, self.at)
        return ScriptError(f"{problem} (line {line} column {column})")

    def blanks(self, lines: bool = False) -> None:
        """Skips spaces, continued lines and, where a command may start, line ends, `;` and comments."""
        while self.at < len(self.source):
            char = self.source[self.at]
            if char in " \t\r" or (lines and char in "\n;"):
                self.at += 1
            elif char == "\\" and self.source[self.at + 1 : self.at + 3].lstrip("\r")[:1] == "\n":
                self.at = self.source.index("\n", self.at) + 1
            elif lines and char == "#":
                end = self.source.find("\n", self.at)
                self.at = len(self.source) if end < 0 else end
            else:
                return

    def bracketed(self, sign: str, content: Callable[[], Value]) -> Value:
        """What stands between an opening sign and `sign`; line ends are blanks only inside parentheses."""
        outside, self.in_parentheses = self.in_parentheses, sign == ")"
        self.at += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail("nested too deeply")
        self.blanks(lines=self.in_parentheses)
        found = content()
        self.blanks(lines=self.in_parentheses)
        if self.peek() != sign:
            raise self.fail(f"expected {sign}")
        self.at += 1
        self.depth -= 1
        self.in_parentheses = outside
        return found

    def word(self, stops: set[str] = _END_OF_WORD) -> str:
        start = self.at
        while self.at < len(self.source) and self.source[self.at] not in stops:
            self.at += 1
        return self.source[start : self.at]

    # --- commands -----------------------------------------------------------------------------------------------

    def block(self, until: str, menu: str) -> Block:
        commands: list[Command] = []
        unused = ""
        while True:
            self.blanks(lines=True)
            ended = self.at >= len(self.source) or (until and self.peek() == until)
            if unused and (ended or self.peek() == "/"):
                # Nothing uses it as a context, so it was meant as a command, and not one of ours.
                raise self.fail(f"{unused}: unknown command")
            if ended:
                if until and self.at >= len(self.source):
                    raise self.fail(f"expected {until}")
                return Block(tuple(commands))
            before = self.at
            command, menu = self.command(menu)
            unused = menu if command is None else ""
            if command is not None:
                commands.append(command)
            if self.at == before:
                raise self.fail(f"unexpected {self.peek()!r}")

    def command(self, menu: str) -> tuple[Command | None, str]:
        """One command, and the menu in which the next one stands."""
        line = self.source.count("\n", 0, self.at) + 1
        if self.peek() == "{":
            return Command(None, "do", (self.value(menu),), line=line), menu
        if self.peek() == ":":
            self.at += 1
            name = self.word()
            if name not in CONTROL:
                raise self.fail(f"command :{name} is not emulated")
            if name == "log":
                return self.log(line), menu
            return self.arguments(None, name, menu, line), menu
        words = self.path(menu)
        if words is None:
            raise self.fail(f"unexpected {self.peek()!r}")
        absolute, parts, verb = words
        target = "/" + "/".join(parts) if absolute else "/".join([menu.rstrip("/"), *parts])
        if not verb:
            return None, target
        if target == "/log":
            return self.log(line, verb), menu
        return self.arguments(target or "/", verb, target, line), menu

    def path(self, menu: str) -> tuple[bool, list[str], str] | None:
        """(absolute, words of the menu, verb); an empty verb where the command is only a menu."""
        absolute = self.peek() == "/"
        if absolute:
            self.at += 1
        parts: list[str] = []
        stops = _END_OF_WORD | {"/", "!", "~"}
        while True:
            before = self.at
            word = self.word(stops)
            if not word:
                return (absolute, parts, "") if absolute or parts else None
            if self.peek() == "=":
                self.at = before
                raise self.fail(f"{'/'.join(parts) or menu}: unknown command")
            if word in MENU_VERBS and (parts or not absolute or word in ("find", "print")):
                return absolute, parts, word
            parts.append(word)
            if self.peek() == "/":
                self.at += 1
                continue
            self.blanks()
            if self.at >= len(self.source) or self.peek() in "\n;]}":
                return absolute, parts, ""

    def log(self, line: int, topic: str = "") -> Command:
        if not topic:
            self.blanks()
            topic = self.word()
        if topic not in _LOG_TOPICS:
            raise self.fail(f"log topic {topic!r} is not one of {', '.join(_LOG_TOPICS)}")
        command = self.arguments(None, "log", "/", line)
        message = command.get("message") or (command.positional[0] if command.positional else None)
        if message is None:
            raise self.fail("log without a message")
        return Command(None, "log", (Text((topic,)), message), line=line)

    def arguments(self, menu: str | None, verb: str, context: str, line: int) -> Command:
        positional: list[Value] = []
        named: list[tuple[str, Value]] = []
        where: Value | None = None
        while True:
            self.blanks()
            if self.at >= len(self.source) or self.peek() in "\n;]}":
                break
            if verb in ("find", "print") and menu is not None and (verb == "find" or self.ahead("where")):
                if self.ahead("where"):
                    self.at += len("where")
                    self.blanks()
                if self.at < len(self.source) and self.peek() not in "\n;]}":
                    where = self.conditions(context)
                break
            name = self.assignment()
            if name is None:
                positional.append(self.value(context))
            else:
                named.append((name, self.value(context)))
        if menu is None:
            self.check(verb, positional, named)
        return Command(menu, verb, tuple(positional), tuple(named), where, line)

    def check(self, verb: str, positional: Sequence[Value], named: Sequence[tuple[str, Value]]) -> None:
        """A `:command` has the arguments it needs and no others."""
        names = {name for name, _ in named}
        needed = {"if": {"do"}, "foreach": {"in", "do"}, "for": {"from", "to", "do"}, "while": {"do"}}.get(verb, set())
        allowed = needed | {"if": {"else"}, "for": {"step"}, "do": {"on-error", "while"}, "log": {"message"}}.get(
            verb, set()
        )
        if not needed <= names or not names <= allowed:
            raise self.fail(f":{verb} needs {', '.join(sorted(needed)) or 'other arguments'}")
        if verb in ("if", "foreach", "for", "while", "do", "local", "set", "delay", "error") and not positional:
            raise self.fail(f":{verb} has too few arguments")

    def ahead(self, word: str) -> bool:
        after = self.source[self.at + len(word) : self.at + len(word) + 1]
        return self.source.startswith(word, self.at) and (not after or after in " \t\r\n;](")

    def assignment(self) -> str | None:
        """`name=` ahead: consumes it and returns the name."""
        before = self.at
        name = self.word()
        if name and self.peek() == "=":
            self.at += 1
            return name
        self.at = before
        return None

    # --- values -------------------------------------------------------------------------------------------------

    def value(self, context: str) -> Value:
        char = self.peek()
        if char == '"':
            return self.string()
        if char == "$":
            return self.variable()
        if char == "[":
            return self.bracketed("]", lambda: Substitution(self.block("]", context)))
        if char == "(":
            return self.bracketed(")", lambda: self.expression(context))
        if char == "{":
            return self.bracketed("}", lambda: self.block("}", context))
        word = self.word(_END_OF_WORD - {"="})
        if not word:
            raise self.fail(f"unexpected {char!r}")
        return Text((word,), bare=True)

    def variable(self) -> Variable:
        self.at += 1
        if self.peek() == '"':
            name = self.string().literal
            if not name:
                raise self.fail("variable without a name")
            return Variable(name)
        start = self.at
        while self.at < len(self.source) and (self.source[self.at].isalnum() or self.source[self.at] == "_"):
            self.at += 1
        if start == self.at:
            raise self.fail("variable without a name")
        return Variable(self.source[start : self.at])

    def string(self) -> Text:
        self.at += 1
        parts: list[str | Variable] = []
        text = ""
        while True:
            if self.at >= len(self.source):
                raise self.fail("string without an end")
            char = self.source[self.at]
            if char == '"':
                self.at += 1
                return Text((*parts, text) if text or not parts else tuple(parts))
            follower = self.peek(2)[1:]
            if char == "$" and (follower.isalnum() or follower in ("_", "[", "(")):
                parts += [text] if text else []
                text = ""
                if follower in ("[", "("):
                    raise self.fail("a command or expression inside a string is not emulated")
                parts.append(self.variable())
            elif char == "\\":
                text += self.escape()
            else:
                text += char
                self.at += 1

    def escape(self) -> str:
        follower = self.source[self.at + 1 : self.at + 2]
        if follower in ("\r", "\n"):
            self.at = self.source.index("\n", self.at) + 1
            return ""
        if follower in _ESCAPES:
            self.at += 2
            return _ESCAPES[follower]
        digits = self.source[self.at + 1 : self.at + 3]
        try:
            char = chr(int(digits, 16))
        except ValueError as error:
            raise self.fail(f"unknown escape \\{follower}") from error
        self.at += 3
        return char

    # --- expressions --------------------------------------------------------------------------------------------

    def expression(self, context: str, level: int = 0) -> Value:
        if level == len(_LEVELS):
            return self.unary(context)
        left = self.expression(context, level + 1)
        while True:
            self.blanks(lines=self.in_parentheses)
            operator = self.operator(_LEVELS[level])
            if operator is None:
                return left
            self.blanks(lines=self.in_parentheses)
            left = Operation(operator, left, self.expression(context, level + 1))

    def operator(self, wanted: Sequence[str]) -> str | None:
        for sign in _OPERATORS:
            if self.source.startswith(sign, self.at):
                if sign not in wanted:
                    return None
                self.at += len(sign)
                return sign
        for word, sign in _WORD_OPERATORS.items():
            if sign in wanted and self.ahead(word):
                self.at += len(word)
                return sign
        return None

    def unary(self, context: str) -> Value:
        if self.peek() == "!" or self.ahead("not"):
            self.at += 1 if self.peek() == "!" else 3
            self.blanks()
            return Operation("!", None, self.unary(context))
        if self.peek() in ('"', "$", "[", "(", "{"):
            return self.value(context)
        word = self.word(_END_OF_WORD | set("!~<>+*&|,"))
        if not word:
            raise self.fail(f"unexpected {self.peek()!r}")
        return Text((word,), bare=True)

    def conditions(self, context: str) -> Value:
        """A `where` clause: terms joined by and, or, or nothing at all (which means and)."""
        found = self.expression(context)
        while True:
            self.blanks()
            if self.at >= len(self.source) or self.peek() in "\n;])}":
                return found
            found = Operation("&&", found, self.expression(context))


def parse(source: str) -> Block:
    """The whole script. Raises ScriptError with line and column of what is not understood."""
    return _Parser(source).block("", "/")
