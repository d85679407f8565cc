"""How often a node may change its announcement: longer waits for a flapping node, and a bound per minute. Pure.

What a person does (a drain, a stop of the resolver, a deploy) is not recorded, and pardons nothing either: a resolver
that crashes between two of those is held as if they had not been. Changes made for safety (the resolver is dead; nobody
else announces) are recorded but never refused. Each of them is the answer to one that was refusable, so any 60 s hold
at most `changes_per_minute` + 2 changes of the probe's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from anycastlab.probe.config import HoldDown

WINDOW_S = 60.0


class HoldDownClock:
    """Remembers changes. Times are monotonic seconds and survive a restart of the probe through `history`."""

    def __init__(self, config: HoldDown, history: Iterable[float] = (), level: int = 0) -> None:
        self._config = config
        self._changes = deque(sorted(history))
        self._level = level
        self._held_until = self._changes[-1] + self._hold_s() if self._changes and level else 0.0

    @property
    def history(self) -> tuple[float, ...]:
        return tuple(self._changes)

    @property
    def level(self) -> int:
        """Withdrawals in a row without a calm time between them."""
        return self._level

    def lowered(self, now: float) -> None:
        """The address was withdrawn (whoever did it): the way back is held."""
        if not self._changes or now - self._changes[-1] >= self._config.calm_s:
            self._level = 0
        self._level += 1
        self._changes.append(now)
        self._held_until = now + self._hold_s()

    def raised(self, now: float) -> None:
        self._changes.append(now)

    def raise_allowed_at(self, now: float) -> float:
        """Earliest time for going back of one's own choice (`now` or before: at once)."""
        return max(self._held_until, self.leave_allowed_at(now))

    def leave_allowed_at(self, now: float) -> float:
        """Earliest time for leaving of one's own choice, that is for a cause which does not stop all service."""
        while self._changes and now - self._changes[0] >= max(WINDOW_S, self._config.calm_s):
            self._changes.popleft()
        limit = self._config.changes_per_minute
        return self._changes[-limit] + WINDOW_S if len(self._changes) >= limit else now

    def _hold_s(self) -> float:
        # The exponent is capped: past a hundred steps only `max_s` counts, and floats must not overflow.
        return min(self._config.max_s, self._config.base_s * self._config.factor ** min(self._level - 1, 100))
