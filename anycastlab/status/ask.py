"""Asks several DNS servers one question each, at the same time. Runs anywhere: only Python and dnspython.

Its own source is sent to the lab's client (`python3 - QUESTIONS`); in a real home it runs on the control machine.
QUESTIONS and the printed answers are JSON: `[[server, name, type], …]` → `[[text, …] | null, …]`, null: no answer. A
fourth word `tcp` asks over TCP instead of UDP.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

# Seconds to wait for one answer; the LAN takes milliseconds, a cold public name tens of them.
TIMEOUT_S = 1.0
# Tries with a fresh source port: one lost packet, or one flow hashed to a node that is just leaving, is no verdict.
TRIES = 2


def ask(server: str, name: str, rdtype: str, protocol: str = "udp") -> list[str] | None:
    """The records of the answer as text; None when no good answer came. The flow is new for each try."""
    for _ in range(TRIES):
        query = dns.message.make_query(name, rdtype)
        try:
            if protocol == "tcp":
                reply = dns.query.tcp(query, server, timeout=TIMEOUT_S)
            else:
                reply, _ = dns.query.udp_with_fallback(query, server, timeout=TIMEOUT_S)
        except (dns.exception.DNSException, OSError):
            continue
        if reply.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            continue
        wanted = dns.rdatatype.from_text(rdtype)
        return [r.to_text().strip('"') for rrset in reply.answer if rrset.rdtype == wanted for r in rrset]
    return None


def ask_all(questions: list[list[str]]) -> list[list[str] | None]:
    with ThreadPoolExecutor(max_workers=max(1, len(questions))) as pool:
        return list(pool.map(lambda question: ask(*question), questions))


if __name__ == "__main__":
    print(json.dumps(ask_all(json.loads(sys.argv[1]))))
