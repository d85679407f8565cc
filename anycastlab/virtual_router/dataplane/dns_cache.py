"""Answers of upstreams, kept for their time to live."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from anycastlab.virtual_router.dataplane import dns_wire as wire
from anycastlab.virtual_router.dataplane import timing


class Cache:
    """Answers by question, least recently used ones forgotten first."""

    def __init__(self, clock: Callable[[], float], size: int = timing.CACHE_ENTRIES) -> None:
        self._clock = clock
        self._size = size
        self._kept: OrderedDict[tuple[object, ...], tuple[wire.Answer, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, question: wire.Question) -> bytes | None:
        found = self._kept.get(question.key)
        if found is None:
            return None
        answer, since = found
        age = self._clock() - since
        if age >= answer.ttl:
            del self._kept[question.key]
            return None
        self._kept.move_to_end(question.key)
        return wire.reuse(answer, question, int(age))

    def put(self, question: wire.Question, answer: wire.Answer) -> None:
        if answer.ttl <= 0:
            return
        self._kept[question.key] = (answer, self._clock())
        self._kept.move_to_end(question.key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        self._kept.clear()

    def rows(self) -> list[dict[str, str]]:
        """As `/ip/dns/cache` shows it."""
        now = self._clock()
        return [
            {"name": str(key[0]), "type": str(key[1]), "ttl": f"{max(0, int(answer.ttl - now + since))}s"}
            for key, (answer, since) in list(self._kept.items())
        ]
