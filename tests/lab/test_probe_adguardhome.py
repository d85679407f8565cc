"""The probe's cases on nodes with AdGuard Home."""

from tests.lab.probe_cases import *  # noqa: F403  (the cases and their fixtures)

RESOLVER = "adguardhome"
