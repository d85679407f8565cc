"""What a setting that reaches a machine may look like: nothing that a shell, a daemon or a router could misread.

Each type matches its text whole (`fullmatch`: a line break at the end counts), and says in words what it wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field


def matching(pattern: str, wanted: str) -> AfterValidator:
    """Text that `pattern` matches from its first to its last character; else "it must be `wanted`"."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"it must be {wanted}")
        return text

    return AfterValidator(check)


def _refused_by(check: Callable[[str], object], wanted: str) -> BeforeValidator:
    def before(value: Any) -> Any:
        if isinstance(value, str) and not check(value):
            raise ValueError(f"it must be {wanted}")
        return value

    return BeforeValidator(before)


def _is_host(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return len(text) <= 253 and re.fullmatch(rf"(?i:{_HOST}\.)*(?i:{_HOST})", text) is not None
    return "%" not in text  # the scope of an address is this machine's business alone


_HOST = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"

# RFC 6996 private and ordinary 4-byte AS numbers; 0, 23456 (AS_TRANS) and the last number of each range are reserved.
Asn = Annotated[int, Field(ge=1, le=4294967294)]
HostName = Annotated[str, matching(_HOST, "a host name: lower-case letters, digits and hyphens, no dot")]
# Short enough for names below it; DNS does not tell cases apart, but comparisons do.
DnsName = Annotated[
    str,
    Field(max_length=180),
    AfterValidator(str.lower),
    matching(rf"({_LABEL}\.)*{_LABEL}", "a DNS name in ASCII, without final dot or wildcard"),
]
# Where the API is: an address or a name of this machine's own resolver.
Reachable = Annotated[str, _refused_by(_is_host, "an address or a host name")]
# Linux allows 15 bytes of anything but slash and white space (dev_valid_name); shell and sysctl read these as they are.
LinuxInterface = Annotated[
    str, matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", "the name of a network interface, such as eth0")
]
# RouterOS' names may hold spaces and more. A leading "!" would turn a matcher round, and quotes, backslash and dollar
# mean something in its scripts.
RouterName = Annotated[
    str,
    matching(
        r"(?!!)[^\s\x00-\x1f\x7f\"\\$]([^\x00-\x1f\x7f\"\\$]{0,62}[^\s\x00-\x1f\x7f\"\\$])?",
        "a name as the router shows it, without quotes, backslash or dollar",
    ),
]
RouterUser = Annotated[
    str, matching(r"[A-Za-z0-9][A-Za-z0-9*_.@#-]{0,62}", "the name of a router's user, such as anycastlab")
]
Fingerprint = Annotated[
    str,
    matching(
        r"(?i:(sha256:)?[0-9a-f]{2}([: ]?[0-9a-f]{2}){31})",
        "a certificate's sha256: 64 hexadecimal digits, in quotes or with colons",
    ),
]
# TCP-MD5: at most 80 bytes (Linux). Nothing that FRR or RouterOS would end a word at.
SessionKey = Annotated[
    str, matching(r"[!#-~]{1,80}", "1 to 80 printable ASCII characters, without spaces, line breaks or double quotes")
]
Architecture = Annotated[str, matching(r"[A-Za-z0-9_-]{1,32}", "a machine's name, such as x86_64 or aarch64")]
# One word in every resolver's file; what it means is `site.upstreams`' business.
Word = Annotated[str, matching(r"[!#-&(-\[\]-~]{1,512}", "one word, without spaces, quotes or backslash")]
Printable = Annotated[str, matching(r"[^\x00-\x1f\x7f]{1,255}", "one line of text")]
PyinfraRouter = Annotated[
    str, matching(r"@routeros/.+", "written like '@routeros/192.168.88.1'; without that it would be reached over SSH")
]
# "192.168.88.0" would be that one address.
Subnet = Annotated[
    IPv4Network, _refused_by(lambda text: "/" in text, "a subnet with its length, such as 192.168.88.0/24")
]
