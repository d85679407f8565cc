"""The program and its configuration file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from anycastlab.virtual_router.__main__ import main
from anycastlab.virtual_router.config import Config, ConfigError, Group, Interface, User

FULL = Config(
    users=(User("me", "secret", "automation"),),
    groups=(Group("automation", ("api", "read")),),
    interfaces=(Interface("ether1", "wan", ("203.0.113.2/24",), ("WAN",)),),
    dns_servers=("203.0.113.53",),
    static_names={"nas.lan": "10.1.1.20"},
    rows={"/ip/firewall/filter": ({"chain": "input"},)},
    netwatch_startup_delay_s=5,
)


def test_a_configuration_reads_back_what_it_writes() -> None:
    assert Config.from_json(FULL.to_json()) == FULL


def test_a_password_is_not_in_the_text_form_of_a_user() -> None:
    assert "secret" not in repr(FULL)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"colour": 1}', "unknown key colour"),
        ('{"version": "7.25"}', "version: RouterOS 7.25 is newer"),
        ('{"version": "x"}', "is not a RouterOS version"),
        ('{"users": [{"name": "a", "password": "", "group": "g"}]}', "user a: there is no group g"),
        ('{"groups": [{"name": "g", "policies": ["fly"]}]}', "no such policy: fly"),
        ('{"interfaces": [{"name": "e", "device": "e", "addresses": ["10.1.1.300"]}]}', "interface e"),
        ('{"tls_certificate": "x"}', "without tls_key"),
        ('{"device_mode": "party"}', "device_mode"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, complaint: str
) -> None:
    path = tmp_path / "router.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=complaint):
        Config.from_json(content)
    assert main(["--config", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line


def test_it_tells_systemd_when_it_is_ready_and_stops_on_sigterm(tmp_path: Path) -> None:
    config = tmp_path / "router.json"
    config.write_text(
        json.dumps({"listen": "127.0.0.1", "port": 0, "tls_port": None, "state_dir": str(tmp_path / "state")})
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(10)
        command = [sys.executable, "-m", "anycastlab.virtual_router", "--config", str(config), "--rows-only"]
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert notified.recv(1000).startswith(b"READY=1")
                process.send_signal(signal.SIGTERM)
                assert notified.recv(1000) == b"STOPPING=1"
                assert process.wait(10) == 0
            finally:
                process.kill()
    assert (tmp_path / "state" / "config.json").exists()


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = tmp_path / "router.json"
        settings = {"listen": "127.0.0.1", "port": taken.getsockname()[1], "tls_port": None, "state_dir": str(tmp_path)}
        config.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "anycastlab.virtual_router", "--config", str(config), "--rows-only"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert "address already in use" in done.stderr
    assert "Traceback" not in done.stderr
