"""One API connection: login, tags, `/cancel`, replies.

Sentences without a tag are answered one after the other; tagged ones run side by side. Every sentence gets its `!done`,
also after a `!trap`; a `!fatal` is the last thing a connection says. What arrives is never trusted: sizes are bounded,
and garbage ends this connection and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from anycastlab.command_trees.version import Version
from anycastlab.virtual_router import errors, limits, users
from anycastlab.virtual_router.commands import Interpreter, Reply
from anycastlab.virtual_router.dataplane.api import CommandRefused
from anycastlab.virtual_router.errors import SessionEnded
from anycastlab.virtual_router.logs import stamp
from anycastlab.virtual_router.router import Router
from anycastlab.virtual_router.users import Caller
from anycastlab.virtual_router.wire import Decoder, WireError, encode_sentence

EMPTY_SINCE = Version(7, 18)
"""First version that answers an empty list with `!empty` before `!done`."""

_REPLY_BATCH = 64


@dataclass(frozen=True)
class Sentence:
    """A parsed request. `arguments` keeps the last of equal names; `=!name=` stays `!name`."""

    command: str
    arguments: Mapping[str, str]
    queries: Sequence[str]
    tag: str | None

    @classmethod
    def parse(cls, words: Sequence[str]) -> Sentence:
        """Raises CommandRefused for a word that is none of command, argument, query or tag."""
        arguments: dict[str, str] = {}
        queries: list[str] = []
        tag: str | None = None
        for word in words[1:]:
            if word.startswith("="):
                name, _, value = word[1:].partition("=")
                arguments[name] = value
            elif word.startswith("?"):
                queries.append(word)
            elif word.startswith(".tag="):
                tag = word[5:]
            elif word.startswith(".") and "=" in word:
                name, _, value = word.partition("=")
                arguments[name] = value
            else:
                raise errors.not_emulated(f"word {word[:80]!r}")
        return cls(words[0], arguments, queries, tag)


def tag_of(words: Sequence[str]) -> str | None:
    """The tag of a sentence that could not be parsed, so that its refusal finds its way."""
    return next((word[5:] for word in words[1:] if word.startswith(".tag=")), None)


class Session:
    """Serves one connection until it ends; `run` never raises for anything the other side does."""

    def __init__(
        self,
        router: Router,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        number: int,
        via: str,
    ) -> None:
        self._router = router
        self._interpreter = Interpreter(router)
        self._reader = reader
        self._writer = writer
        self._number = number
        self._via = via
        peer = writer.get_extra_info("peername")
        self._address = str(peer[0]) if isinstance(peer, tuple) else "127.0.0.1"
        self._decoder = Decoder(
            limits.MAX_WORD_BEFORE_LOGIN, limits.MAX_WORD_BEFORE_LOGIN, limits.MAX_WORDS_BEFORE_LOGIN
        )
        self._caller: Caller | None = None
        self._challenge: bytes | None = None
        self._attempts = 0
        self._running: dict[str, asyncio.Task[None]] = {}
        self._untagged: asyncio.Task[None] | None = None
        self._slots = asyncio.Semaphore(limits.MAX_PENDING)
        self._sending = asyncio.Lock()
        self._quit = False
        writer.transport.set_write_buffer_limits(high=limits.SEND_BUFFER)

    async def run(self) -> None:
        """Reads until the other side, an error or a limit ends it; then cleans up, safe mode included."""
        reason = ""
        try:
            async with asyncio.timeout(limits.LOGIN_TIMEOUT) as deadline:
                await self._serve(deadline)
        except TimeoutError:
            reason = "login timed out"
        except WireError as error:
            reason = str(error)
        except SessionEnded as end:
            reason = end.reason
        except OSError:
            pass
        except Exception as error:  # a bug in here ends this connection, not the router
            reason = f"stand-in failed: {type(error).__name__}: {error}"
            self._router.log.add("system,error,critical", reason)
        finally:
            await self._close(reason)

    async def _serve(self, deadline: asyncio.Timeout) -> None:
        while data := await self._reader.read(limits.READ_CHUNK):
            for words in self._decoder.feed(data):
                self._router.counters.sentences += 1
                caller = self._caller
                if caller is not None:
                    await self._begin(words, caller)
                elif await self._before_login(words):
                    deadline.reschedule(None)
                    self._decoder.max_word = limits.MAX_WORD
                    self._decoder.max_sentence = limits.MAX_SENTENCE
                    self._decoder.max_words = limits.MAX_WORDS

    # --- login --------------------------------------------------------------------------------------------------

    async def _before_login(self, words: Sequence[str]) -> bool:
        """Answers a sentence of a session that is not logged in; True when it is afterwards."""
        tag = tag_of(words)
        try:
            sentence = Sentence.parse(words)
            if sentence.command == "/quit":
                self._quit = True
                raise SessionEnded("session terminated on request")
            if sentence.command != "/login":
                raise SessionEnded("not logged in")
            ret = self._login(sentence)
        except CommandRefused as refusal:
            await self._refuse(refusal, tag)
            if self._attempts >= limits.MAX_LOGIN_ATTEMPTS:
                raise SessionEnded("too many login attempts") from refusal
            return False
        await self._send([_tagged(["!done", *([f"=ret={ret}"] if ret else [])], tag)])
        return self._caller is not None

    def _login(self, sentence: Sentence) -> str | None:
        """The challenge when one was asked for, else None and the session is logged in. Raises CommandRefused."""
        name = sentence.arguments.get("name")
        if name is None:
            self._challenge = secrets.token_bytes(16)
            return self._challenge.hex()
        self._attempts += 1
        store, log = self._router.store, self._router.log
        try:
            if "response" in sentence.arguments:
                challenge, self._challenge = self._challenge, None
                if challenge is None:
                    raise errors.invalid_login()
                response = sentence.arguments["response"]
                policies = users.challenge_login(store, name, challenge, response, self._address)
            else:
                policies = users.login(store, name, sentence.arguments.get("password", ""), self._address)
        except CommandRefused:
            log.add("system,error,critical", f"login failure for user {name} from {self._address} via {self._via}")
            raise
        self._caller = Caller(name, policies, self._number, self._via)
        self._router.counters.logins += 1
        self._router.sessions[self._number] = {
            "when": stamp(self._router.clock()),
            "name": name,
            "address": self._address,
            "via": self._via,
            "group": next(
                (row.values.get("group", "") for row in store.rows("/user") if row.values.get("name") == name), ""
            ),
            "radius": "false",
        }
        log.add("system,info,account", f"user {name} logged in from {self._address} via {self._via}")
        return None

    # --- commands -----------------------------------------------------------------------------------------------

    async def _begin(self, words: Sequence[str], caller: Caller) -> None:
        try:
            sentence = Sentence.parse(words)
        except CommandRefused as refusal:
            await self._refuse(refusal, tag_of(words))
            return
        if sentence.command == "/quit":
            self._quit = True
            raise SessionEnded("session terminated on request")
        if sentence.command == "/cancel":
            await self._cancel(sentence)
            return
        if sentence.command == "/login":
            await self._before_login(words)
            return
        await self._slots.acquire()
        before = None if sentence.tag is not None else self._untagged
        task = asyncio.create_task(self._answer(sentence, caller, before))
        task.add_done_callback(lambda _: self._slots.release())
        if sentence.tag is None:
            self._untagged = task
        else:
            self._running[sentence.tag] = task
            task.add_done_callback(partial(self._forget, sentence.tag))

    def _forget(self, tag: str, task: asyncio.Task[None]) -> None:
        if self._running.get(tag) is task:
            del self._running[tag]

    async def _answer(self, sentence: Sentence, caller: Caller, before: asyncio.Task[None] | None) -> None:
        with contextlib.suppress(OSError):  # the client is gone; whoever reads its socket notices as well
            await self._run(sentence, caller, before)

    async def _run(self, sentence: Sentence, caller: Caller, before: asyncio.Task[None] | None) -> None:
        tag = sentence.tag
        try:
            if before is not None and not before.done():
                await asyncio.wait([before])
            reply = await self._interpreter.run(caller, sentence.command, sentence.arguments, sentence.queries)
        except CommandRefused as refusal:
            await self._refuse(refusal, tag)
        except asyncio.CancelledError:
            if not self._writer.is_closing():
                await self._refuse(errors.interrupted(), tag)
        except Exception as error:  # one command's bug must not take the router down
            self._router.log.add("system,error,critical", f"{sentence.command}: {type(error).__name__}: {error}")
            await self._refuse(CommandRefused(f"stand-in failed: {type(error).__name__}: {error}"), tag)
        else:
            await self._reply(sentence, reply)

    async def _cancel(self, sentence: Sentence) -> None:
        wanted = sentence.arguments.get("tag")
        tasks = [task for tag, task in self._running.items() if wanted in (None, tag)]
        if wanted is not None and not tasks:
            await self._refuse(errors.unknown_parameter("tag"), sentence.tag)
            return
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._send([_tagged(["!done"], sentence.tag)])

    # --- replies ------------------------------------------------------------------------------------------------

    async def _reply(self, sentence: Sentence, reply: Reply) -> None:
        tag = sentence.tag
        out = [_tagged(["!re", *(f"={name}={value}" for name, value in row.items())], tag) for row in reply.rows]
        self._router.counters.rows += len(out)
        is_list = sentence.command.endswith(("/print", "/getall")) and reply.ret is None
        if not out and is_list and self._router.config.parsed_version >= EMPTY_SINCE:
            out.append(_tagged(["!empty"], tag))
        out.append(_tagged(["!done", *([f"=ret={reply.ret}"] if reply.ret is not None else [])], tag))
        await self._send(out)

    async def _refuse(self, refusal: CommandRefused, tag: str | None) -> None:
        self._router.counters.traps += 1
        category = [] if refusal.category is None else [f"=category={refusal.category}"]
        trap = ["!trap", *category, f"=message={refusal.message}"]
        await self._send([_tagged(trap, tag), _tagged(["!done"], tag)])

    async def _send(self, sentences: Sequence[Sequence[str]]) -> None:
        """Replies of one command stay together. A client that does not read is given up after a minute."""
        async with self._sending:
            for at in range(0, len(sentences), _REPLY_BATCH):
                batch = b"".join(encode_sentence(words) for words in sentences[at : at + _REPLY_BATCH])
                self._writer.write(batch)
                try:
                    await asyncio.wait_for(self._writer.drain(), limits.SEND_TIMEOUT)
                except TimeoutError as error:
                    self._writer.transport.abort()
                    raise ConnectionResetError("the client reads nothing") from error

    async def _close(self, reason: str) -> None:
        """Stops what runs, undoes a held safe mode, says goodbye.

        All of it happens before the first wait: whoever cancels this meanwhile finds nothing half done.
        """
        tasks = [task for task in (*self._running.values(), self._untagged) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if self._quit:
            self._router.safe_mode.quit(self._number)
        self._router.safe_mode.lost(self._number)
        self._router.sessions.pop(self._number, None)
        if self._caller is not None:
            self._router.log.add(
                "system,info,account", f"user {self._caller.user} logged out from {self._address} via {self._via}"
            )
        if reason:
            self._writer.write(encode_sentence(["!fatal", reason]))
        self._writer.close()
        try:
            if tasks:
                await asyncio.wait(tasks)
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(self._writer.wait_closed(), limits.CLOSE_TIMEOUT)
        finally:
            self._writer.transport.abort()


def _tagged(words: list[str], tag: str | None) -> list[str]:
    return words if tag is None else [*words, f".tag={tag}"]
