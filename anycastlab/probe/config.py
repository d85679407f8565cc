"""What the probe is told: one JSON file, read and checked once.

The control side builds the same dataclasses and writes them with `to_json`; the node reads them with `from_json`.
Unknown keys, wrong types and numbers that cannot work are errors (`ConfigError`, one sentence each), so a misspelt
setting is never silently a default. Every duration is in seconds and on the monotonic clock.

The defaults keep these promises with room to spare (floor: 0.12 s from link down until the router's table has changed):

    hung resolver           0.3 wait + 3 x 0.3 checks + one look at the peers       1.2 s + 0.12
    `.lan` path lost        the same numbers                                        1.2 s + 0.12
    `.lan` path back        0.3 wait + 2 x 0.3 checks, hold-down 1 s runs meanwhile 0.9 s + session update
    slow answers            2 of 20 answers over the threshold, 3 times in a row    1.5 s
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LINK = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_DNS_NAME = re.compile(r"([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?")


class ConfigError(ValueError):
    """The configuration cannot be used; the message is one sentence that names the key and the fix."""


@dataclass(frozen=True)
class Question:
    """How often one question is asked and how many answers in a row change the mind about it."""

    interval_s: float
    timeout_s: float
    rise: int
    fall: int

    def check(self, where: str) -> None:
        _between(f"{where}.interval_s", self.interval_s, 0.05, 3600)
        # A check that outlives its interval would overlap the next one and hide how many failed.
        _between(f"{where}.timeout_s", self.timeout_s, 0.01, self.interval_s)
        _between(f"{where}.rise", self.rise, 1, 100)
        _between(f"{where}.fall", self.fall, 1, 100)


@dataclass(frozen=True)
class Questions:
    """The questions that are sent. How slow the answers are is judged from `resolver`'s, see `Latency`."""

    resolver: Question = Question(interval_s=0.3, timeout_s=0.3, rise=2, fall=3)
    local: Question = Question(interval_s=0.3, timeout_s=0.3, rise=2, fall=3)
    wan: Question = Question(interval_s=15.0, timeout_s=6.0, rise=1, fall=2)
    outside: Question = Question(interval_s=2.0, timeout_s=0.5, rise=1, fall=3)
    """Put to the peers: does my resolver answer you? The timeout holds theirs (`guard.ask_timeout_s`) and the way."""


@dataclass(frozen=True)
class Latency:
    """When a resolver that answers is too slow to be a good one: p95 of its last `window` answers."""

    window: int = 20
    threshold_s: float = 0.15
    clear_s: float = 0.075
    fall: int = 3
    rise: int = 3

    def check(self, where: str) -> None:
        _between(f"{where}.window", self.window, 5, 1000)
        _between(f"{where}.threshold_s", self.threshold_s, 0.001, 10)
        _between(f"{where}.clear_s", self.clear_s, 0.0005, self.threshold_s)
        _between(f"{where}.rise", self.rise, 1, 100)
        _between(f"{where}.fall", self.fall, 1, 100)


@dataclass(frozen=True)
class HoldDown:
    """A flapping node stays away longer each time: `base_s` x `factor` per change, at most `max_s`."""

    base_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0
    calm_s: float = 180.0
    """Seconds without a change after which the node is trusted as on its first day."""
    changes_per_minute: int = 6
    """Route changes of its own choice in any 60 s; safety changes (dead resolver, nobody else) are not held back."""

    def check(self, where: str) -> None:
        _between(f"{where}.base_s", self.base_s, 0, 3600)
        _between(f"{where}.factor", self.factor, 1, 10)
        _between(f"{where}.max_s", self.max_s, self.base_s, 86400)
        _between(f"{where}.calm_s", self.calm_s, self.max_s, 86400)
        _between(f"{where}.changes_per_minute", self.changes_per_minute, 2, 1000)


