"""Each finding, word for word: these sentences are what a person has when something is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anycastlab.host.doctor import Severity, check, fatal
from anycastlab.host.facts import HostFacts

FINE = HostFacts()

SENTENCES = [
    (
        {"system": "Darwin"},
        "error: The embedded lab needs Linux, and this machine runs Darwin. "
        "Use a Linux machine or a virtual one, or name a remote Incus server in the inventory.",
    ),
    (
        {"kernel_missing": ("veth",)},
        "error: This kernel cannot do veth, which the lab's network is made of. "
        "Install the distribution's full kernel (not a `cloud` or container one) and reboot into it.",
    ),
    (
        {"kernel_missing": ("veth", "bridge", "nftables")},
        "error: This kernel cannot do veth, bridge and nftables, which the lab's network is made of. "
        "Install the distribution's full kernel (not a `cloud` or container one) and reboot into it.",
    ),
    ({"incus_installed": False, "socket": ""}, "error: Incus is not installed. Run `anycastlab setup`."),
    ({"socket": ""}, "error: The Incus daemon is not running: it has no socket here. Run `anycastlab setup`."),
    (
        {"incus_version": ""},
        "error: The Incus daemon does not answer on /var/lib/incus/unix.socket. "
        "Run `anycastlab setup`, which starts it, or look at /var/log/incus/incusd.log.",
    ),
    (
        {"root": False, "user": "mia", "in_admin_group": False, "socket_open": False},
        "error: mia is neither root nor in the group incus-admin, so Incus does not let them in. "
        "Run it with sudo, or `sudo usermod -aG incus-admin mia` and log in again.",
    ),
    (
        {"root": False, "user": "mia", "in_admin_group": True, "socket_open": False},
        "error: mia was added to the group incus-admin, but this session is older than that. "
        "Log in again, or run `newgrp incus-admin` first.",
    ),
    (
        {"incus_version": "0.7"},
        "error: Incus here is version 0.7, and the lab needs 6.0 or newer. "
        "Upgrade it, from your distribution's backports if need be.",
    ),
    ({"missing_programs": ("mmdebstrap",)}, "error: mmdebstrap is not installed. Run `anycastlab setup`."),
    (
        {"missing_programs": ("mmdebstrap", "nftables")},
        "error: mmdebstrap and nftables are not installed. Run `anycastlab setup`.",
    ),
    (
        {"subordinate_ids": False},
        "error: Root has no range of subordinate user ids, so Incus cannot start unprivileged containers. "
        "Run `usermod --add-subuids 1000000-1000999999 --add-subgids 1000000-1000999999 root` and restart Incus.",
    ),
    (
        {"disk_free_mib": 812},
        "error: /var/lib/incus has 812 MiB free, and the lab needs 3000 MiB. Free some space there.",
    ),
    (
        {"memory_available_mib": 500},
        "error: 500 MiB of memory are available, and the lab needs 1200 MiB. Stop something large.",
    ),
    (
        {"low_limits": (("fs.inotify.max_user_instances", 128), ("kernel.keys.maxkeys", 200))},
        "warning: All containers share the kernel's fs.inotify.max_user_instances = 128 and kernel.keys.maxkeys = 200: "
        "with about 15 machines, services fail to start. Run `anycastlab setup`, which raises it.",
    ),
    (
        {"forward_dropped": True, "docker": True},
        "error: Docker drops forwarded IPv4 packets, also those between the lab's machines on their own bridges. "
        "Let bridged packets pass by: `sysctl -w net.bridge.bridge-nf-call-iptables=0`, "
        "or accept them in the FORWARD chain.",
    ),
    (
        {"forward_dropped": True},
        "error: A firewall on this host drops forwarded IPv4 packets, also those between the lab's machines "
        "on their own bridges. Let bridged packets pass by: `sysctl -w net.bridge.bridge-nf-call-iptables=0`, "
        "or accept them in the FORWARD chain.",
    ),
    (
        {"taken_ports": ((18728, "nginx (process 812)"),)},
        "error: Port 18728 on 127.0.0.1, which leads to the lab's router, is in use by nginx (process 812). "
        "Stop that program, or give the lab another name with ANYCASTLAB_LAB.",
    ),
    (
        {"taken_ports": ((18729, ""),)},
        "error: Port 18729 on 127.0.0.1, which leads to the lab's router, is in use by another program. "
        "Stop that program, or give the lab another name with ANYCASTLAB_LAB.",
    ),
    (
        {"go": ""},
        "info: Go is not installed, so AdGuard Home can only come from its release archive. "
        'Where that is out of reach, install Go, name a local file, or set `resolver="unbound"`.',
    ),
]


def test_a_machine_that_has_everything_gets_no_finding() -> None:
    assert check(FINE) == []


@pytest.mark.parametrize(("changes", "sentence"), SENTENCES)
def test_each_fault_is_one_finding_with_this_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert [str(finding) for finding in check(replace(FINE, **changes))] == [sentence]


@pytest.mark.parametrize("version", ["6.0", "6.0.4", "6.21", "7.2", "10.0"])
def test_newer_versions_are_fine(version: str) -> None:
    assert check(replace(FINE, incus_version=version)) == []


def test_a_stranger_to_the_socket_is_not_told_that_the_daemon_is_old_or_dead() -> None:
    # The version cannot be asked for without access: only the cause is worth a sentence.
    findings = check(replace(FINE, root=False, user="mia", in_admin_group=False, socket_open=False, incus_version=""))

    assert len(findings) == 1
    assert "incus-admin" in findings[0].problem


def test_several_faults_come_in_the_order_to_deal_with_them() -> None:
    findings = check(replace(FINE, go="", disk_free_mib=1, kernel_missing=("veth",), incus_version="5.0"))

    assert [finding.problem.split()[0] for finding in findings] == ["This", "Incus", "/var/lib/incus", "Go"]


def test_information_alone_does_not_stop_a_run() -> None:
    assert not fatal(check(replace(FINE, go="")))
    assert fatal(check(replace(FINE, go="", disk_free_mib=1)))
    assert {finding.severity for finding in check(replace(FINE, go=""))} == {Severity.INFO}
