"""Whether port 53 is intercepted on the way: a query to an address where nothing lives must get no answer.

Some routers, mobile tethers and sandboxes answer every packet to port 53 themselves. A measurement behind one of those
measures the interceptor. The check runs where the questions are asked from: inside the client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anycastlab.host.doctor import Finding, Severity
from anycastlab.host.limits import INTERCEPTION_WAIT_S
from anycastlab.stored import parse_json

NOWHERE: Final = "198.51.100.53"
"""In TEST-NET-2 (RFC 5737): routed nowhere, so nobody can have a reason to answer from it."""

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command in the client; returns its exit code and standard output."""

# Standard library only. Two queries, in case the first one is lost. Any datagram back is an answer, whatever is in it;
# "unreachable" from a router on the way is none.
_QUESTION: Final = """
import json, os, socket, sys, time
address, wait = sys.argv[1], float(sys.argv[2])
name = b"".join(bytes([len(part)]) + part for part in (os.urandom(6).hex().encode(), b"example")) + b"\\0"
question = os.urandom(2) + b"\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\1\\0\\1"
answered = False
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    end = time.monotonic() + wait
    for _ in range(2):
        try:
            udp.sendto(question, (address, 53))
            udp.settimeout(max(0.05, (end - time.monotonic()) / 2))
            udp.recvfrom(4096)
            answered = True
            break
        except OSError:
            pass
print(json.dumps({"answered": answered}))
"""


def intercepted(run: Run) -> Finding | None:
    """None when nobody answered; otherwise the finding (also when the check itself could not be made)."""
    code, output = run(["python3", "-c", _QUESTION, NOWHERE, str(INTERCEPTION_WAIT_S)])
    try:
        answered = bool(parse_json(output)["answered"]) if code == 0 else None
    except (ValueError, KeyError, TypeError):
        answered = None
    if answered is None:
        return Finding(
            Severity.ERROR,
            f"Whether DNS is intercepted on the way could not be checked: the client's Python ended with {code}.",
            "Look at the client with `anycastlab shell client01`.",
        )
    if answered:
        return Finding(
            Severity.ERROR,
            f"Port 53 is intercepted on the way: a query to {NOWHERE}, where nothing lives, got an answer.",
            "Nothing measured here would be true: look for a DNS redirect on the router or on this host.",
        )
    return None