@dataclass(frozen=True)
class Guard:
    """How the peers are asked before leaving for a cause that they may share."""

    ask_timeout_s: float = 0.3
    retry_s: float = 0.5
    """Between two rounds of asking while ailing, and between two renewals of a promise."""
    promise_s: float = 3.0
    """How long a peer that said "I stay" is bound by it."""
    silence_s: float = 2.5
    """A resolver that gave no answer at all for this long is dead, whatever the peers say; slower answers are slow."""
    port: int = 9153
    """UDP port of the probes' own conversation, on the nodes' own addresses."""

    def check(self, where: str) -> None:
        _between(f"{where}.ask_timeout_s", self.ask_timeout_s, 0.02, 5)
        _between(f"{where}.retry_s", self.retry_s, self.ask_timeout_s, 60)
        _between(f"{where}.promise_s", self.promise_s, 2 * self.retry_s, 600)
        _between(f"{where}.silence_s", self.silence_s, 0.1, 60)
        _between(f"{where}.port", self.port, 1, 65535)


@dataclass(frozen=True)
class Effect:
    """How long FRR may take to do what the link says, and what happens when it does not."""

    poll_s: float = 0.1
    """Between two looks at FRR's table while a change is under way."""
    watch_s: float = 1.0
    """Between two looks while nothing changes."""
    answer_s: float = 0.25
    """How long a daemon may take to answer one look; longer is frozen."""
    gone_s: float = 0.5
    """Link down until the route must be gone; then the BGP neighbours are shut down."""
    shutdown_s: float = 0.5
    """Neighbours shut down until the route must be gone; then FRR is killed and started afresh."""
    present_s: float = 10.0
    """Link up until the route must be announced; then FRR is restarted."""
    restart_every_s: float = 60.0
    """At most one restart of FRR in this time."""

    def check(self, where: str) -> None:
        _between(f"{where}.poll_s", self.poll_s, 0.02, 10)
        _between(f"{where}.watch_s", self.watch_s, self.poll_s, 60)
        _between(f"{where}.answer_s", self.answer_s, 0.02, 10)
        _between(f"{where}.gone_s", self.gone_s, self.poll_s, 60)
        _between(f"{where}.shutdown_s", self.shutdown_s, self.poll_s, 60)
        _between(f"{where}.present_s", self.present_s, 1, 600)
        _between(f"{where}.restart_every_s", self.restart_every_s, self.present_s, 86400)


@dataclass(frozen=True)
class Peer:
    """Another node: its name is what its resolver says under the identity name."""

    name: str
    address: str


@dataclass(frozen=True)
class Frr:
    """Where FRR is and which sessions carry the service address."""

    asn: int
    neighbors: tuple[str, ...]
    directory: str = "/run/frr"
    enabled: bool = True
    """False only where something else announces the link; then effects are not checked."""


