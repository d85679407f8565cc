"""What an instance should be, and every way in which it can differ."""

from __future__ import annotations

import copy
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.incus import desired
from anycastlab.incus.spec import InstanceSpec, Lab, Nic

LAB = Lab("lab")
SPEC = InstanceSpec(
    "node01",
    (Nic("eth0", "lab-dns", IPv4Address("10.1.2.11"), 24, IPv4Address("10.1.2.1")),),
    cpus=1,
    memory_mib=512,
    proxies=(("api", "tcp:127.0.0.1:18728", "tcp:127.0.0.1:8728"),),
    files=(("/etc/motd", b"hello\n", 0o644),),
)


def existing(spec: InstanceSpec = SPEC, lab: Lab = LAB, status: str = "Running") -> dict[str, Any]:
    """The API's description of an instance that is as `spec` says."""
    ready = desired.digest_of(desired.first_boot_files(spec))
    return {
        "name": spec.name,
        "architecture": "x86_64",
        "status": status,
        "profiles": [],
        "config": {
            **desired.config_of(spec, lab),
            desired.READY_KEY: ready,
            "volatile.base_image": "f" * 64,
            "volatile.uuid": "1",
        },
        "devices": desired.devices_of(spec, lab),
    }


def test_an_absent_instance_is_created_and_every_property_told() -> None:
    plan = desired.plan(SPEC, LAB, None)
    assert plan.step == "create"
    assert [str(change) for change in plan.changes] == [
        "+ boot.autostart: true",
        "+ limits.cpu: 1",
        "+ limits.memory: 512MiB",
        "+ user.anycastlab: lab",
        "+ root: disk path=/ pool=anycastlab",
        "+ eth0: nic host_name=lab-node01-eth0 hwaddr=10:66:6a:85:1a:40 network=lab-dns",
        "+ api: proxy connect=tcp:127.0.0.1:8728 listen=tcp:127.0.0.1:18728",
        "+ /etc/hostname: 7 bytes, mode 0644",
        "+ /etc/hosts: 78 bytes, mode 0644",
        "+ /etc/motd: 6 bytes, mode 0644",
        "+ /etc/resolv.conf: 20 bytes, mode 0644",
        "+ /etc/systemd/network/10-eth0.network: 188 bytes, mode 0644",
    ]


def test_an_instance_as_described_needs_nothing() -> None:
    assert desired.plan(SPEC, LAB, existing(), fingerprint="f" * 64) == desired.Plan("nothing")


@pytest.mark.parametrize(("status", "step"), [("Stopped", "start"), ("Frozen", "resume"), ("Error", "start")])
def test_an_instance_that_does_not_run_is_made_to(status: str, step: str) -> None:
    assert desired.plan(SPEC, LAB, existing(status=status)).step == step


def test_drift_of_a_stopped_instance_is_healed_and_it_is_started() -> None:
    actual = existing(status="Stopped")
    actual["config"]["limits.cpu"] = "4"
    plan = desired.plan(SPEC, LAB, actual)
    assert (plan.step, plan.start_too) == ("update", True)


@pytest.mark.parametrize("owner", [None, "other"])
@pytest.mark.parametrize("rebuild", [False, True])
def test_what_the_lab_did_not_make_is_never_touched(owner: str | None, rebuild: bool) -> None:
    actual = existing()
    del actual["config"][desired.OWNER_KEY]
    if owner:
        actual["config"][desired.OWNER_KEY] = owner
    plan = desired.plan(SPEC, LAB, actual, rebuild=rebuild)
    assert plan.step == "nothing"
    assert "was not made by this lab" in plan.blocked


def test_the_leftover_of_a_killed_run_is_made_anew() -> None:
    actual = existing(status="Stopped")
    del actual["config"][desired.READY_KEY]
    assert desired.plan(SPEC, LAB, actual).step == "recreate"


def test_rebuild_overrides_any_drift() -> None:
    assert desired.plan(replace(SPEC, memory_mib=64), LAB, existing(), rebuild=True).step == "rebuild"


def test_a_new_address_needs_a_rebuild_and_says_so() -> None:
    moved = replace(SPEC, nics=(replace(SPEC.nics[0], address=IPv4Address("10.1.2.99")),))
    plan = desired.plan(moved, LAB, existing())
    assert plan.step == "nothing"
    assert plan.blocked == (
        "node01 cannot be changed in place (files of the first boot); rebuild it with `--data rebuild=node01`."
    )


def test_a_move_to_another_network_says_that_all_nodes_are_to_be_rebuilt() -> None:
    nic = Nic("eth0", "lab-lan", IPv4Address("10.1.1.11"), 24, IPv4Address("10.1.1.1"))
    moved = replace(SPEC, nics=(nic,))
    plan = desired.plan(moved, LAB, existing())
    assert plan.step == "nothing"
    assert plan.blocked == (
        "node01 is on lab-dns and belongs on lab-lan; nodes move to another network when they are rebuilt, "
        "all of them with `--data rebuild=all`."
    )
    assert desired.plan(moved, LAB, existing(), rebuild=True).step == "rebuild"


def test_another_pool_for_the_root_disk_needs_a_rebuild() -> None:
    actual = existing()
    actual["devices"]["root"]["pool"] = "elsewhere"
    assert "root" in desired.plan(SPEC, LAB, actual).blocked


