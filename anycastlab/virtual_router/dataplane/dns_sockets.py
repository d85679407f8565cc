"""UDP sockets that answer from the address they were asked at, also after a redirect."""

from __future__ import annotations

import socket
import struct

_IPV6_PKTINFO = getattr(socket, "IPV6_PKTINFO", 50)
_IP_PKTINFO = 8
ANCILLARY_BYTES = 256
_SOCKET_BUFFER = 1 << 20

Ancillary = list[tuple[int, int, bytes]]
"""Control messages as sendmsg takes them."""


def udp_socket(family: int, address: str, port: int) -> socket.socket:
    """Tells on which of our addresses a question came in, so the answer leaves from there (also after a redirect)."""
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.setblocking(False)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
    if family == socket.AF_INET6:
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        udp.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
    udp.bind((address, port))
    return udp


def reply_source(ancillary: Ancillary) -> Ancillary:
    """The control message that sends from the address the question was sent to (ip(7), ipv6(7))."""
    for level, kind, data in ancillary:
        if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
            # in_pktinfo: interface, local address, header destination. Interface 0: routing decides the way back.
            return [(level, kind, struct.pack("=I4s4s", 0, data[4:8], bytes(4)))]
        if level == socket.IPPROTO_IPV6 and kind == _IPV6_PKTINFO:
            return [(level, kind, data[:16] + data[16:20])]
    return []
