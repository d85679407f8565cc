"""What an instance should be, and how it differs from what it is. Pure: dictionaries as the Incus API has them.

Only what we manage is compared: our configuration keys, the root disk's pool, network interfaces and proxies. What else
somebody configured (an extra disk, a description) stays.

An instance is ours when `user.anycastlab` names our lab. It is finished when `user.anycastlab.ready` is there; that key
is written last, after the files of the first boot, and holds their hash. Without it, an instance is the leftover of a
run that was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from anycastlab.incus.spec import InstanceSpec, Lab, Nic

OWNER_KEY = "user.anycastlab"
READY_KEY = "user.anycastlab.ready"

_INTERFACE_NAME_MAX = 15  # IFNAMSIZ - 1
_ROOT = "root"

Devices = dict[str, dict[str, str]]
File = tuple[str, bytes, int]  # path, content, mode


@dataclass(frozen=True)
class Change:
    """One difference. `before` None: to be added; `after` None: to be removed. A live one needs no restart."""

    subject: str
    before: str | None
    after: str | None
    live: bool = True

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.subject}: {self.after}"
        if self.after is None:
            return f"- {self.subject}: {self.before}"
        return f"~ {self.subject}: {self.before} → {self.after}"


Step = Literal["create", "recreate", "rebuild", "update", "start", "resume", "nothing"]


@dataclass(frozen=True)
class Plan:
    """What has to be done to an instance, and why. `blocked` is the sentence that forbids it."""

    step: Step
    changes: tuple[Change, ...] = ()
    blocked: str = ""
    notice: str = ""
    start_too: bool = False  # after an update: it is not running

    @property
    def is_change(self) -> bool:
        return self.step != "nothing"


# The desired side ----------------------------------------------------------------------------------------------------


def host_interface(lab: Lab, instance: str, nic: str) -> str:
    """Name of the host's end of an instance's interface: `lab-node01-eth0`, or a short hash where that is too long."""
    readable = f"{lab.name}-{instance}-{nic}"
    if len(readable) <= _INTERFACE_NAME_MAX:
        return readable
    digest = hashlib.sha256(readable.encode()).hexdigest()
    return f"{lab.name}-{digest[: _INTERFACE_NAME_MAX - 1 - len(lab.name)]}"[:_INTERFACE_NAME_MAX]


def hardware_address(lab: Lab, instance: str, nic: str) -> str:
    """A MAC address that stays the same over rebuilds, so neighbours' ARP entries stay right. Incus' own prefix."""
    digest = hashlib.sha256(f"{lab.name}/{instance}/{nic}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x10, 0x66, 0x6A, *digest[:3]))


def config_of(spec: InstanceSpec, lab: Lab) -> dict[str, str]:
    """The configuration keys we manage, `READY_KEY` excepted."""
    return {
        "boot.autostart": "true",
        "limits.cpu": str(spec.cpus),
        "limits.memory": f"{spec.memory_mib}MiB",
        OWNER_KEY: lab.name,
        **dict(spec.config),
    }


def devices_of(spec: InstanceSpec, lab: Lab) -> Devices:
    """Root disk, interfaces and proxies."""
    devices: Devices = {_ROOT: {"type": "disk", "path": "/", "pool": lab.pool}}
    for nic in spec.nics:
        devices[nic.name] = {
            "type": "nic",
            "network": nic.network,
            "name": nic.name,
            "hwaddr": hardware_address(lab, spec.name, nic.name),
            "host_name": host_interface(lab, spec.name, nic.name),
        }
    for name, listen, connect in spec.proxies:
        devices[name] = {"type": "proxy", "listen": listen, "connect": connect}
    return devices


def first_boot_files(spec: InstanceSpec) -> tuple[File, ...]:
    """Files that must lie in the instance before it boots for the first time; `spec.files` override ours."""
    ours: list[File] = [
        ("/etc/hostname", f"{spec.name}\n".encode(), 0o644),
        ("/etc/hosts", _hosts(spec).encode(), 0o644),
    ]
    gateways = [nic.gateway for nic in spec.nics if nic.gateway is not None]
    if gateways:
        ours.append(("/etc/resolv.conf", f"nameserver {gateways[0]}\n".encode(), 0o644))
    ours += [(f"/etc/systemd/network/10-{nic.name}.network", _network(nic).encode(), 0o644) for nic in spec.nics]
    merged = {path: (path, content, mode) for path, content, mode in (*ours, *spec.files)}
    return tuple(merged[path] for path in sorted(merged))


def digest_of(files: Iterable[File]) -> str:
    """Identifies a set of files: any change of path, content or mode changes it."""
    total = hashlib.sha256()
    for path, content, mode in sorted(files):
        total.update(f"{path}\0{mode:o}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:16]


def _hosts(spec: InstanceSpec) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines.append(f"{spec.nics[0].address if spec.nics else '127.0.1.1'} {spec.name}")
    return "\n".join(lines) + "\n"


def _network(nic: Nic) -> str:
    lines = [
        "# Written before the first boot; static, so the machine is reachable without any server.",
        "[Match]",
        f"Name={nic.name}",
        "",
        "[Network]",
        f"Address={nic.address}/{nic.prefix_length}",
        "DHCP=no",
        "IPv6AcceptRA=no",
        "LLDP=no",
    ]
    if nic.gateway is not None:
        lines.append(f"Gateway={nic.gateway}")
    return "\n".join(lines) + "\n"


# The difference ------------------------------------------------------------------------------------------------------


def plan(
    spec: InstanceSpec,
    lab: Lab,
    actual: Mapping[str, Any] | None,
    *,
    rebuild: bool = False,
    fingerprint: str | None = None,
) -> Plan:
    """What makes `actual` (the API's description, None: not there) into `spec`.

    `fingerprint` is the image a new instance would get; an existing one from another image is only told about it.
    """
    if actual is None:
        return Plan("create", creation(spec, lab))
    config: Mapping[str, str] = actual.get("config") or {}
    if config.get(OWNER_KEY) != lab.name:
        return Plan(
            "nothing",
            blocked=f"The instance {spec.name} in project {lab.project} was not made by this lab; it is left alone. "
            f"Delete it (incus delete --project {lab.project} {spec.name}) or choose another name.",
        )
    if rebuild:
        return Plan("rebuild", creation(spec, lab))
    if READY_KEY not in config:
        return Plan("recreate", creation(spec, lab))
    notice = ""
    base = config.get("volatile.base_image")
    if fingerprint and base and base != fingerprint:
        notice = f"{spec.name} was built from an older image; `--data rebuild={spec.name}` moves it to the current one."
    changes = differences(spec, lab, config, actual.get("devices") or {})
    fixed = [change for change in changes if not change.live]
    if fixed and (move := _move(spec, actual)):
        return Plan(
            "nothing",
            changes,
            blocked=f"{spec.name} is on {move[0]} and belongs on {move[1]}; nodes move to another network when they "
            "are rebuilt, all of them with `--data rebuild=all`.",
        )
    if fixed:
        what = ", ".join(change.subject for change in fixed)
        return Plan(
            "nothing",
            changes,
            blocked=f"{spec.name} cannot be changed in place ({what}); rebuild it with `--data rebuild={spec.name}`.",
        )
    status = str(actual.get("status", ""))
    stopped = status in ("Stopped", "Error")
    if changes:
        return Plan("update", changes, notice=notice, start_too=stopped or status == "Frozen")
    if stopped:
        return Plan("start", (Change("state", status.lower(), "running"),), notice=notice)
    if status == "Frozen":
        return Plan("resume", (Change("state", "frozen", "running"),), notice=notice)
    return Plan("nothing", notice=notice)


def creation(spec: InstanceSpec, lab: Lab) -> tuple[Change, ...]:
    """A new instance, told property by property."""
    config = [Change(key, None, value) for key, value in sorted(config_of(spec, lab).items())]
    devices = [Change(name, None, _describe(device)) for name, device in devices_of(spec, lab).items()]
    files = [
        Change(path, None, f"{len(content)} bytes, mode {mode:04o}") for path, content, mode in first_boot_files(spec)
    ]
    return (*config, *devices, *files)


def differences(
    spec: InstanceSpec, lab: Lab, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]]
) -> tuple[Change, ...]:
    """Managed properties that are not as `spec` says."""
    changes = [
        Change(key, config.get(key), value)
        for key, value in sorted(config_of(spec, lab).items())
        if config.get(key) != value
    ]
    wanted = devices_of(spec, lab)
    for name, device in wanted.items():
        present = devices.get(name)
        if present is None or (dict(present) != device and not _same_root(name, present, device)):
            # Moving the root disk to another pool is a copy of the instance, nothing to do behind somebody's back.
            before = None if present is None else _describe(present)
            changes.append(Change(name, before, _describe(device), live=name != _ROOT))
    changes += [
        Change(name, _describe(present), None)
        for name, present in devices.items()
        if name not in wanted and present.get("type") in ("nic", "proxy")
    ]
    digest = digest_of(first_boot_files(spec))
    if config.get(READY_KEY) != digest:
        changes.append(Change("files of the first boot", config.get(READY_KEY), digest, live=False))
    return tuple(changes)


def updated(actual: Mapping[str, Any], spec: InstanceSpec, lab: Lab) -> dict[str, Any]:
    """The description to PUT so that `differences` becomes empty; everything foreign is carried over."""
    wanted = devices_of(spec, lab)
    kept = {
        name: dict(device)
        for name, device in (actual.get("devices") or {}).items()
        if name not in wanted and device.get("type") not in ("nic", "proxy")
    }
    root = (actual.get("devices") or {}).get(_ROOT)
    return {
        "architecture": actual["architecture"],
        "config": {**actual["config"], **config_of(spec, lab)},
        "devices": {**kept, **wanted, _ROOT: dict(root) if root else wanted[_ROOT]},
        "profiles": actual.get("profiles") or [],
        "ephemeral": actual.get("ephemeral", False),
        "description": actual.get("description", ""),
    }


def _move(spec: InstanceSpec, actual: Mapping[str, Any]) -> tuple[str, str] | None:
    """From which network to which the instance would have to go (another layout), if it would."""
    devices = actual.get("devices") or {}
    for nic in spec.nics:
        present = devices.get(nic.name, {}).get("network", nic.network)
        if present != nic.network:
            return present, nic.network
    return None


def _same_root(name: str, present: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    # A person may have given the root disk a size or limits; only where it lies is ours.
    return name == _ROOT and present.get("pool") == wanted["pool"] and present.get("path") == "/"


def _describe(device: Mapping[str, str]) -> str:
    kind = device.get("type", "")
    rest = [f"{key}={value}" for key, value in sorted(device.items()) if key not in ("type", "name")]
    return " ".join([kind, *rest])
