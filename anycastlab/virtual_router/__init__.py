"""The lab's stand-in for a MikroTik router: RouterOS's API in front of real BIRD, nftables and a resolver.

    wire ── session ── commands ── store          pure: frames, command words, rows, queries, values
                            └──── dataplane.api   what the rows do (BIRD, nftables, netwatch, resolver)

Runs inside the lab's `router` instance as one archive: standard library and dnspython only. It was written from
published command trees and documentation; no MikroTik device or software is involved.
"""
