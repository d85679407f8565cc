"""What the router's rows do: the seam (`api`) and the real machinery behind it.

    api                                the seam, and who may call what
    plane                              ties everything below together
    interfaces, rows, timing           names and values; every time and limit
    peers, static_routes, filters, chains
                                       rows of BGP, BFD, routes and their filters, understood
    bird, bird_filters, bird_control, bird_look, bird_daemon, config_file
                                       BIRD does them: its configuration, what it is asked, what it tells
    routing                            what is seen of BGP, BFD and routes, apart from BIRD's words for it
    readout                            the same as rows
    nft, nft_matchers, sysctl, kernel  rows to a ruleset and kernel settings; getting both in
    conntrack                          tracked connections, over netlink
    netwatch, watcher, probes          its state machine, its runner, its packets
    script_tree, script_parser, script the inline scripts
    static_names, dns_wire, dns_cache, dns_sockets, resolver
                                       the router's own DNS

Emulated for real: BGP (one process; eBGP, iBGP, TCP-MD5, templates, ECMP by version), BFD, filter chains on prefixes,
static routes, input/forward/output filters, NAT, raw, address and interface lists, connection tracking, netwatch
(simple, icmp, tcp-conn, dns) with its scripts, static DNS names, DNS cache and forwarding, ping.
Refused by name: everything else that would change what happens, such as VRFs, redistribution, BGP communities, rate
limits, layer 7, HTTP probes, DNS over HTTPS.
Rows that are only stored: DHCP networks and leases, routing tables.
"""
