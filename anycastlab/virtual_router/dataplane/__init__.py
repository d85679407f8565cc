"""What the router's rows do: the seam (`api`) and the real machinery behind it.

    plane        ties it together                    interfaces, rows   names and values
    peers, filters, frr    rows to FRR's text        daemons            FRR kept at that text, looked at
    nft          rows to an nftables ruleset         kernel             programs, rulesets, kernel settings
    sysctl       rows to kernel settings             conntrack          tracked connections over netlink
    netwatch     its state machine                   watcher, probes    run it with real packets
    script_parser, script  inline scripts            readout            FRR's state as rows
    static_names, dns_wire, resolver                 the router's own DNS
    timing       every time and limit

Emulated for real: BGP (one process; eBGP, iBGP, TCP-MD5, templates, ECMP by version), BFD, filter chains on prefixes,
static routes, input/forward/output filters, NAT, raw, address and interface lists, connection tracking, netwatch
(simple, icmp, tcp-conn, dns) with its scripts, static DNS names, DNS cache and forwarding, ping.
Refused by name: everything else that would change what happens, such as VRFs, redistribution, BGP communities, rate
limits, layer 7, HTTP probes, DNS over HTTPS.
Rows that are only stored: DHCP networks and leases, routing tables.
"""
