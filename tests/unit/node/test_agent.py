"""The program on the node: the order of its steps, and what is left when one of them fails.

It works in a folder instead of `/`, and a `Machine` answers for the node's commands.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from anycastlab.node import agent, apply, layout, plan
from anycastlab.node.agent import Agent, StepFailed, ask_txt
from anycastlab.node.managed import ManagedFile
from tests.unit.node.homes import home

SITE = home()
FRR = ManagedFile(layout.FRR_CONFIG, b"new\n", check=("vtysh", "-C", "-f", "{path}"), effects=("frr-reload",))
UNIT = layout.RESOLVER_UNITS["unbound"]
UNBOUND = ManagedFile(layout.UNBOUND_CONFIG, b"new\n", check=("unbound-checkconf", "{path}"), restarts=(UNIT,))


@dataclass
class Machine:
    """A node that does what it is told, unless told to fail; `log` has every command that changes or checks."""

    link_up: bool = True
    announced: bool = True
    route_stays: bool = False
    comes_back: bool = True
    fails: dict[str, str] = field(default_factory=dict)  # first words of a command -> what it complains
    log: list[str] = field(default_factory=list)
    on: Callable[[str], None] = lambda _: None

    def run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        line = " ".join(argv)
        if argv[:3] == ["ip", "-o", "link"]:
            return self._answer("4: anycast0: <UP>" if self.link_up else "")
        if argv[0] == "vtysh" and "show ip route" in line:
            present = self.link_up or self.route_stays
            return self._answer(json.dumps({"10.1.9.53/32": [{"protocol": "connected"}]} if present else {}))
        if argv[0] == "vtysh" and "advertised-routes" in line:
            routes = {"10.1.9.53/32": {}} if self.link_up and self.announced else {}
            return self._answer(json.dumps({"advertisedRoutes": routes}))
        self.log.append(line)
        self.on(line)
        for start, complaint in self.fails.items():
            if line.startswith(start):
                return subprocess.CompletedProcess(argv, 1, "", complaint)
        if argv[:3] == ["ip", "link", "set"]:
            self.link_up = False
        return self._answer("")

    @staticmethod
    def _answer(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, text, "")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in (layout.FRR_CONFIG, layout.UNBOUND_CONFIG):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True)
        file.write_text("old\n")
    return tmp_path


def carry_out(root: Path, machine: Machine, todo: plan.Plan, **changes: Any) -> None:
    order = {**apply.order(SITE, SITE.node("node02"), todo), **changes}
    order["limits"] = dict.fromkeys(order["limits"], 0.05) | {"poll_s": 0.001, "command_s": 5}
    order["resolver"]["wait"] = False
    worker = Agent(order, root=str(root))
    worker._run = machine.run  # type: ignore[method-assign]
    resume = worker._resume

    def resume_and_raise() -> None:
        resume()
        machine.log.append("resumed")
        machine.link_up = machine.comes_back

    worker._resume = resume_and_raise  # type: ignore[method-assign]
    worker.run()


def content(root: Path, path: str) -> str:
    return (root / path.lstrip("/")).read_text()


def leftovers(root: Path) -> list[Path]:
    return list(root.rglob(f"*{agent.FRESH}"))


RESTART = plan.Plan(files=(UNBOUND,), restart=(UNIT,), stamps={UNIT: "d"}, write_stamps=True, reasons=("x",))


def test_a_serving_node_is_withdrawn_before_anything_is_restarted(root: Path) -> None:
    machine = Machine()
    carry_out(root, machine, RESTART)
    check, lower, restart, resumed = machine.log
    assert check.startswith("unbound-checkconf ")
    assert lower == "ip link set dev anycast0 down"
    assert restart == f"systemctl restart {UNIT}"
    assert resumed == "resumed"
    assert content(root, layout.UNBOUND_CONFIG) == "new\n"
    assert json.loads(content(root, layout.APPLIED)) == {UNIT: "d"}
    assert not (root / layout.DRAINED.lstrip("/")).exists()


def test_the_drain_flag_stands_while_the_resolver_restarts(root: Path) -> None:
    """Else the probe would raise the link of a resolver that is about to stop."""
    seen: dict[str, bool] = {}
    flag = root / layout.DRAINED.lstrip("/")
    machine = Machine(on=lambda line: seen.setdefault(line.split()[0] + line.split()[1], flag.exists()))
    carry_out(root, machine, RESTART)
    assert seen["systemctlrestart"]


def test_a_reload_interrupts_nobody(root: Path) -> None:
    machine = Machine()
    carry_out(root, machine, plan.Plan(files=(FRR,), effects=("frr-reload",), reasons=("x",)))
    assert [line.split()[0] for line in machine.log] == ["vtysh", layout.FRR_RELOAD]
    assert machine.link_up


def test_what_frr_reload_logs_is_not_for_everybody(root: Path) -> None:
    log = root / agent.FRR_RELOAD_LOG.lstrip("/")
    log.parent.mkdir(parents=True)
    log.write_text("neighbor 10.1.2.1 password k3y\n")
    log.chmod(0o644)
    carry_out(root, Machine(), plan.Plan(files=(FRR,), effects=("frr-reload",), reasons=("x",)))
    assert log.stat().st_mode & 0o777 == 0o640
    assert log.read_text() == "neighbor 10.1.2.1 password k3y\n"


def test_a_node_that_serves_nobody_is_not_withdrawn(root: Path) -> None:
    machine = Machine(link_up=False)
    carry_out(root, machine, RESTART)
    assert not [line for line in machine.log if line.startswith("ip link set")]


def test_a_refused_file_changes_nothing(root: Path) -> None:
    machine = Machine(fails={"unbound-checkconf": "/etc/unbound/unbound.conf:3: error: syntax error"})
    with pytest.raises(StepFailed) as caught:
        carry_out(root, machine, plan.Plan(files=(FRR, UNBOUND), restart=(UNIT,), reasons=("x",)))
    assert str(caught.value) == (
        "node02: unbound-checkconf refuses the new /etc/unbound/unbound.conf, the old one stays: "
        "/etc/unbound/unbound.conf:3: error: syntax error."
    )
    assert content(root, layout.UNBOUND_CONFIG) == content(root, layout.FRR_CONFIG) == "old\n"
    assert machine.link_up
    assert leftovers(root) == []


def test_a_route_that_stays_stops_everything(root: Path) -> None:
    """A hung zebra: clients still come, so the resolver must not be stopped."""
    machine = Machine(route_stays=True)
    with pytest.raises(
        StepFailed, match="FRR keeps the service address although its link is down; nothing was restarted"
    ):
        carry_out(root, machine, RESTART)
    assert not [line for line in machine.log if line.startswith("systemctl")]
    assert content(root, layout.UNBOUND_CONFIG) == "old\n"
    assert leftovers(root) == []


def test_a_node_that_does_not_return_is_a_failure(root: Path) -> None:
    with pytest.raises(StepFailed, match="node02 answers, but its health probe does not announce it"):
        carry_out(root, Machine(comes_back=False), RESTART)


def test_a_route_that_is_not_announced_again_is_a_failure(root: Path) -> None:
    machine = Machine()
    machine.on = lambda line: setattr(machine, "announced", machine.announced and not line.startswith("systemctl"))
    with pytest.raises(StepFailed, match="node02 answers, but FRR does not announce it"):
        carry_out(root, machine, RESTART)


def test_a_node_that_the_router_must_be_changed_for_is_not_waited_for(root: Path) -> None:
    machine = Machine()
    machine.on = lambda line: setattr(machine, "announced", machine.announced and not line.startswith("systemctl"))
    carry_out(root, machine, RESTART, waits=False)
    assert "resumed" in machine.log


def test_where_no_router_listened_before_none_is_waited_for(root: Path) -> None:
    carry_out(root, Machine(announced=False), RESTART)


def test_a_rebuilt_node_must_be_announced(root: Path) -> None:
    with pytest.raises(StepFailed, match="does not announce it"):
        carry_out(root, Machine(link_up=False), RESTART, must_serve=True)


def test_a_persons_drain_is_kept(root: Path) -> None:
    flag = root / layout.DRAINED.lstrip("/")
    flag.parent.mkdir(parents=True)
    flag.write_text("for the weekend\n")
    carry_out(root, Machine(link_up=False), plan.Plan(resume=True, reasons=("x",)))
    assert flag.read_text() == "for the weekend\n"


def test_a_failed_restart_leaves_no_stamp_so_the_next_run_repeats_it(root: Path) -> None:
    machine = Machine(fails={"systemctl restart": "Job for unbound.service failed"})
    with pytest.raises(StepFailed, match="a service does not start: Job for unbound"):
        carry_out(root, machine, RESTART)
    assert not (root / layout.APPLIED.lstrip("/")).exists()
    # and the flag stays: the next run resumes
    assert content(root, layout.DRAINED).strip() == layout.DRAINED_BY_DEPLOY


def test_adguard_home_is_stopped_checked_on_a_copy_and_started(root: Path) -> None:
    file = ManagedFile(layout.ADGUARD_CONFIG, b"schema_version: 34\n", mode=0o600, secret=True)
    machine = Machine()
    unit = layout.RESOLVER_UNITS["adguardhome"]
    order = {**apply.order(SITE, SITE.node("node01"), plan.Plan(adguard=file, restart=(unit,), reasons=("x",)))}
    order["resolver"]["wait"] = False
    order["limits"] |= {"withdrawn_s": 0.0, "link_up_s": 0.01, "poll_s": 0.001}
    worker = Agent(order, root=str(root))
    worker._run = machine.run  # type: ignore[method-assign]
    with pytest.raises(StepFailed, match="probe does not announce"):
        worker.run()  # nothing raises the link here; everything before that is what is looked at
    words = [line.split() for line in machine.log]
    assert "--check-config" in words[0]
    assert layout.ADGUARD_CONFIG not in words[0]
    assert words[1][:3] == ["ip", "link", "set"]
    assert words[2:5] == [
        ["systemctl", "-q", "is-active", unit],
        ["systemctl", "stop", unit],
        ["systemctl", "restart", unit],
    ]
    assert (root / layout.ADGUARD_CONFIG.lstrip("/")).stat().st_mode & 0o777 == 0o600


def rehearse(root: Path, machine: Machine, todo: plan.Plan) -> None:
    order = apply.order(SITE, SITE.node("node02"), todo)
    worker = Agent(order, root=str(root))
    worker._run = machine.run  # type: ignore[method-assign]
    worker.rehearse()


def test_a_rehearsal_has_every_file_checked_and_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.shutil, "which", lambda name: None if name == "nft" else f"/usr/bin/{name}")
    missing = ManagedFile("/etc/x.nft", b"", check=("nft", "-c", "-f", "{path}"))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    machine = Machine()
    rehearse(root, machine, plan.Plan(files=(FRR, UNBOUND, missing), restart=(UNIT,), reasons=("x",)))
    # a checker that the present machine does not have is no reason to refuse
    assert [line.split()[0] for line in machine.log] == ["vtysh", "unbound-checkconf"]
    assert machine.link_up
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    refusing = Machine(fails={"unbound-checkconf": "syntax error"})
    with pytest.raises(StepFailed, match="unbound-checkconf refuses the new "):
        rehearse(root, refusing, plan.Plan(files=(FRR, UNBOUND), restart=(UNIT,), reasons=("x",)))


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ('1 [info] starting version="x"\n2 [error] failed err="line 4: \\"99s\\" is bad"\n', 'line 4: "99s" is bad'),
        ("there is no such thing\n\n", "there is no such thing"),
        ("", ""),
    ],
)  # fmt: skip
def test_of_all_that_adguard_home_prints_its_error_is_told(output: str, said: str) -> None:
    assert agent.complaint(output) == said


def test_a_program_that_arrived_damaged_is_refused(root: Path) -> None:
    staged = root / apply.STAGED_PROGRAM.lstrip("/")
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"half")
    todo = plan.Plan(program=plan.Program("v1", "f" * 64), restart=(UNIT,), reasons=("x",))
    with pytest.raises(StepFailed, match="AdGuard Home arrived damaged"):
        carry_out(root, Machine(), todo)


def test_the_program_that_is_sent_runs_alone(tmp_path: Path) -> None:
    """Under `python3 -I -`, without our package: it gets as far as the first command, which is not there."""
    todo = plan.Plan(effects=("sysusers",), reasons=("x",))
    text = apply.program(SITE, SITE.node("node02"), todo)
    done = subprocess.run(
        ["python3", "-I", "-"], input=text, capture_output=True, text=True, env={"PATH": str(tmp_path)},
        executable="/usr/bin/python3", check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "node02: system users could not be made: there is no systemd-sysusers.\n"


def test_no_secret_is_in_the_order_of_commands() -> None:
    secret = ManagedFile("/etc/x", b"very secret", secret=True)
    text = apply.program(SITE, SITE.node("node02"), plan.Plan(files=(secret,), reasons=("x",)))
    assert "very secret" not in text
    assert base64.b64encode(b"very secret").decode() not in text


@pytest.fixture
def server() -> Iterator[tuple[Callable[[dns.message.Message], bytes], int, list[Any]]]:
    """A name server on a free port whose `handle` a test sets."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    handlers: list[Any] = []

    def serve() -> None:
        while True:
            try:
                data, peer = sock.recvfrom(4096)
            except OSError:
                return
            if data == b"end":
                return
            sock.sendto(handlers[-1](dns.message.from_wire(data)), peer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield handlers.append, sock.getsockname()[1], handlers  # type: ignore[misc]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"end", sock.getsockname())
    thread.join()
    sock.close()


def test_a_txt_answer_is_read(server: Any) -> None:
    handle, port, _ = server

    def answer(query: dns.message.Message) -> bytes:
        reply = dns.message.make_response(query)
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 10, "IN", "TXT", '"node01"'))
        return reply.to_wire()

    handle(answer)
    assert ask_txt("127.0.0.1", port, "id.anycast.lan", 2) == "node01"


@pytest.mark.parametrize("case", ["servfail", "empty", "other kind", "other id", "garbage"])
def test_what_is_no_answer(server: Any, case: str) -> None:
    handle, port, _ = server

    def answer(query: dns.message.Message) -> bytes:
        reply = dns.message.make_response(query)
        if case == "servfail":
            reply.set_rcode(dns.rcode.SERVFAIL)
        if case == "other kind":
            reply.answer.append(dns.rrset.from_text(query.question[0].name, 10, "IN", "A", "192.0.2.1"))
        if case == "other id":
            reply.answer.append(dns.rrset.from_text(query.question[0].name, 10, "IN", "TXT", '"node01"'))
            reply.id = (query.id + 1) % 65536
        return b"\x00" * 20 if case == "garbage" else reply.to_wire()

    handle(answer)
    assert ask_txt("127.0.0.1", port, "id.anycast.lan", 2) is None


def test_nobody_there_is_no_answer() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    assert ask_txt("127.0.0.1", port, "id.anycast.lan", 0.2) is None
