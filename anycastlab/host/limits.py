"""Every limit of set-up and doctor, with its unit and its reason."""

from __future__ import annotations

from typing import Final

MINIMUM_INCUS: Final = (6, 0)
"""The long-term release everything here was measured on."""

LAB_DISK_MIB: Final = 3000
"""Building the image needs 1200 MiB for a while, the image with its unpacked copy 600 MiB, AdGuard Home with its Go
module cache 700 MiB; instances are copy-on-write and add little."""

LAB_MEMORY_MIB: Final = 1200
"""Six machines of about 80 MiB, three resolvers of about 60 MiB, and 350 MiB while the image is built."""

POOL_SIZE_GIB: Final = 20
"""Largest size of the pool's file. It is sparse: only what is used takes space."""

POOL_MINIMUM_GIB: Final = 4

DAEMON_START_TIMEOUT_S: Final = 60.0
"""A fresh incusd answers after about 2 s, one that has to start old instances later."""

DAEMON_POLL_S: Final = 0.1

INCUS_QUESTION_TIMEOUT_S: Final = 10.0
"""A local daemon answers in 30 ms; one that is silent for ten seconds hangs."""

PACKAGE_TIMEOUT_S: Final = 1800.0
"""apt over a slow line; also as long as it waits for another apt that holds the lock."""

LOCK_WAIT_S: Final = 300
"""How long apt waits for another package manager (unattended upgrades) to finish."""

KERNEL_TRIAL_TIMEOUT_S: Final = 10.0
"""Making a few links in a throw-away name space takes 30 ms; loading modules for it a second."""

INTERCEPTION_WAIT_S: Final = 1.5
"""An interceptor sits on the way and answers in milliseconds to a few hundred of them."""
