"""Every wait and limit of a node's configuration, in seconds unless named otherwise, each with its reason."""

from __future__ import annotations

from typing import Final

# From link down to the route gone at the router: 0.12 s measured (two 50 ms work queues in bgpd at each end); doubled.
WITHDRAWN_S: Final = 0.3
# FRR drops a connected route within milliseconds; longer means zebra hangs, and then nothing else may be stopped.
ROUTE_GONE_LIMIT_S: Final = 3.0
# A resolver's first answer: 0.5 s here; a small board that loads a large blocklist takes a good deal longer.
FIRST_ANSWER_LIMIT_S: Final = 30.0
# From there to the link up: a second, unless the node changed often lately; then the probe holds it down up to 60 s.
LINK_UP_LIMIT_S: Final = 90.0
# Announced again: BGP connect retry 1 s and up to 5 s for the first announcement after a start of bgpd.
ANNOUNCED_LIMIT_S: Final = 20.0
# One try of a query on the node itself.
QUERY_TIMEOUT_S: Final = 0.5
# Pause between looks at a state that is about to change.
POLL_S: Final = 0.05
# One command of the configuration step (a checker, systemctl, frr-reload), far above what any of them takes.
COMMAND_LIMIT_S: Final = 90
# The whole configuration step; above the sum of the waits, so that a sentence comes before pyinfra's own timeout.
CONFIGURE_LIMIT_S: Final = 360
# apt-get has no patience of its own with whoever holds its lists (unattended upgrades: up to a minute or two).
APT_LISTS_WAIT_S: Final = 2
APT_LISTS_TRIES: Final = 90
# 26 MB to a board over a slow wireless link.
UPLOAD_LIMIT_S: Final = 300
# Installing packages on a board with a slow card and a slow mirror.
PACKAGES_LIMIT_S: Final = 900

# systemd starts a dead resolver again after this; its link is down meanwhile, so the other nodes answer.
RESOLVER_RESTART_S: Final = 1
# Length of the BGP session's first retry is in the site's data (`connect_retry_s`).

# How long probes accept the key before the present one: no deploy of a home takes so long.
OLD_PROBE_KEY_S: Final = 3600

# Building AdGuard Home takes a minute on two cores; on a small machine that shares them, far more.
BUILD_LIMIT_S: Final = 1800
# Another run of ours may be building the same binary; as long as a build may take, then this one gives up.
BUILD_LOCK_LIMIT_S: Final = BUILD_LIMIT_S
BUILD_LOCK_POLL_S: Final = 0.2
# Connecting to the release site; one that is out of reach must not hold up a lab that can build.
RELEASE_CONNECT_S: Final = 5.0
# A release archive has 12 MB; a larger answer is something else.
RELEASE_ARCHIVE_BYTES: Final = 64 * 1024 * 1024
# Fetching the one Go module to see whether a build can work (5 MB, a second here).
MODULE_LIMIT_S: Final = 30
# Asking a binary for its version.
VERSION_LIMIT_S: Final = 10
