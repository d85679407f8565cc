"""Netwatch as a pure state machine: which test is due, what a result changes, which script it asks for.

Time comes in as arguments: `now` is monotonic seconds, `wall` seconds since the epoch. `watcher.py` runs it.
A changed entry starts again from nothing (status unknown), as on the router. Entries present at the router's boot wait
`startup-delay`, entries that come or change later `start-delay`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from anycastlab.virtual_router.dataplane import timing
from anycastlab.virtual_router.dataplane.api import Row
from anycastlab.virtual_router.dataplane.rows import seconds, truth

MENU = "/tool/netwatch"
KINDS = ("simple", "icmp", "tcp-conn", "dns")
RUNTIME = frozenset({"status", "since", "done-tests", "failed-tests", "disabled", "comment", "name"})
"""Properties whose change does not restart an entry: what runs is the same."""


@dataclass(frozen=True)
class Entry:
    """One enabled netwatch row. Times in seconds."""

    id: str
    host: str
    kind: str = "simple"
    interval_s: float = timing.INTERVAL_S
    timeout_s: float = timing.TIMEOUT_S
    start_delay_s: float = timing.START_DELAY_S
    startup_delay_s: float = timing.STARTUP_DELAY_S
    dns_server: str = ""
    record_type: str = "A"
    port: int = 0
    src_address: str = ""
    packet_count: int = timing.ICMP_PACKET_COUNT
    packet_interval_s: float = timing.ICMP_PACKET_INTERVAL_S
    ignore_initial_up: bool = False
    ignore_initial_down: bool = False
    up_script: str = ""
    down_script: str = ""
    test_script: str = ""
    fingerprint: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Everything about the row that restarts the entry when it changes."""

    @classmethod
    def from_row(cls, row: Row, startup_delay_s: float | None = None) -> Entry:
        """Raises ValueError for a row that cannot be run."""
        kind = row.get("type") or "simple"
        if kind not in KINDS:
            raise ValueError(f"type={kind}")
        if not row.get("host"):
            raise ValueError("host is not set")
        return cls(
            id=row.get(".id", ""),
            host=row["host"],
            kind=kind,
            interval_s=max(timing.MIN_INTERVAL_S, seconds(row.get("interval"), timing.INTERVAL_S)),
            timeout_s=seconds(row.get("timeout"), timing.TIMEOUT_S),
            start_delay_s=seconds(row.get("start-delay"), timing.START_DELAY_S),
            startup_delay_s=seconds(row.get("startup-delay"), timing.STARTUP_DELAY_S)
            if startup_delay_s is None
            else startup_delay_s,
            dns_server=row.get("dns-server", ""),
            record_type=row.get("record-type") or "A",
            port=int(row.get("port") or (80 if kind == "tcp-conn" else 0)),
            src_address=row.get("src-address", ""),
            packet_count=int(row.get("packet-count") or timing.ICMP_PACKET_COUNT),
            packet_interval_s=seconds(row.get("packet-interval"), timing.ICMP_PACKET_INTERVAL_S),
            ignore_initial_up=truth(row, "ignore-initial-up"),
            ignore_initial_down=truth(row, "ignore-initial-down"),
            up_script=row.get("up-script", ""),
            down_script=row.get("down-script", ""),
            test_script=row.get("test-script", ""),
            fingerprint=tuple(sorted((k, v) for k, v in row.items() if k not in RUNTIME)),
        )


@dataclass
class Watch:
    """What is known about one entry."""

    entry: Entry
    next_at: float
    since: float
    status: str = "unknown"
    done: int = 0
    failed: int = 0
    testing: bool = False


@dataclass(frozen=True)
class Change:
    """A test's consequence: the new status and the scripts to run, in order."""

    entry: Entry
    before: str
    status: str
    scripts: tuple[str, ...]


class Netwatch:
    """All entries. `boot` ends with the first `update`."""

    def __init__(self) -> None:
        self.watches: dict[str, Watch] = {}
        self.booting = True

    def update(self, entries: Iterable[Entry], now: float, wall: float) -> None:
        """Takes over the configured entries: unchanged ones go on, changed ones start again, missing ones end."""
        kept: dict[str, Watch] = {}
        for entry in entries:
            known = self.watches.get(entry.id)
            if known is not None and known.entry.fingerprint == entry.fingerprint:
                kept[entry.id] = known
            else:
                delay = entry.startup_delay_s if self.booting else entry.start_delay_s
                kept[entry.id] = Watch(entry, now + delay, wall)
        self.watches = kept
        self.booting = False

    def next_at(self) -> float | None:
        """When the next test is due; None when nothing waits."""
        return min((w.next_at for w in self.watches.values() if not w.testing), default=None)

    def due(self, now: float) -> list[Entry]:
        """Entries to test now. Each counts as being tested until `finish`."""
        found = []
        for watch in self.watches.values():
            if not watch.testing and watch.next_at <= now:
                watch.testing = True
                # Counted from the start; a test that takes longer delays the next one and never runs beside it.
                watch.next_at = now + watch.entry.interval_s
                found.append(watch.entry)
        return found

    def finish(self, entry: Entry, up: bool, wall: float) -> Change | None:
        """Counts a test's result. None when nothing changed and there is nothing to run, or the entry is gone."""
        watch = self.watches.get(entry.id)
        if watch is None or watch.entry is not entry:
            return None
        watch.testing = False
        watch.done += 1
        watch.failed += not up
        before, status = watch.status, "up" if up else "down"
        scripts = [entry.test_script] if entry.test_script else []
        if status != before:
            watch.status, watch.since = status, wall
            initial = before == "unknown"
            if up and not (initial and entry.ignore_initial_up):
                scripts.append(entry.up_script)
            if not up and not (initial and entry.ignore_initial_down):
                scripts.append(entry.down_script)
        wanted = tuple(script for script in scripts if script)
        return Change(entry, before, status, wanted) if status != before or wanted else None

    def runtime(self, row: Row) -> dict[str, str]:
        """Status properties of one configured row."""
        watch = self.watches.get(row.get(".id", ""))
        if watch is None:
            return {"status": "unknown"}
        return {
            "status": watch.status,
            "since": datetime.fromtimestamp(watch.since, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            "done-tests": str(watch.done),
            "failed-tests": str(watch.failed),
        }

    def variables(self, entry: Entry) -> Mapping[str, str | int]:
        """What a script of this entry finds in `$status`, `$host` …"""
        watch = self.watches.get(entry.id)
        status = watch.status if watch else "unknown"
        counts = {"done-tests": watch.done, "failed-tests": watch.failed} if watch else {}
        return {"host": entry.host, "type": entry.kind, "status": status, "interval": str(entry.interval_s), **counts}


_NOT_EMULATED = (
    *("ttl", "thr-avg", "thr-jitter", "thr-max", "thr-stdev", "thr-tcp-conn-time"),
    *("early-failure-detection", "early-success-detection"),
)


def refuse(row: Row) -> str | None:
    """What of a netwatch row is not emulated."""
    if (kind := row.get("type") or "simple") not in KINDS:
        return f"type={kind}"
    for name in _NOT_EMULATED:
        if row.get(name) not in (None, "", "no", "false"):
            return f"{name}={row[name]}"
    return None
