"""Carries out a plan on the node itself: one Python program, sent over standard input, nothing left behind.

Runs on the node with Debian's Python alone, so it imports nothing of ours. The order is what keeps a home answering:

    write beside → let each daemon check its own file → withdraw and wait until the route is gone → move into place
    → restart what must be → wait for a real answer → resume → wait until announced again

Everything that will be needed is written, whole, before anything stops: a disk that is full shows there. Whatever fails
before the withdrawal leaves the node as it was. A failure is one sentence on standard error and exit 1.
"""

from __future__ import annotations

import base64
import contextlib
import grp
import hashlib
import json
import os
import pwd
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

FRESH = ".anycastlab-new"  # what a path ends in until the file, whole, takes its place
SYSUSERS = "/etc/sysusers.d/"
FRR_RELOAD_LOG = "/var/log/frr/frr-reload.log"
_QTYPE_TXT = 16
_QCLASS_IN = 1
_TEXT_LIMIT = 400  # characters of a daemon's own complaint that are passed on


class StepFailed(Exception):  # noqa: N818  (a step that failed is what it is)
    """One sentence for a person."""


class Agent:
    """One run. `order` is the JSON object that `apply.order` makes."""

    def __init__(self, order: dict[str, Any], root: str = "") -> None:
        self.order = order
        self.root = root
        self.limits: dict[str, float] = order["limits"]
        self.name: str = order["name"]

    # -- the order of things ------------------------------------------------------------------------------------

    def run(self) -> None:
        fresh: list[str] = []
        try:
            self._carry_out(fresh)
        finally:
            for path in fresh:
                if os.path.exists(path):
                    os.unlink(path)

    def _carry_out(self, fresh: list[str]) -> None:
        self._open_folders()
        self._sysusers_first(fresh)
        self._write_beside(fresh)
        self._check()
        was_up, was_announced = self._link_up(), False
        if self.order["interrupts"] and was_up:
            was_announced = self._announced()
            self._withdraw()
        self._move_into_place()
        self._effects()
        self._units()
        self._stamp()
        if self.order["resolver"]["wait"]:
            self._wait_for_answer()
        if self.order["resume"] or (self.order["interrupts"] and was_up):
            self._resume()
        must_serve = self.order["must_serve"]
        if (must_serve or (was_up and self.order["interrupts"])) and not self._drained_by_a_person():
            self._until(self._link_up, "link_up_s", f"{self.name} answers, but its health probe does not announce it")
            if must_serve or (was_announced and self.order["waits"]):
                self._until(self._announced, "announced_s", f"{self.name} answers, but FRR does not announce it")

    # -- files --------------------------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        return self.root + path

    def _open_folders(self) -> None:
        """Folders of ours that somebody, or a strict umask, has shut to the daemons that look into them."""
        for folder in map(self._path, self.order["folders"]):
            mode = self.order["folder_mode"]
            if os.path.isdir(folder) and os.stat(folder).st_mode & mode != mode:
                os.chmod(folder, mode)

    def _sysusers_first(self, fresh: list[str]) -> None:
        """Files may belong to users that another of the files brings into being."""
        for file in self.order["files"]:
            if file["path"].startswith(SYSUSERS):
                self._beside(file, fresh)
                self._into_place(file["path"])
        if "sysusers" in self.order["effects"]:
            self._do(["systemd-sysusers"], f"{self.name}: system users could not be made")

    def _others(self) -> list[dict[str, Any]]:
        return [file for file in self.order["files"] if not file["path"].startswith(SYSUSERS)]

    def _write_beside(self, fresh: list[str]) -> None:
        """All that this run will put into place, also what is due only after services were stopped and started."""
        if self.order["program"]:
            fresh.append(self._path(self.order["program"]["staged"]))
        for file in self._others():
            self._beside(file, fresh)
        if self.order["adguard"]:
            self._folder_of_adguard(self.order["adguard"])
            self._beside(self.order["adguard"], fresh)
        if self.order["stamps"] is not None:
            self._beside(_ours(self.order["applied"], json.dumps(self.order["stamps"], indent=1)), fresh)
        if self.order["interrupts"]:
            self._beside(_ours(self.order["drained"], self.order["drained_by"]), fresh)

    def _folder_of_adguard(self, file: dict[str, Any]) -> None:
        folder = os.path.dirname(self._path(file["path"]))
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if not self.root:
                shutil.chown(folder, file["owner"], file["group"])
        except LookupError as error:
            raise StepFailed(f"{self.name} has no user or group for {file['path']}: {error.args[0]}.") from None
        except OSError as error:
            raise StepFailed(f"{self.name}: {folder} cannot be written: {error.strerror}.") from None

    def _beside(self, file: dict[str, Any], fresh: list[str]) -> None:
        path = self._path(file["path"]) + FRESH
        fresh.append(path)
        self._write(file, path)

    def _into_place(self, path: str) -> None:
        try:
            os.replace(self._path(path) + FRESH, self._path(path))
        except OSError as error:
            raise StepFailed(f"{self.name}: {path} cannot be replaced: {error.strerror}.") from None

    def _write(self, file: dict[str, Any], path: str) -> None:
        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            if os.path.lexists(path):
                os.unlink(path)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                out.write(base64.b64decode(file["content"]))
                if not self.root:
                    os.fchown(out.fileno(), pwd.getpwnam(file["owner"]).pw_uid, grp.getgrnam(file["group"]).gr_gid)
                os.fchmod(out.fileno(), file["mode"])
                out.flush()
                os.fsync(out.fileno())
        except KeyError as error:
            raise StepFailed(f"{self.name} has no user or group for {file['path']}: {error.args[0]}.") from None
        except OSError as error:
            raise StepFailed(f"{self.name}: {file['path']} cannot be written: {error.strerror}.") from None

    def rehearse(self) -> None:
        """Have each daemon check its file, in a folder of its own, and change nothing.

        For a machine that is about to be replaced; what it does not have (a checker, a user) is no reason to refuse.
        """
        folder = tempfile.mkdtemp(prefix="anycastlab-")
        try:
            for number, file in enumerate(self.order["files"]):
                if file["check"] and shutil.which(file["check"][0]):
                    path = os.path.join(folder, str(number))
                    with open(path, "wb") as out:
                        out.write(base64.b64decode(file["content"]))
                    self._check_file(file, path)
            self._check_programs_files()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if self.order["program"]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path(self.order["program"]["staged"]))

    def _check(self) -> None:
        for file in self._others():
            if file["check"]:
                self._check_file(file, self._path(file["path"]) + FRESH)
        self._check_programs_files()

    def _check_file(self, file: dict[str, Any], path: str) -> None:
        argv = [part.replace("{path}", path) for part in file["check"]]
        self._do(argv, f"{self.name}: {argv[0]} refuses the new {file['path']}, the old one stays")

    def _check_programs_files(self) -> None:
        program = self.order["program"]
        if program:
            self._check_program(program)
        if self.order["adguard"]:
            self._check_adguard(self.order["adguard"], (program or {}).get("staged") or self.order["adguard_program"])

    def _check_program(self, program: dict[str, str]) -> None:
        digest = hashlib.sha256()
        with open(self._path(program["staged"]), "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        if digest.hexdigest() != program["sha256"]:
            raise StepFailed(f"{self.name}: AdGuard Home arrived damaged; run again.")
        os.chmod(self._path(program["staged"]), 0o755)
        if not self.root:
            os.chown(program["staged"], 0, 0)

    def _check_adguard(self, file: dict[str, Any], program: str) -> None:
        """AdGuard Home checks a copy in a folder of its own: it may rewrite what it checks."""
        folder = tempfile.mkdtemp(prefix="anycastlab-")
        try:
            path = os.path.join(folder, "AdGuardHome.yaml")
            with open(path, "wb") as out:
                out.write(base64.b64decode(file["content"]))
            argv = [self._path(program), "--check-config", "--no-check-update", "-c", path, "-w", folder]
            answer = self._run(argv)
            if answer.returncode != 0:
                said = complaint(f"{answer.stdout}\n{answer.stderr}") or f"exit {answer.returncode}"
                raise StepFailed(f"{self.name}: AdGuard Home refuses its new configuration, the old one stays: {said}.")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _move_into_place(self) -> None:
        for file in self._others():
            self._into_place(file["path"])
        program = self.order["program"]
        file = self.order["adguard"]
        if program or file:
            # AdGuard Home must not be running when its file changes under it, nor when its program does.
            if self._active(self.order["resolver"]["unit"]):
                self._do(
                    ["systemctl", "stop", self.order["resolver"]["unit"]], f"{self.name}: the resolver does not stop"
                )
            if program:
                os.replace(self._path(program["staged"]), self._path(program["path"]))
        if file:
            self._into_place(file["path"])

    # -- taking effect ------------------------------------------------------------------------------------------

    def _effects(self) -> None:
        effects = self.order["effects"]
        if "sysctl" in effects:
            # Our own file alone: somebody else's may hold what this kernel refuses.
            argv = ["sysctl", "-q", "-p", self._path(self.order["sysctl_config"])]
            self._do(argv, f"{self.name}: kernel settings could not be applied")
        if self.order["daemon_reload"]:
            self._do(["systemctl", "daemon-reload"], f"{self.name}: systemd could not reread its units")
        if "resolved-restart" in effects:
            self._do(["systemctl", "try-restart", self.order["resolved_unit"]],
                     f"{self.name}: systemd-resolved does not start without its stub")  # fmt: skip
        if "networkd-reload" in effects and self._active("systemd-networkd.service"):
            self._do(["networkctl", "reload"], f"{self.name}: systemd-networkd could not reread its files")

    def _units(self) -> None:
        order = self.order
        for unit in order["disable"]:
            if self._run(["systemctl", "cat", unit]).returncode != 0:
                continue  # its package came without it
            self._do(["systemctl", "disable", "--now", unit], f"{self.name}: {unit} cannot be disabled")
        if order["enable"]:
            self._do(["systemctl", "enable", *order["enable"]], f"{self.name}: a unit cannot be enabled")
        if order["frr_unit"] in (*order["restart"], *order["start"]):
            # frr.service refuses a fourth start in three minutes; a wanted one is no crash loop.
            self._run(["systemctl", "reset-failed", order["frr_unit"]])
        if order["restart"]:
            self._do(["systemctl", "restart", *order["restart"]], f"{self.name}: a service does not start")
        if order["start"]:
            self._do(["systemctl", "start", *order["start"]], f"{self.name}: a service does not start")
        if "frr-reload" in order["effects"]:
            self._close_reload_log()
            self._do(
                [order["frr_reload"], "--reload", order["frr_config"]],
                f"{self.name}: FRR does not take its new configuration",
            )

    def _close_reload_log(self) -> None:
        """frr-reload logs the sessions' key, into a file that it makes readable for everybody."""
        with contextlib.suppress(FileNotFoundError):
            log = os.open(self._path(FRR_RELOAD_LOG), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o640)
            os.fchmod(log, 0o640)
            os.close(log)

    def _stamp(self) -> None:
        if self.order["stamps"] is not None:
            self._into_place(self.order["applied"])

    # -- in and out of service ----------------------------------------------------------------------------------

    def _withdraw(self) -> None:
        if not self._drained_by_a_person():
            self._into_place(self.order["drained"])
        self._do(["ip", "link", "set", "dev", self.order["link"], "down"], f"{self.name}: the link cannot be lowered")
        withdrawn = time.monotonic()
        self._until(
            lambda: not self._in_table(), "route_gone_s",
            f"{self.name}: FRR keeps the service address although its link is down; nothing was restarted",
        )  # fmt: skip
        time.sleep(max(0.0, self.limits["withdrawn_s"] - (time.monotonic() - withdrawn)))

    def _resume(self) -> None:
        """Lift the flag unless it is a person's; an empty one says nobody's will."""
        if not self._drained_by_a_person():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(self.order["drained"]))

    def _drained_by_a_person(self) -> bool:
        try:
            with open(self._path(self.order["drained"]), encoding="utf-8", errors="replace") as file:
                return file.readline().strip() not in ("", self.order["drained_by"])
        except FileNotFoundError:
            return False

    def _link_up(self) -> bool:
        return bool(self._run(["ip", "-o", "link", "show", "dev", self.order["link"], "up"]).stdout.strip())

    def _in_table(self) -> bool:
        found = self._vtysh(f"show ip route {self.order['prefix']} json")
        return any(route.get("protocol") == "connected" for routes in found.values() for route in routes)

    def _announced(self) -> bool:
        for neighbor in self.order["neighbors"]:
            found = self._vtysh(f"show bgp ipv4 unicast neighbors {neighbor} advertised-routes json")
            if self.order["prefix"] in found.get("advertisedRoutes", {}):
                return True
        return False

    def _vtysh(self, command: str) -> dict[str, Any]:
        answer = self._run(["vtysh", "-c", command])
        try:
            found = json.loads(answer.stdout or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    # -- does it resolve? ---------------------------------------------------------------------------------------

    def _wait_for_answer(self) -> None:
        resolver = self.order["resolver"]
        where = resolver["address"], resolver["port"], resolver["name"]

        def answers() -> bool:
            said = ask_txt(*where, self.limits["query_s"])
            return bool(said == resolver["answer"])

        unit = resolver["unit"]
        self._until(
            answers, "first_answer_s",
            f"{self.name}: {unit} runs but does not answer {resolver['name']} at {resolver['address']}; "
            f"see `journalctl -u {unit}` there",
        )  # fmt: skip

    # -- small things -------------------------------------------------------------------------------------------

    def _until(self, holds: Callable[[], bool], limit: str, sentence: str) -> None:
        deadline = time.monotonic() + self.limits[limit]
        while not holds():
            if time.monotonic() > deadline:
                raise StepFailed(f"{sentence} (waited {self.limits[limit]:g} s).")
            time.sleep(self.limits["poll_s"])

    def _active(self, unit: str) -> bool:
        return self._run(["systemctl", "-q", "is-active", unit]).returncode == 0

    def _do(self, argv: list[str], sentence: str) -> None:
        answer = self._run(argv)
        if answer.returncode != 0:
            said = " ".join((answer.stderr or answer.stdout).split())
            raise StepFailed(f"{sentence}: {said[-_TEXT_LIMIT:] or f'exit {answer.returncode}'}.")

    def _run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                argv, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                timeout=self.limits["command_s"], check=False,
            )  # fmt: skip
        except FileNotFoundError:
            return subprocess.CompletedProcess(argv, 127, "", f"there is no {argv[0]}")
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", f"no end after {self.limits['command_s']:g} s")