def test_a_size_somebody_gave_the_root_disk_stays() -> None:
    actual = existing()
    actual["devices"]["root"]["size"] = "5GiB"
    assert desired.plan(SPEC, LAB, actual).step == "nothing"
    assert desired.updated(actual, SPEC, LAB)["devices"]["root"]["size"] == "5GiB"


def test_an_older_image_is_told_and_changes_nothing() -> None:
    plan = desired.plan(SPEC, LAB, existing(), fingerprint="e" * 64)
    assert plan.step == "nothing"
    assert "--data rebuild=node01" in plan.notice


def test_live_drift_is_shown_property_by_property() -> None:
    actual = existing()
    actual["config"]["limits.memory"] = "64MiB"
    del actual["devices"]["api"]
    actual["devices"]["stray"] = {"type": "proxy", "listen": "tcp:127.0.0.1:1", "connect": "tcp:127.0.0.1:2"}
    plan = desired.plan(SPEC, LAB, actual)
    assert [str(change) for change in plan.changes] == [
        "~ limits.memory: 64MiB → 512MiB",
        "+ api: proxy connect=tcp:127.0.0.1:8728 listen=tcp:127.0.0.1:18728",
        "- stray: proxy connect=tcp:127.0.0.1:2 listen=tcp:127.0.0.1:1",
    ]


live_drift = st.fixed_dictionaries(
    {},
    optional={
        "limits.cpu": st.sampled_from(["", "2", "0-3"]),
        "limits.memory": st.sampled_from(["1MiB", "50%"]),
        "boot.autostart": st.just("false"),
        "user.note": st.text(max_size=5),
    },
)
devices = st.dictionaries(
    st.sampled_from(["eth0", "eth9", "api", "gpu0", "data"]),
    st.one_of(
        st.just({"type": "nic", "network": "else", "name": "eth0"}),
        st.just({"type": "proxy", "listen": "tcp:127.0.0.1:9", "connect": "tcp:127.0.0.1:8"}),
        st.just({"type": "disk", "path": "/srv", "source": "/srv"}),
    ),
)


@given(config=live_drift, extra=devices)
def test_an_update_heals_all_live_drift_and_keeps_what_is_foreign(
    config: dict[str, str], extra: dict[str, dict[str, str]]
) -> None:
    actual = existing()
    actual["config"].update(config)
    actual["devices"].update(copy.deepcopy(extra))
    healed = desired.updated(actual, SPEC, LAB)
    assert desired.differences(SPEC, LAB, healed["config"], healed["devices"]) == ()
    assert healed["config"]["volatile.uuid"] == "1"
    assert healed["config"].get("user.note") == config.get("user.note")
    for name, device in extra.items():
        if device["type"] == "disk" and name not in ("eth0", "api"):
            assert healed["devices"][name] == device


names = st.from_regex(r"\A[a-z][a-z0-9-]{0,20}[a-z0-9]\Z")
labs = st.from_regex(r"\A[a-z][a-z0-9]{0,7}\Z").map(Lab)


@given(lab=labs, name=names, nic=st.sampled_from(["eth0", "eth1", "wan", "lan"]))
def test_interface_names_fit_linux_and_addresses_are_unicast(lab: Lab, name: str, nic: str) -> None:
    interface = desired.host_interface(lab, name, nic)
    assert len(interface) <= 15
    assert interface.startswith(f"{lab.name}-")
    first = int(desired.hardware_address(lab, name, nic).split(":")[0], 16)
    assert first & 1 == 0


def test_interfaces_of_a_large_lab_are_all_different() -> None:
    machines = [f"node{n:02}" for n in range(1, 65)] + [f"client{n:02}" for n in range(1, 65)] + ["router", "upstream"]
    ends = [(machine, nic) for machine in machines for nic in ("eth0", "wan", "lan", "dns")]
    assert len({desired.host_interface(Lab("lifetime"), *end) for end in ends}) == len(ends)
    assert len({desired.hardware_address(LAB, *end) for end in ends}) == len(ends)


def test_a_given_file_replaces_ours() -> None:
    spec = replace(SPEC, files=(("/etc/resolv.conf", b"nameserver 10.1.9.53\n", 0o600),))
    found = {path: (content, mode) for path, content, mode in desired.first_boot_files(spec)}
    assert found["/etc/resolv.conf"] == (b"nameserver 10.1.9.53\n", 0o600)


def test_the_network_file_is_static_and_ignores_router_advertisements() -> None:
    files = {path: content.decode() for path, content, _ in desired.first_boot_files(SPEC)}
    network = files["/etc/systemd/network/10-eth0.network"].splitlines()
    for line in ("Name=eth0", "Address=10.1.2.11/24", "Gateway=10.1.2.1", "DHCP=no", "IPv6AcceptRA=no"):
        assert line in network


@given(st.integers(0, 2), st.data())
def test_any_change_of_the_first_files_changes_their_digest(which: int, data: st.DataObject) -> None:
    files = desired.first_boot_files(SPEC)
    index = data.draw(st.integers(0, len(files) - 1))
    path, content, mode = files[index]
    other = [(path + "x", content, mode), (path, content + b"x", mode), (path, content, mode ^ 1)][which]
    changed = [*files[:index], other, *files[index + 1 :]]
    assert desired.digest_of(changed) != desired.digest_of(files)
    assert desired.digest_of(reversed(files)) == desired.digest_of(files)
