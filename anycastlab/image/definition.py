"""What is in the base image. Pure data: equal definitions have equal aliases, so an image is built once.

Everything that changes the content belongs in `ImageDefinition`, because only its fields enter the hash. What is *not*
in it: the mirror (the packages are the same wherever they come from) and the compression.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from anycastlab.image.errors import ImageError

ALIAS_PREFIX: Final = "anycastlab-debian"
REMOTE_ALIAS_PREFIX: Final = "anycastlab-remote-"
HASH_LENGTH: Final = 12  # hexadecimal digits: 48 bits tell a few dozen definitions apart

CODENAMES: Final = {12: "bookworm", 13: "trixie"}
DEFAULT_RELEASE: Final = 13

DEBIAN_ARCHITECTURES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "armhf",
    "riscv64": "riscv64",
    "ppc64le": "ppc64el",
    "s390x": "s390x",
}
"""Incus' (and the kernel's) names to Debian's."""

PACKAGES: Final = (
    # A machine that boots and has a network. Without udev, networkd waits for ever for its links to be "initialized".
    "systemd",
    "systemd-sysv",
    "dbus",
    "udev",
    "iproute2",
    "procps",
    "iputils-ping",
    "ethtool",
    # What the roles of the lab run.
    "frr",
    "frr-pythontools",
    "bird2",  # the routing daemon of the lab's router
    "nftables",
    "conntrack",
    "unbound",
    "dns-root-data",  # unbound's trust anchor: without it Debian's own configuration does not start
    "dnsdist",
    "knot",
    "python3",
    "python3-dnspython",
    # An instance can stand for a board, which is reached over SSH as a user with sudo.
    "openssh-server",
    "sudo",
    "ca-certificates",
    "openssl",
)

DISABLED_UNITS: Final = (
    # Their packages start them at boot; here the deploy decides who runs what.
    "unbound.service",
    "unbound-resolvconf.service",
    "frr.service",
    "bird.service",
    "dnsdist.service",
    "knot.service",
    "ssh.service",
)

ENABLED_UNITS: Final = ("systemd-networkd.service",)

MASKED_UNITS: Final = (
    "systemd-modules-load.service",  # a container cannot load modules: it would only turn the state to "degraded"
    "systemd-logind.service",  # nobody logs in on a seat
    "getty@tty1.service",
    "console-getty.service",
    "container-getty@.service",
    # Housekeeping of long-lived machines. In a lab it would only wake up in the middle of a measurement.
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "fstrim.timer",
    "systemd-pstore.service",
    "systemd-tmpfiles-clean.timer",
)

UNWANTED_UNITS: Final = (
    # What images of other servers may bring to set up names and network by; here the deploy does.
    "systemd-resolved.service",
    "networking.service",
    "NetworkManager.service",
)

FILES: Final = (
    # The log lives in memory: a crash test leaves no growing journals behind and a node needs no disk for it.
    (
        "etc/systemd/journald.conf.d/50-anycastlab.conf",
        "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n",
    ),
    # Host keys are made at the first start of sshd, one set per machine, never in the image.
    (
        "etc/systemd/system/ssh.service.d/50-anycastlab.conf",
        "[Service]\nExecStartPre=\nExecStartPre=/usr/bin/ssh-keygen -A\nExecStartPre=/usr/sbin/sshd -t\n",
    ),
    # Only network devices need udev here. Replaying every device of the host costs 150 ms of each container's boot.
    (
        "etc/systemd/system/systemd-udev-trigger.service.d/50-anycastlab.conf",
        "[Service]\nExecStart=\nExecStart=-/usr/bin/udevadm trigger --type=devices --action=add "
        "--subsystem-match=net --prioritized-subsystem=net\n",
    ),
    # A link that never comes up must not hold back the boot for two minutes.
    (
        "etc/systemd/system/systemd-networkd-wait-online.service.d/50-anycastlab.conf",
        "[Service]\nExecStart=\nExecStart=/usr/lib/systemd/systemd-networkd-wait-online --timeout=10\n",
    ),
    ("etc/resolv.conf", "# Written by the deploy.\n"),
    # Empty, not missing: systemd then gives each machine its own and does not run its first-boot presets.
    ("etc/machine-id", ""),
)

