"""pyinfra, as a person runs it, on real instances: plans, creates, heals, rebuilds, and never more than that."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from anycastlab.incus import desired, instances, labs
from anycastlab.incus.exec import execute
from anycastlab.incus.rest import Rest
from anycastlab.incus.shell import client_command

from .conftest import LAB, Run, spec_of

Pyinfra = Callable[..., Run]

DEPLOY = """
from ipaddress import IPv4Address
from pyinfra import host
from pyinfra.operations import files, server
from anycastlab.incus.operations import instance
from anycastlab.incus.spec import InstanceSpec, Lab, Nic

number = int(host.name[-1])
lab = Lab("NAME")
nic = Nic("eth0", lab.bridge("dns"), IPv4Address(f"10.1.2.{10 + number}"), 24, IPv4Address("10.1.2.1"))
memory = int(host.data.get("memory") or 256)
spec = InstanceSpec(f"m{number}", (nic,), memory_mib=memory)
instance(name="Instance", spec=spec, image=host.data.get("image") or IMAGE, lab=lab,
         rebuild=host.data.get("rebuild") in (spec.name, "all"))
files.line(name="Line", path="/etc/motd", line="from anycastlab", present=True)
server.shell(name="Address", commands=[f"ip -4 addr show eth0 | grep -q 10.1.2.{10 + number}/24"], _if=lambda: True)
""".replace("NAME", LAB.name)


def run_again(pyinfra: Pyinfra, hosts: list[str], *options: str) -> Run:
    return pyinfra(hosts, DEPLOY, "-y", *options)


@pytest.fixture
def empty(rest: Rest) -> Rest:
    labs.clear_lab(rest, LAB)
    return rest


@pytest.fixture
def one(pyinfra: Pyinfra, rest: Rest) -> str:
    """m1, as the deploy makes it; made only when the test before left it otherwise."""
    actual = rest.find("/instances/m1")
    gateway = IPv4Address("10.1.2.1")
    spec = replace(spec_of("m1", 11), nics=(replace(spec_of("m1", 11).nics[0], gateway=gateway),))
    if actual is None or desired.plan(spec, LAB, actual).is_change:
        result = run_again(pyinfra, ["@incus/m1"])
        assert result.code == 0, result.text
    assert desired.plan(spec, LAB, rest.get("/instances/m1")) == desired.Plan("nothing")
    return "m1"


def test_a_dry_run_on_nothing_shows_all_and_creates_nothing(empty: Rest, pyinfra: Pyinfra) -> None:
    result = pyinfra(["@incus/m1"], DEPLOY, "--dry", "--diff")
    assert result.code == 0, result.text
    assert f"+ project {LAB.project}" in result.text
    assert f"+ bridge {LAB.bridge('dns')}" in result.text
    assert f"+ instance m1: project {LAB.project}" in result.text
    assert "+ limits.memory: 256MiB" in result.text
    assert re.search(r"Line +1 ", result.text), result.text  # what comes after the creation is planned as well
    assert labs.survey(empty, LAB) == labs.Inventory()


def test_six_hosts_at_once_make_one_project_and_one_bridge(empty: Rest, pyinfra: Pyinfra) -> None:
    hosts = [f"@incus/m{number}" for number in range(1, 7)]
    first = run_again(pyinfra, hosts)
    assert first.code == 0, first.text
    assert (first.count("Success"), first.count("Error")) == (18, 0)
    assert labs.survey(empty, LAB).networks == (LAB.bridge("dns"),)
    second = pyinfra(hosts, DEPLOY.replace("server.shell", "# "), "-y")
    assert (second.count("Success"), second.count("No Change")) == (0, 12), second.text


def test_bridges_have_no_address_of_the_host(one: str, rest: Rest) -> None:
    assert one
    config = rest.get(f"/networks/{LAB.bridge('dns')}")["config"]
    assert config["ipv4.address"] == config["ipv6.address"] == "none"
    assert config[desired.OWNER_KEY] == LAB.name
    assert rest.get(f"/networks/{LAB.bridge('dns')}/state")["addresses"] == []


def test_an_instance_is_unprivileged_and_the_kernel_lets_it_route(one: str, rest: Rest) -> None:
    result = execute(
        rest,
        one,
        ["sh", "-c", "sysctl -qw net.ipv4.ip_forward=1 && nft add table inet t && head -1 /proc/self/uid_map"],
    )
    assert result.ok, result.complaint
    assert int(result.text.split()[1]) > 0


@pytest.mark.parametrize("action", ["stop", "freeze"])
def test_an_instance_that_stands_still_is_set_going(one: str, rest: Rest, pyinfra: Pyinfra, action: str) -> None:
    rest.run("put", f"/instances/{one}/state", {"action": action, "force": True})
    plan = pyinfra(["@incus/m1"], DEPLOY, "--dry", "--diff")
    assert "→ running" in plan.text
    assert run_again(pyinfra, ["@incus/m1"]).code == 0
    assert rest.get(f"/instances/{one}")["status"] == "Running"


def test_drift_is_shown_and_healed_while_it_runs(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    boot = execute(rest, one, ["cat", "/proc/sys/kernel/random/boot_id"]).text
    started = execute(rest, one, ["stat", "-c", "%Y", "/proc/1"]).text
    plan = pyinfra(["@incus/m1"], DEPLOY, "--dry", "--diff", "--data", "memory=300")
    assert "~ limits.memory: 256MiB → 300MiB" in plan.text
    assert rest.get(f"/instances/{one}")["config"]["limits.memory"] == "256MiB"
    assert run_again(pyinfra, ["@incus/m1"], "--data", "memory=300").code == 0
    assert rest.get(f"/instances/{one}")["config"]["limits.memory"] == "300MiB"
    assert execute(rest, one, ["cat", "/proc/sys/kernel/random/boot_id"]).text == boot
    assert execute(rest, one, ["stat", "-c", "%Y", "/proc/1"]).text == started
    limit = execute(rest, one, ["cat", "/sys/fs/cgroup/memory.max"])
    assert not limit.ok or int(limit.text) == 300 * 2**20


def test_what_a_killed_run_left_is_made_anew(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    instances.delete(rest, one)
    spec = spec_of(one, 11)
    rest.run(
        "post",
        "/instances",
        {
            "name": one,
            "type": "container",
            "source": {"type": "image", "fingerprint": rest.in_project(None).get("/images")[0].rpartition("/")[2]},
            "config": desired.config_of(spec, LAB),
            "devices": desired.devices_of(spec, LAB),
            "profiles": [],
        },
    )
    result = run_again(pyinfra, ["@incus/m1"])
    assert result.code == 0, result.text
    assert desired.READY_KEY in rest.get(f"/instances/{one}")["config"]


def test_rebuild_makes_it_anew_and_its_plan_is_that_of_an_empty_machine(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    execute(rest, one, ["touch", "/root/old"])
    plan = pyinfra(["@incus/m1"], DEPLOY, "--dry", "--diff", "--data", "rebuild=m1")
    assert "Will delete and recreate the container" in plan.text
    assert re.search(r"Line +1 ", plan.text), plan.text
    assert execute(rest, one, ["test", "-e", "/root/old"]).ok
    assert run_again(pyinfra, ["@incus/m1"], "--data", "rebuild=m1").code == 0
    assert not execute(rest, one, ["test", "-e", "/root/old"]).ok


def test_an_instance_somebody_else_made_is_left_alone(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    rest.run("patch", f"/instances/{one}", {"config": {desired.OWNER_KEY: "somebody"}})
    try:
        result = run_again(pyinfra, ["@incus/m1"], "--data", "rebuild=m1")
        assert result.code == 1
        assert "was not made by this lab" in result.text
        assert "Traceback" not in result.text
        assert one in labs.survey(rest, LAB).foreign
    finally:
        rest.run("patch", f"/instances/{one}", {"config": {desired.OWNER_KEY: LAB.name}})


@pytest.mark.parametrize(
    ("options", "environment", "sentence"),
    [
        (("--data", "image=nothing-like-it"), {}, "has no image nothing-like-it"),
        ((), {"INCUS_SOCKET": "/nowhere/unix.socket"}, "No Incus daemon listens on this machine"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    empty: Rest, pyinfra: Pyinfra, options: tuple[str, ...], environment: dict[str, str], sentence: str
) -> None:
    result = pyinfra(["@incus/m1"], DEPLOY, "-y", *options, environment=environment)
    assert result.code == 1
    assert sentence in result.text
    assert "Traceback" not in result.text
    assert labs.survey(empty, LAB).instances == ()


def test_without_its_first_operation_the_machine_is_missed_while_executing(empty: Rest, pyinfra: Pyinfra) -> None:
    assert empty
    result = pyinfra(["@incus/m9"], "from pyinfra.operations import server\nserver.shell(commands=['true'])\n", "-y")
    assert result.code == 1
    assert re.search(r"(Instance|Project) not found", result.text), result.text
    assert "Traceback" not in result.text


ARGUMENTS = """
from io import StringIO, BytesIO
from pyinfra.operations import files, server
server.shell(name="stdin", commands=["test \\"$(cat)\\" = \\"two words\\""], _stdin="two words")
server.shell(name="env", commands=["test \\"$A\\" = \\"b c\\" && test $(pwd) = /tmp"], _env={"A": "b c"}, _chdir="/tmp")
server.shell(name="su", commands=["test $(id -un) = www-data"], _su_user="www-data", _su_shell="sh")
files.put(name="put", src=BytesIO(bytes(range(256))), dest="/root/bytes", mode="600", user="www-data")
files.put(name="su put", src=StringIO("x"), dest="/tmp/theirs", _su_user="www-data", _su_shell="sh")
server.shell(name="theirs", commands=["test $(stat -c %U /tmp/theirs) = www-data"])
server.shell(name="codes", commands=["exit 7"], _success_exit_codes=[7])
files.get(name="get", src="/root/bytes", dest="bytes.back")
"""


def test_pyinfras_arguments_are_honoured(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    result = pyinfra(["@incus/m1"], ARGUMENTS, "-y")
    assert result.code == 0, result.text
    assert execute(rest, one, ["stat", "-c", "%U %a", "/root/bytes"]).text.split() == ["www-data", "600"]
    assert execute(rest, one, ["find", "/root", "/tmp", "-name", ".*anycastlab*"]).stdout == b""


def test_an_upload_over_a_file_keeps_its_owner_mode_and_link(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    execute(
        rest,
        one,
        ["sh", "-c", "echo old >/root/kept; chown 5:6 /root/kept; chmod 4711 /root/kept; ln -sf kept /root/link"],
    )
    deploy = "from io import StringIO\nfrom pyinfra.operations import files\n"
    result = pyinfra(["@incus/m1"], deploy + "files.put(src=StringIO('new\\n'), dest='/root/link')\n", "-y")
    assert result.code == 0, result.text
    seen = execute(rest, one, ["sh", "-c", "stat -c '%u:%g %a' /root/kept; cat /root/kept; readlink /root/link"])
    assert seen.text.split() == ["5:6", "4711", "new", "kept"]


def test_a_timeout_fails_the_host_and_ends_the_command(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    deploy = "from pyinfra.operations import server\nserver.shell(commands=['sleep 5432'], _timeout=1)\n"
    result = pyinfra(["@incus/m1"], deploy, "-y")
    assert result.code == 1
    assert "Traceback" not in result.text
    assert execute(rest, one, ["pgrep", "-f", "sleep 5432"]).exit_code == 1


def test_a_changed_address_is_refused_with_the_way_out(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    moved = DEPLOY.replace("{10 + number}", "{90 + number}")
    assert "cannot be changed in place" in pyinfra(["@incus/m1"], moved, "--dry").text
    result = pyinfra(["@incus/m1"], moved, "-y")
    assert result.code == 1
    assert (
        "m1 cannot be changed in place (files of the first boot); rebuild it with `--data rebuild=m1`." in result.text
    )
    assert rest.get(f"/instances/{one}")["status"] == "Running"


@pytest.mark.parametrize(("script", "code"), [("cat; exit 3", 3), ("exit 0", 0)])
def test_shell_hands_over_input_output_and_exit_code(one: str, rest: Rest, script: str, code: int) -> None:
    argv = client_command(rest, one, ["sh", "-c", script])
    result = subprocess.run(argv, input=b"\x00\xffin", capture_output=True, timeout=30, check=False)
    assert (result.returncode, result.stdout) == (code, b"\x00\xffin" if code else b"")


ABSENT = """
from anycastlab.incus.operations import absent
from anycastlab.incus.spec import Lab
absent(name="Absent", instance="m1", lab=Lab("NAME"))
""".replace("NAME", LAB.name)


def test_absent_deletes_once(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    assert "Will delete the container m1" in pyinfra(["@local"], ABSENT, "--dry", "--diff").text
    assert rest.find(f"/instances/{one}") is not None
    assert pyinfra(["@local"], ABSENT, "-y").count("Success") == 1
    assert rest.find(f"/instances/{one}") is None
    assert pyinfra(["@local"], ABSENT, "-y").count("No Change") == 1


REMOVE = """
from anycastlab.incus.operations import remove_lab
from anycastlab.incus.spec import Lab
remove_lab(name="Remove", lab=Lab("NAME"))
""".replace("NAME", LAB.name)


def test_remove_lab_takes_all_that_is_ours_and_is_quiet_the_second_time(one: str, rest: Rest, pyinfra: Pyinfra) -> None:
    plan = pyinfra(["@local"], REMOVE, "--dry", "--diff")
    assert "- instance m1" in plan.text
    assert rest.get(f"/instances/{one}")["status"] == "Running"
    assert pyinfra(["@local"], REMOVE, "-y").code == 0
    assert labs.survey(rest, LAB) == labs.Inventory()
    assert pyinfra(["@local"], REMOVE, "-y").count("No Change") == 1
