"""How punctual the phone is on one core: 2,000 queries per second for a minute, and the household's 20.

Server and phone run as processes of their own on 127.0.0.1, the phone pinned to one core. Numbers are of this machine.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

HIGH_RATE, HIGH_S = 2000, 60
HOUSEHOLD_RATE, HOUSEHOLD_S = 20, 60


def run(high_s: float = HIGH_S, household_s: float = HOUSEHOLD_S) -> dict[str, Any]:
    """Lateness (ms), skipped queries, and processor time per second of run for both rates."""
    return {
        "high": _measure(HIGH_RATE, high_s),
        "household": _measure(HOUSEHOLD_RATE, household_s),
    }


def _measure(rate: int, seconds: float) -> dict[str, Any]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, tempfile.TemporaryDirectory() as folder:
        server.bind(("127.0.0.1", 0))
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        summary, names = Path(folder, "summary.json"), Path(folder, "names")
        names.write_text("www.example\n{random}.example\n")
        core = max(os.sched_getaffinity(0))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "anycastlab.phone",
                "--server",
                f"127.0.0.1@{server.getsockname()[1]}",
                "--rate",
                str(rate),
                "--duration",
                str(seconds),
                "--mix",
                str(names),
                "--quiet",
                "--json-summary",
                str(summary),
            ],
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            stdout=subprocess.DEVNULL,
            timeout=seconds + 60,
            check=False,  # 2 says that it was late, which is what the numbers below say
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = json.loads(summary.read_text())
        server.sendto(b"", server.getsockname())  # an empty message ends the server
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {
        **{key: result["phone"][key] for key in ("late_p50_ms", "late_p99_ms", "late_max_ms", "skipped", "punctual")},
        "sent": result["counts"]["sent"],
        "lost": result["counts"]["lost"],
        "cpu_share_of_one_core": round(cpu_s / seconds, 3),
    }


def _answer(server: socket.socket) -> None:
    """An address for every name, by rewriting the header and appending a record: as fast as Python can."""
    address = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01"
    while True:
        query, peer = server.recvfrom(4096)
        if not query:
            return
        server.sendto(query[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + query[12:] + address, peer)


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