TEMPLATES: Final = (
    # (file in the instance, name of the template, its text): rendered by Incus when an instance is created.
    ("/etc/hostname", "hostname.tpl", "{{ instance.name }}\n"),
    (
        "/etc/hosts",
        "hosts.tpl",
        "127.0.0.1\tlocalhost\n127.0.1.1\t{{ instance.name }}\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n",
    ),
)

LEFT_OUT_PATHS: Final = (
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
)
"""Never unpacked. Licence texts stay: see KEPT_PATHS."""

KEPT_PATHS: Final = ("/usr/share/doc/*/copyright", "/usr/share/locale/locale.alias")


@dataclass(frozen=True)
class ImageDefinition:
    """One base image. Its alias names release, architecture and a hash over everything below."""

    architecture: str
    """Incus' name: `x86_64`, `aarch64` …"""

    release: int = DEFAULT_RELEASE
    packages: tuple[str, ...] = PACKAGES
    enabled: tuple[str, ...] = ENABLED_UNITS
    disabled: tuple[str, ...] = DISABLED_UNITS
    masked: tuple[str, ...] = MASKED_UNITS
    files: tuple[tuple[str, str], ...] = FILES
    templates: tuple[tuple[str, str, str], ...] = TEMPLATES
    left_out: tuple[str, ...] = LEFT_OUT_PATHS
    kept: tuple[str, ...] = KEPT_PATHS
    layout: int = 1
    """Raised by hand when the build itself changes what comes out of the same data."""

    def __post_init__(self) -> None:
        if self.release not in CODENAMES:
            known = " and ".join(str(release) for release in CODENAMES)
            raise ImageError(f"The base image cannot be Debian {self.release}.", f"Releases it can be: {known}.")
        if self.architecture not in DEBIAN_ARCHITECTURES:
            raise ImageError(
                f"The base image cannot be built for the architecture {self.architecture!r}.",
                f"Architectures it can be built for: {', '.join(DEBIAN_ARCHITECTURES)}.",
            )

    @property
    def codename(self) -> str:
        return CODENAMES[self.release]

    @property
    def debian_architecture(self) -> str:
        return DEBIAN_ARCHITECTURES[self.architecture]

    @property
    def digest(self) -> str:
        """Hexadecimal, `HASH_LENGTH` digits; stable between processes, machines and Python versions."""
        return _digest(asdict(self))

    @property
    def alias(self) -> str:
        return f"{ALIAS_PREFIX}{self.release}-{self.architecture}-{self.digest}"

    @property
    def description(self) -> str:
        return f"anycastlab base image: Debian {self.release} ({self.codename}), {self.architecture}"


@dataclass(frozen=True)
class DerivedDefinition(ImageDefinition):
    """The base image made from an image of another server, by adding to it what the lab needs.

    The release is the source's own, found out when it is fetched. So alias and hash, which have to be known before,
    come from the source's name and everything else; an image that its server renewed meanwhile is not fetched again.
    """

    masked: tuple[str, ...] = MASKED_UNITS + UNWANTED_UNITS
    files: tuple[tuple[str, str], ...] = (*FILES, ("etc/cloud/cloud-init.disabled", ""))
    source: str = ""
    """`REMOTE:NAME`, such as `images:debian/13`."""

    @property
    def digest(self) -> str:
        """As of any image, whatever the release."""
        return _digest({key: value for key, value in asdict(self).items() if key != "release"})

    @property
    def alias(self) -> str:
        readable = "".join(character if character.isalnum() else "-" for character in self.source.lower())
        return f"{REMOTE_ALIAS_PREFIX}{readable}-{self.architecture}-{self.digest}"

    @property
    def description(self) -> str:
        return f"anycastlab base image: {self.source} and what the lab needs, {self.architecture}"


def _digest(fields: dict[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:HASH_LENGTH]


def is_own_alias(alias: str) -> bool:
    """Whether an alias has the shape of ours, whatever its release, architecture and hash."""
    release, _, rest = alias.removeprefix(ALIAS_PREFIX).partition("-")
    architecture, _, digest = rest.rpartition("-")
    return (
        alias.startswith(ALIAS_PREFIX)
        and release.isdigit()
        and architecture in DEBIAN_ARCHITECTURES
        and len(digest) == HASH_LENGTH
        and set(digest) <= set("0123456789abcdef")
    )
