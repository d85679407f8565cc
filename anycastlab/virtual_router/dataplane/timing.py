"""Every time and limit of the data plane, in one place."""

from __future__ import annotations

# --- BGP and BFD -----------------------------------------------------------------------------------------------
CONNECT_RETRY_S = 1
"""Seconds between connection attempts. BIRD's 120 s would hide a returned node for two minutes."""
BIRD_SCAN_S = 10
"""How often BIRD looks whether interfaces and kernel routes are as it thinks; it is told of changes at once."""
DEFAULT_HOLD_S = 180
"""RouterOS's `hold-time` when none is set (3m)."""
KEEPALIVES_PER_HOLD = 3
"""RFC 4271, 10: a third of the hold time."""
DEFAULT_BFD_MS = 200
"""RouterOS's `min-rx` and `min-tx` when none is set."""
DEFAULT_BFD_MULTIPLIER = 5
"""RouterOS's `multiplier` when none is set."""

# --- commands --------------------------------------------------------------------------------------------------
COMMAND_TIMEOUT_S = 20.0
"""Longest wait for nft, bird or sysctl; thousands of rules on a loaded machine take nft some seconds."""
BIRD_CONTROL_TIMEOUT_S = 5.0
"""Longest wait for BIRD's answers to one set of questions; it answers within milliseconds unless it hangs."""
BIRD_START_TIMEOUT_S = 20.0
"""Longest wait for a restart of BIRD; it takes half a second on an idle machine."""
BIRD_READY_POLL_S = 0.05
"""Pause between looks whether BIRD answers after a start."""
READ_CACHE_S = 0.1
"""Age up to which one look at the routing daemon serves several reads."""

# --- netwatch --------------------------------------------------------------------------------------------------
STARTUP_DELAY_S = 300.0
"""`startup-delay`: wait after the boot before the first test (RouterOS's default, 5m)."""
START_DELAY_S = 3.0
"""`start-delay`: wait after an entry is added, enabled or changed (RouterOS's default)."""
INTERVAL_S = 10.0
"""`interval` when none is set."""
MIN_INTERVAL_S = 1.0
"""RouterOS refuses a shorter `interval`."""
TIMEOUT_S = 3.0
"""`timeout` when none is set."""
ICMP_PACKET_COUNT = 10
"""`packet-count` of a `type=icmp` test."""
ICMP_PACKET_INTERVAL_S = 0.05
"""`packet-interval` of a `type=icmp` test (50ms)."""
SCRIPT_TIMEOUT_S = 60.0
"""Longest run of one netwatch script; a `:delay` loop must not hold an entry for ever."""
SCRIPT_STEPS = 100_000
"""Most commands and loop rounds of one script run."""

SCRIPT_STEPS_AT_ONCE = 50
"""After so many commands others get their turn: a flush of thousands of connections must not hold up the API."""

# --- resolver --------------------------------------------------------------------------------------------------
QUERY_SERVER_TIMEOUT_S = 2.0
"""`query-server-timeout`: wait for one upstream server."""
QUERY_TOTAL_TIMEOUT_S = 10.0
"""`query-total-timeout`: wait for all of them together."""
TCP_IDLE_S = 10.0
"""A TCP client that says nothing for this long is closed (RFC 7766, 6.2.3 leaves it to us)."""
CACHE_ENTRIES = 10_000
"""Most answers kept; about RouterOS's default 2 MiB."""
CACHE_MAX_TTL_S = 7 * 24 * 3600
"""`cache-max-ttl` when none is set (1w)."""
NEGATIVE_TTL_S = 60
"""TTL of our own NXDOMAIN, and the longest an upstream's is kept."""
SERVFAIL_TTL_S = 1
"""An upstream's SERVFAIL is kept this long, so a storm of retries does not reach the upstream."""
STATIC_TTL_S = 24 * 3600
"""TTL of a `/ip/dns/static` row without `ttl` (1d)."""
MAX_CONCURRENT_QUERIES = 1000
"""Questions in flight to upstreams. RouterOS says 100; a household's burst must not decide a measurement."""