def complaint(output: str) -> str:
    """What AdGuard Home has to say, of all that it printed: the error of the last line of its log that has one."""
    lines = [line for line in output.splitlines() if line.strip()]
    for line in reversed(lines):
        _, mark, error = line.partition("err=")
        if mark:
            return error.strip().strip('"').replace('\\"', '"')[:_TEXT_LIMIT]
    return lines[-1].strip()[:_TEXT_LIMIT] if lines else ""


def _ours(path: str, text: str) -> dict[str, Any]:
    """A small file of root's own."""
    content = base64.b64encode(f"{text}\n".encode()).decode()
    return {"path": path, "content": content, "owner": "root", "group": "root", "mode": 0o644}


def ask_txt(address: str, port: int, name: str, timeout_s: float) -> str | None:
    """The first string of a TXT record (RFC 1035), asked over UDP; None for anything but a good answer."""
    number = random.randrange(1 << 16)
    labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.rstrip(".").split(".")) + b"\0"
    query = struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!2H", _QTYPE_TXT, _QCLASS_IN)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.connect((address, port))
            sock.send(query)
            reply = sock.recv(4096)
        except OSError:
            return None
    return _first_txt(reply, number, len(query))


def _first_txt(reply: bytes, number: int, question_end: int) -> str | None:
    if len(reply) < question_end + 12:
        return None
    found, flags, _, answers, _, _ = struct.unpack_from("!6H", reply)
    if found != number or flags & 0x000F or not answers:
        return None
    at = question_end
    while at < len(reply) and reply[at] and reply[at] < 0xC0:  # an owner name, mostly a pointer (RFC 1035, 4.1.4)
        at += reply[at] + 1
    at += 2 if at < len(reply) and reply[at] >= 0xC0 else 1
    if at + 11 > len(reply):
        return None
    kind, _, _, length = struct.unpack_from("!HHIH", reply, at)
    data = reply[at + 10 : at + 10 + length]
    if kind != _QTYPE_TXT or not data:
        return None
    return data[1 : 1 + data[0]].decode("ascii", errors="replace")


def main(order: dict[str, Any]) -> int:
    """Carry out `order`; 0, or 1 with a sentence on standard error."""
    os.umask(0o022)  # a machine may be set to 077, and what is made here is for daemons to read
    try:
        agent = Agent(order)
        agent.rehearse() if order.get("rehearsal") else agent.run()
    except StepFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        print(f"{order['name']}: the deploy stopped at{where}: {error.strerror or error}.", file=sys.stderr)
        return 1
    return 0
