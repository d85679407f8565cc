"""Every time and limit of the phone, with its unit and its reason."""

from __future__ import annotations

NS = 1_000_000_000  # nanoseconds in a second; all times inside the phone are integers in nanoseconds

# What a query may take before it counts as lost. Resolvers in use retry after 1 to 5 s; a person has long noticed.
TIMEOUT_S = 2.0
# A right answer slower than this is a stall: the page visibly hangs, though nothing was lost.
STALL_S = 0.5
# How long after its timeout a query is still listened for, to tell "late" from "never".
LATE_WINDOW_S = 3.0
# How long after a good answer its socket stays open, to see duplicates.
DUPLICATE_WINDOW_S = 0.25
# Whatever a resolver library would still try: after this a person has given up, and the lookup has failed.
FELT_LIMIT_S = 30.0

# The phone's own punctuality: a run is valid when 99 of 100 queries left within this of their time, and none was
# skipped.
LATE_P99_LIMIT_S = 0.005

# Between "ready" and the first query: everything is allocated by then and the first one is as punctual as the rest.
LEAD_S = 0.2
# Identity queries ride along on the ordinary query's socket; above this rate they are sampled, so that at high rates
# the phone does not double the load it is supposed to be.
IDENTITY_RATE = 100.0

# Query ids are 16 bits. On one shared socket an id must not come round while it is still being waited for, and an
# ordinary and an identity query use two.
IDS = 65536

# The phone's priority where it may choose: the lowest real-time one beats every ordinary process; else this niceness.
REALTIME_PRIORITY = 1
NICE = -10

# File descriptors that are not queries (epoll, timer, output files, interpreter).
SPARE_FDS = 64
# Share of the kernel's ephemeral ports the phone may occupy: beyond it, finding a free one gets slow, and the machine
# has other users.
PORT_SHARE = 0.8

# A datagram cannot be larger; one read takes all of it.
MAX_MESSAGE = 65535
# Answers taken from one socket before others get their turn (and due queries are sent).
READS_PER_TURN = 32

# Where nothing lives: TEST-NET-1 (RFC 5737). The lab uses TEST-NET-3 for its own "internet side".
NOWHERE = "192.0.2.53"
# Interception answers in a few milliseconds; a second leaves room for a slow path.
INTERCEPTION_WAIT_S = 1.0
INTERCEPTION_TRIES = 2

# Progress: a terminal is repainted, a log file gets a line.
PROGRESS_TERMINAL_S = 1.0
PROGRESS_LOG_S = 10.0

MAX_RATE = 20_000.0  # per second; beyond it one core of Python cannot be punctual
MAX_DURATION_S = 7 * 24 * 3600.0
MAX_QUERIES = 5_000_000  # records are kept in memory until the end (about 500 bytes each)
