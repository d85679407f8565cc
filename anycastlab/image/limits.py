"""Every limit of the image build, with its unit and its reason."""

from __future__ import annotations

from typing import Final

BUILD_DISK_MIB: Final = 1200
"""Free space needed in the work directory: the unpacked tree is about 420 MiB, the archives about 130 MiB, the squashfs
about 145 MiB; the rest is room for a release that grew."""

SOURCE_DISK_MIB: Final = 800
"""Free space needed on top in the work directory to start from another server's image: 100 to 150 MiB as it is fetched,
and 400 MiB more of it unpacked than there is of the smallest Debian."""

STORE_DISK_MIB: Final = 800
"""Free space needed where a local Incus keeps images and unpacks one: 145 MiB of image, twice while it is received, and
420 MiB unpacked."""

BUILD_MEMORY_MIB: Final = 350
"""Available memory needed: apt with Debian's package lists peaks near 200 MiB, squashfs compression near 100 MiB."""

BUILD_TIMEOUT_S: Final = 1800.0
"""A build takes about 45 s with a near mirror. Half an hour is a slow line; beyond it something hangs."""

STOP_GRACE_S: Final = 5.0
"""How long the builder may tidy up after SIGTERM before it is killed. It normally takes well under a second."""

INCUS_QUERY_TIMEOUT_S: Final = 30.0
"""Questions to a local daemon take 30 ms; a remote one behind a slow line gets half a minute."""

INCUS_TRANSFER_TIMEOUT_S: Final = 900.0
"""Sending an image (145 MiB) to a remote server over a 1 MiB/s line takes two to three minutes; copying one from a
public image server may take longer."""

LOCK_POLL_S: Final = 0.5
"""How often a second builder looks whether the first one is done."""

FAILURE_LINES: Final = 60
"""How many of the build's last lines are looked at for the reason of a failure: dpkg says a lot after
"No space left on device"."""

FAILED_LOGS: Final = 5
"""How many logs of failed builds are kept: enough to compare a few attempts, each under a megabyte."""

REMOVAL_ATTEMPTS: Final = 4
"""How often the work directory is removed, half a second apart, while killed processes are still going."""
