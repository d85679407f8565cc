"""What every home has in common: each number with its unit and its reason.

Override one for a home in `group_data/<inventory name>.py`, for a machine in the inventory, for a run with `--data`.
"""

# --- the service ------------------------------------------------------------------------------------------------------
service_address = "10.1.9.53"  # the address that clients ask; must lie in no connected subnet, or clients ARP for it
service_address6 = None  # optional IPv6 twin, such as "fd00:10:1:9::53"; nodes then need address6 and gateway6
identity_name = "id.anycast.lan"  # TXT name that tells which node answered
layout = "routed"  # "routed": nodes in a subnet of their own; "flat": nodes among the clients

# --- BGP and BFD ------------------------------------------------------------------------------------------------------
node_asn = 65053  # one private AS for all nodes: they drop each other's route, and ECMP needs no multipath-relax
router_asn = 65000
bgp_keepalive_s = 3  # seconds
bgp_hold_s = 9  # seconds; only where BFD is blind (a hung bgpd), for BFD sees everything else first
bgp_connect_retry_s = 1  # seconds; the default of 120 would keep a returning node waiting
bgp_password = None  # TCP-MD5 key; a secret, so set ANYCASTLAB_BGP_PASSWORD instead of writing it here (see README)
bfd_interval_ms = 100  # milliseconds, both directions; 100 x 3 survives full CPU load without a false alarm
bfd_multiplier = 3  # missed packets

# --- the resolver -----------------------------------------------------------------------------------------------------
resolver = "adguardhome"  # or "unbound"
adguardhome_source = "auto"  # "release", "module" (built with Go), "file:/path", or "auto": the first that works
local_zones = ["lan"]  # names the router knows
reverse_zones = ["10.in-addr.arpa", "168.192.in-addr.arpa", "16.172.in-addr.arpa"]  # addresses the router knows
# Zones that neither router nor internet know, each with its own servers (written like upstreams), such as a company's
# behind a VPN: {"corp.example": ["10.8.0.1", "10.8.0.2"], "8.10.in-addr.arpa": ["10.8.0.1"]}
forward_zones = {}
# Every 15 seconds each probe asks for a random name below "probe.anycast." and this, to report whether the WAN works.
# Any answer will do, also that there is no such name; example.com is kept up for everybody and blocked by nobody.
wan_probe_suffix = "example.com"
upstream_timeout_ms = 2000  # milliseconds; AdGuard Home's default of 10 s lets a dead WAN starve local names
max_concurrent = 2000  # queries in flight; at the default of 300 a dead WAN under 100 queries/s starves local names
cache_bytes = 16 * 1024 * 1024
serve_stale = True  # answer from expired entries while the upstream is silent, else a dead WAN takes every name along
stale_ttl_s = 30  # seconds; TTL of an answer served past its time (RFC 8767)
stale_max_age_s = 12 * 3600  # seconds; how long past its time an answer may be served
blocklist = []  # names that get no address, subdomains included
dot = False  # DNS over TLS on 853

# --- the router -------------------------------------------------------------------------------------------------------
router_user = "anycastlab"
router_bgp_instance = None  # an existing BGP instance to join; None: one of our own
dhcp_network = None  # DHCP network that shall hand out the service address, such as "192.168.88.0/24"
