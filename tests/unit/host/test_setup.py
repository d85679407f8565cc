"""What set-up says and does on each kind of machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anycastlab.host import undo_record
from anycastlab.host.distribution import Distribution
from anycastlab.host.errors import HostError
from anycastlab.host.kernel_limits import too_low
from anycastlab.host.requirements import INCUS, TOOLS
from anycastlab.host.setup import Kind, SetupFacts, Step, apply, describe, must_ask, plan

EVERYTHING = frozenset(requirement.package for requirement in (*INCUS, *TOOLS))
DEBIAN_12 = Distribution("debian", "12", "bookworm", "Debian GNU/Linux 12 (bookworm)")
DEBIAN_13 = Distribution("debian", "13", "trixie", "Debian GNU/Linux 13 (trixie)")
UBUNTU_2404 = Distribution("ubuntu", "24.04", "noble", "Ubuntu 24.04.2 LTS")

FRESH_12 = SetupFacts(
    distribution=DEBIAN_12,
    missing=EVERYTHING - {"debian-archive-keyring"},
    incus_packages=(),
    mirror="http://mirror.example/debian",
    signed_by="/usr/share/keyrings/debian-archive-keyring.gpg",
    daemon_answers=False,
    pool_exists=False,
)
INSTALL = ("apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=300", "install", "--no-install-recommends")


def test_fresh_debian_12_in_the_words_a_person_reads() -> None:
    assert describe(plan(FRESH_12)) == (
        "To run the lab, anycastlab will change this machine:\n"
        "  1. add the package source bookworm-backports of this machine's own mirror in "
        "/etc/apt/sources.list.d/anycastlab-backports.sources\n"
        "     (take it back: rm /etc/apt/sources.list.d/anycastlab-backports.sources)\n"
        "  2. install the packages incus-base, incus-client, mmdebstrap, squashfs-tools, uidmap, dnsmasq-base, "
        "btrfs-progs, nftables (Incus from bookworm-backports)\n"
        "     (take it back: apt-get purge incus-base incus-client mmdebstrap squashfs-tools uidmap dnsmasq-base "
        "btrfs-progs nftables)\n"
        "  3. start the Incus daemon, now and at boot\n"
        "     (take it back: systemctl disable --now incus.socket incus.service)\n"
        "  4. create the Incus storage pool anycastlab (btrfs in a sparse file that may grow to 20 GiB; plain "
        "directories where the kernel has no btrfs)\n"
        "     (take it back: incus storage delete anycastlab)"
    )


def test_debian_12_takes_incus_alone_from_backports_of_its_own_mirror() -> None:
    sources, packages, *_ = plan(FRESH_12)

    assert sources.content == (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm-backports\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    assert packages.commands == (
        ("apt-get", "update", "-q"),
        (*INSTALL, "mmdebstrap", "squashfs-tools", "uidmap", "dnsmasq-base", "btrfs-progs", "nftables"),
        (*INSTALL, "-t", "bookworm-backports", "incus-base", "incus-client"),
    )


def test_a_mirror_without_signed_by_gets_none() -> None:
    sources = plan(replace(FRESH_12, signed_by=""))[0]

    assert "Signed-By" not in sources.content


def test_backports_that_are_configured_are_not_added_again() -> None:
    kinds = [step.kind for step in plan(replace(FRESH_12, backports_configured=True))]

    assert kinds == [Kind.PACKAGES, Kind.DAEMON, Kind.POOL]


def test_debian_12_without_a_debian_mirror_is_one_sentence() -> None:
    with pytest.raises(HostError, match="no Debian mirror is configured here"):
        plan(replace(FRESH_12, mirror=""))


@pytest.mark.parametrize("distribution", [DEBIAN_13, UBUNTU_2404])
def test_newer_systems_use_their_own_packages(distribution: Distribution) -> None:
    facts = replace(
        FRESH_12,
        distribution=distribution,
        missing=EVERYTHING,
        incus_packages=("incus-base", "incus-client"),
        mirror="",
    )

    steps = plan(facts)

    assert [step.kind for step in steps] == [Kind.PACKAGES, Kind.DAEMON, Kind.POOL]
    assert steps[0].commands[2] == (*INSTALL, "incus-base", "incus-client")
    assert "debian-archive-keyring" in steps[0].commands[1]


def test_where_incus_is_one_package_that_one_is_taken() -> None:
    facts = replace(FRESH_12, distribution=UBUNTU_2404, incus_packages=("incus",))

    assert plan(facts)[0].commands[-1] == (*INSTALL, "incus")


def test_lists_that_were_never_updated_say_nothing() -> None:
    steps = plan(replace(FRESH_12, distribution=DEBIAN_13, incus_packages=()))

    assert steps[0].commands[0] == ("apt-get", "update", "-q")
    assert steps[0].commands[-1] == (*INSTALL, "incus-base", "incus-client")


@pytest.mark.parametrize(
    "distribution",
    [
        Distribution("fedora", "42", "", "Fedora Linux 42"),
        Distribution("debian", "11", "bullseye", "Debian GNU/Linux 11 (bullseye)"),
        Distribution("ubuntu", "22.04", "jammy", "Ubuntu 22.04.5 LTS"),
    ],
)
def test_an_unknown_system_is_told_what_to_install_itself(distribution: Distribution) -> None:
    with pytest.raises(HostError) as error:
        plan(replace(FRESH_12, distribution=distribution, missing=frozenset({"mmdebstrap", "incus-client"})))

    assert str(error.value) == (
        f"Set-up knows the packages of Debian 12 and Ubuntu 24.04 or newer, and this machine runs {distribution.name}. "
        "Install the equivalents of incus-client, mmdebstrap yourself (Incus 6.0 or newer)."
    )


def test_an_unknown_system_that_has_everything_is_fine() -> None:
    assert plan(SetupFacts(distribution=Distribution("arch", name="Arch Linux"))) == []


def test_a_machine_that_is_set_up_has_nothing_to_do() -> None:
    assert plan(SetupFacts(distribution=DEBIAN_12)) == []
    assert describe([]) == "This machine is set up: nothing to do."


def test_low_kernel_limits_are_raised_now_and_for_the_next_boot() -> None:
    raised = (("fs.inotify.max_user_instances", 4096), ("kernel.keys.maxkeys", 4000))

    (step,) = plan(SetupFacts(distribution=DEBIAN_12, limits_to_raise=raised))

    assert step.what == (
        "raise the kernel's limits that all containers share: fs.inotify.max_user_instances to 4096, "
        "kernel.keys.maxkeys to 4000 (kept in /etc/sysctl.d/60-anycastlab-lab.conf)"
    )
    assert step.commands == (
        (
            "sh",
            "-e",
            "-c",
            "echo 4096 >/proc/sys/fs/inotify/max_user_instances; echo 4000 >/proc/sys/kernel/keys/maxkeys",
        ),
    )
    assert step.content.splitlines()[1:] == [
        "fs.inotify.max_user_instances = 4096",
        "kernel.keys.maxbytes = 400000",
        "kernel.keys.maxkeys = 4000",
    ]


@pytest.mark.parametrize(
    ("current", "raised"),
    [
        ({"fs.inotify.max_user_instances": 128}, {"fs.inotify.max_user_instances": 4096}),
        ({"fs.inotify.max_user_instances": 1048576, "kernel.keys.maxkeys": 4000}, {}),  # a higher value is kept
        ({}, {}),
    ],
)
def test_only_what_is_too_low_is_raised(current: dict[str, int], raised: dict[str, int]) -> None:
    assert too_low(current) == raised


def test_without_systemd_the_daemon_is_started_by_hand() -> None:
    (step,) = plan(SetupFacts(distribution=DEBIAN_12, systemd=False, daemon_answers=False))

    assert step.kind is Kind.DAEMON
    assert step.commands == ()
    assert step.undo == "incus admin shutdown"


def test_an_ordinary_user_is_added_to_the_group_once() -> None:
    facts = SetupFacts(distribution=DEBIAN_12, user="mia", root=False, in_admin_group=False)

    (step,) = plan(facts)

    assert step.commands == (("usermod", "-aG", "incus-admin", "mia"),)
    assert plan(replace(facts, in_admin_group=True)) == []


def test_a_daemon_that_may_not_be_asked_is_left_alone() -> None:
    facts = SetupFacts(
        distribution=DEBIAN_12, user="mia", root=False, daemon_reachable=False, daemon_answers=False, pool_exists=False
    )

    assert plan(facts) == []


@pytest.mark.parametrize(("free", "size"), [(100, 20), (30, 15), (3, 4)])
def test_the_pool_may_grow_to_half_of_what_is_free(free: int, size: int) -> None:
    (step,) = plan(SetupFacts(distribution=DEBIAN_12, pool_exists=False, disk_free_gib=free))

    assert step.size_gib == size
    assert f"grow to {size} GiB" in step.what


@pytest.mark.parametrize(
    ("yes", "terminal", "environment", "asks"),
    [
        (False, True, {}, True),
        (True, True, {}, False),
        (False, False, {}, False),
        (False, True, {"CI": "true"}, False),
        (False, True, {"CI": "1"}, False),
        (False, True, {"CI": ""}, True),
    ],
)
def test_only_people_on_a_terminal_are_asked(
    yes: bool, terminal: bool, environment: dict[str, str], asks: bool
) -> None:
    assert must_ask(yes=yes, terminal=terminal, environment=environment) is asks


def test_no_means_that_nothing_is_performed() -> None:
    performed: list[Step] = []
    said: list[str] = []

    with pytest.raises(HostError, match="Nothing was changed"):
        apply(plan(FRESH_12), perform=performed.append, note=performed.append, say=said.append, confirm=lambda: False)

    assert performed == []
    assert said[0].startswith("To run the lab, anycastlab will change this machine:")


def test_yes_performs_all_steps_in_order_after_saying_so() -> None:
    performed: list[Step] = []
    noted: list[Step] = []
    steps = plan(FRESH_12)

    def perform(step: Step) -> None:
        assert noted[-1] is step  # before it is done: what breaks off half-way is on record
        performed.append(step)

    apply(steps, perform=perform, note=noted.append, say=lambda _line: None, confirm=lambda: True)

    assert performed == steps


def test_how_to_take_set_up_back_stays_on_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    assert undo_record.lines() == [f"Set-up has changed nothing on this machine that {tmp_path}/setup.json knows of."]
    steps = plan(FRESH_12)
    for step in (*steps, steps[0]):
        undo_record.note(step)
    lines = undo_record.lines()
    assert [line.split("    # ")[0] for line in lines] == [step.undo for step in reversed(steps)]
    assert steps[0].what in lines[-1]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\x00", b"[" * 100_000], ids=lambda text: text[:3].hex())
def test_a_damaged_record_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path))
    (tmp_path / "setup.json").write_bytes(content)
    with pytest.raises(HostError, match=r"The record of set-up, .*setup\.json, cannot be read"):
        undo_record.lines()


def test_a_failing_step_stops_the_rest() -> None:
    performed: list[Kind] = []

    def perform(step: Step) -> None:
        performed.append(step.kind)
        if step.kind is Kind.PACKAGES:
            raise HostError("apt failed.")

    with pytest.raises(HostError, match="apt failed"):
        apply(plan(FRESH_12), perform=perform, note=lambda _step: None, say=lambda _line: None, confirm=None)

    assert performed == [Kind.FILE, Kind.PACKAGES]
