"""One small event loop: sockets and timers on the monotonic clock.

asyncio would cost 10 MB more and a multiple of the processor time on a small board. What matters here and is easy to
state in 100 lines: sockets are served before timers, so an answer that has arrived is never called a timeout because
the loop itself was late; and the loop knows how late it was.
"""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import time
from collections.abc import Callable
from typing import Protocol

# Wakes up at least this often (seconds) so that the watchdog is fed by the loop that does the work.
LONGEST_SLEEP_S = 0.5

Callback = Callable[[], None]

# ip(7), ipv6(7); not in Python's socket module.
_FREEBIND = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}


def bound(address: str, port: int, kind: socket.SocketKind) -> socket.socket:
    """A socket of the node's own address, which may appear only after the probe has started. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(*_FREEBIND[family], 1)
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made


class Descriptor(Protocol):
    def fileno(self) -> int: ...

    def close(self) -> None: ...


class Timer:
    """One call in the future; `cancel()` is allowed at any time."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callback | None) -> None:
        self.due = due
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """`clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lateness_s = 0.0
        """How late the timers of the current turn are; what a measured time may be wrong by."""
        self._poll = select.poll()
        self._descriptors: dict[int, Descriptor] = {}
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._running = True

    def now(self) -> float:
        return self.clock()

    def call_at(self, due: float, callback: Callback) -> Timer:
        timer = Timer(due, callback)
        heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    def call_later(self, delay_s: float, callback: Callback) -> Timer:
        return self.call_at(self.clock() + delay_s, callback)

    def every(self, interval_s: float, callback: Callback, first_in_s: float = 0.0) -> None:
        """On a fixed grid; turns that were missed altogether are skipped, never made up for."""

        def turn(due: float) -> None:
            following = due + interval_s
            now = self.clock()
            if following <= now:
                following += interval_s * int((now - following) / interval_s + 1)
            self.call_at(following, lambda: turn(following))
            callback()

        first = self.clock() + first_in_s
        self.call_at(first, lambda: turn(first))

    def on_readable(self, descriptor: Descriptor, callback: Callback | None) -> None:
        if callback is None:
            self._readers.pop(descriptor.fileno(), None)
        else:
            self._readers[descriptor.fileno()] = callback
        self._watch(descriptor)

    def on_writable(self, descriptor: Descriptor, callback: Callback | None) -> None:
        if callback is None:
            self._writers.pop(descriptor.fileno(), None)
        else:
            self._writers[descriptor.fileno()] = callback
        self._watch(descriptor)

    def forget(self, descriptor: Descriptor) -> None:
        """Before closing; safe when it was not watched."""
        number = descriptor.fileno()
        self._readers.pop(number, None)
        self._writers.pop(number, None)
        if self._descriptors.pop(number, None) is not None:
            self._poll.unregister(number)

    def run(self) -> None:
        while self._running:
            self.turn()

    def stop(self) -> None:
        self._running = False

    def close(self) -> None:
        """Close every descriptor that is still watched; nothing is called any more."""
        self.stop()
        self._timers.clear()
        for descriptor in list(self._descriptors.values()):
            self.forget(descriptor)
            descriptor.close()

    def turn(self) -> None:
        """Sleep until something is due, then serve sockets, then timers."""
        sleep = LONGEST_SLEEP_S
        if self._timers:
            sleep = min(sleep, max(0.0, self._timers[0][0] - self.clock()))
        # poll() counts in whole milliseconds: round up, or the last fraction would be spent spinning.
        ready = self._poll.poll(int(sleep * 1000) + (sleep > 0))
        now = self.clock()
        self.lateness_s = max(0.0, now - self._timers[0][0]) if self._timers else 0.0
        for number, events in ready:
            if events & ~select.POLLOUT and (callback := self._readers.get(number)):
                callback()
            if events & ~select.POLLIN and (callback := self._writers.get(number)):
                callback()
        while self._timers and self._timers[0][0] <= now:
            _, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()

    def _watch(self, descriptor: Descriptor) -> None:
        number = descriptor.fileno()
        mask = (select.POLLIN if number in self._readers else 0) | (select.POLLOUT if number in self._writers else 0)
        if mask:
            self._descriptors[number] = descriptor
            self._poll.register(number, mask)
        else:
            self.forget(descriptor)
