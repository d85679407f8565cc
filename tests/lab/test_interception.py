"""The interception check's script, run for real: with and without somebody who answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from anycastlab.host.interception import NOWHERE, intercepted

# In a network name space of its own; the interceptor is a process there that has the address.
_NAME_SPACE = ("unshare", "--net", "sh", "-c")
_ANSWERER = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('{address}', 53)); print('ready', "
    "flush=True); data, peer = s.recvfrom(512); s.sendto(data, peer)"
)


def in_name_space(argv: Sequence[str], before: str) -> tuple[int, str]:
    done = subprocess.run(
        [*_NAME_SPACE, f'ip link set lo up; {before} shift 0; exec "$@"', "sh", sys.executable, *argv[1:]],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.returncode, done.stdout.removeprefix("ready\n")


def test_the_script_sees_an_interceptor_and_sees_silence() -> None:
    answerer = _ANSWERER.format(address=NOWHERE)
    start = f'ip addr add {NOWHERE}/32 dev lo; {sys.executable} -c "{answerer}" & sleep 0.3;'

    assert intercepted(lambda argv: in_name_space(argv, "")) is None
    found = intercepted(lambda argv: in_name_space(argv, start))
    assert found is not None
    assert "intercepted on the way" in found.problem