@dataclass(frozen=True)
class ProbeConfig:
    """Everything one node's probe needs."""

    node: str
    address: str
    service_addresses: tuple[str, ...]
    router_dns: str
    frr: Frr
    peers: tuple[Peer, ...] = ()
    link: str = "anycast0"
    interface: str = "eth0"
    """Where the peers are: what comes in their name from elsewhere is not heard."""
    key_path: str = "/etc/anycastlab/probe.key"
    """The key of the probes' own conversation, see `seal`."""
    resolver_port: int = 53
    identity_name: str = "id.anycast.lan"
    """TXT name that a node's resolver answers by itself with the node's name."""
    local_suffix: str = "probe.anycast.lan"
    """Random names below this one must come back from the router, as any answer or NXDOMAIN."""
    wan_suffix: str = "probe.anycast.example.com"
    """Random names below this one tell whether the provider's side works (reported, never a reason to leave)."""
    questions: Questions = field(default_factory=Questions)
    latency: Latency = field(default_factory=Latency)
    hold_down: HoldDown = field(default_factory=HoldDown)
    guard: Guard = field(default_factory=Guard)
    effect: Effect = field(default_factory=Effect)
    metrics_port: int = 9153
    state_path: str = "/run/anycastlab/probe.json"
    escalate_path: str = "/run/anycastlab/escalate"
    drain_path: str = "/var/lib/anycastlab/drained"
    """While this file exists the node stays out of service; it survives a reboot."""
    resolver_cgroup: str = ""
    """Where the resolver's processes are in the cgroup tree, so that their end is heard at once; empty: not watched."""
    stopping_path: str = "/run/anycastlab-resolver-stopping"
    """While this file exists the resolver is about to stop on purpose, however well it still answers. Root makes it, so
    it does not lie in the probe's own folder, where a symbolic link could lead root anywhere."""

    def __post_init__(self) -> None:
        _matches("node", self.node, _HOST, "a host name in lower case")
        for key in ("link", "interface"):
            _matches(key, getattr(self, key), _LINK, "an interface name")
        for key in ("identity_name", "local_suffix", "wan_suffix"):
            value = getattr(self, key)
            _matches(key, value, _DNS_NAME, "a DNS name in lower case without final dot")
            if len(value) > 200:
                raise ConfigError(f"{key} is {len(value)} characters long; names below it would not fit in 255")
        _address("address", self.address)
        _address("router_dns", self.router_dns)
        if not self.service_addresses:
            raise ConfigError("service_addresses is empty; name the anycast address")
        for address in self.service_addresses:
            _address("service_addresses", address)
        if self.address in self.service_addresses:
            raise ConfigError(f"address {self.address} is also a service address; the node needs one of its own")
        seen = {self.node: "node", self.address: "address"}
        for peer in self.peers:
            _matches("peers.name", peer.name, _HOST, "a host name in lower case")
            _address("peers.address", peer.address)
            for value in (peer.name, peer.address):
                if value in seen:
                    raise ConfigError(f"peers: {value} is already used by {seen[value]}; a node is no peer of itself")
                seen[value] = f"peer {peer.name}"
        _between("frr.asn", self.frr.asn, 1, 4294967294)
        if self.frr.enabled and not self.frr.neighbors:
            raise ConfigError("frr.neighbors is empty; name the router's address")
        for neighbor in self.frr.neighbors:
            _address("frr.neighbors", neighbor)
        for key in ("resolver_port", "metrics_port"):
            _between(key, getattr(self, key), 1, 65535)
        for name in ("resolver", "local", "wan", "outside"):
            getattr(self.questions, name).check(f"questions.{name}")
        for key in ("latency", "hold_down", "guard", "effect"):
            getattr(self, key).check(key)
        for key in ("key_path", "state_path", "escalate_path", "drain_path", "stopping_path"):
            if not getattr(self, key).startswith("/"):
                raise ConfigError(f"{key} {getattr(self, key)!r} is not an absolute path")
        if self.resolver_cgroup.startswith("/") or ".." in self.resolver_cgroup:
            raise ConfigError(f"resolver_cgroup {self.resolver_cgroup!r} is not a path within the cgroup tree")


def to_json(config: ProbeConfig) -> str:
    """The file's text: every key stated, sorted as declared, so that a diff shows what changed."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(text: str) -> ProbeConfig:
    """Parse and check; raises `ConfigError`."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else f"not JSON: {error}"
        raise ConfigError(f"probe configuration is {why}") from None
    config = _decode(ProbeConfig, raw, "")
    assert isinstance(config, ProbeConfig)
    return config


def _decode(kind: Any, raw: Any, where: str) -> Any:
    """`raw` (from JSON) as `kind`: a dataclass of ours, a tuple of such, or a plain value."""
    if dataclasses.is_dataclass(kind):
        return _decode_object(kind, raw, where)
    if typing.get_origin(kind) is tuple:
        if not isinstance(raw, list):
            raise ConfigError(f"{where} must be a list, not {raw!r}")
        return tuple(_decode(typing.get_args(kind)[0], item, where) for item in raw)
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if not isinstance(raw, kind) or (isinstance(raw, bool) and kind is not bool):
        raise ConfigError(f"{where} must be a {kind.__name__}, not {raw!r}")
    return raw


def _decode_object(kind: Any, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ConfigError(f"{where or 'probe configuration'} must be an object, not {raw!r}")
    hints = typing.get_type_hints(kind)
    prefix = f"{where}." if where else ""
    for key in raw:
        if key not in hints:
            raise ConfigError(f"{prefix}{key} is not a setting; known here: {', '.join(hints)}")
    for entry in dataclasses.fields(kind):
        required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if required and entry.name not in raw:
            raise ConfigError(f"{prefix}{entry.name} is missing")
    return kind(**{key: _decode(hints[key], value, prefix + key) for key, value in raw.items()})


def _between(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{key} is {value:g}; it must lie between {low:g} and {high:g}")


def _matches(key: str, value: str, pattern: re.Pattern[str], what: str) -> None:
    if not pattern.fullmatch(value):
        raise ConfigError(f"{key} {value!r} is not {what}")


def _address(key: str, value: str) -> None:
    try:
        ip_address(value)
    except ValueError:
        raise ConfigError(f"{key} {value!r} is not an IP address") from None
