"""Tests against a real router or CHR: collected only when a person names one, so never in CI.

ANYCASTLAB_ROUTER=user:password@host[:port]     port 8728 is plain, any other TLS …
ANYCASTLAB_ROUTER_TLS=no                        … unless this says so
ANYCASTLAB_ROUTER_FINGERPRINT=…                 sha256 of its certificate, when self-signed
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("ANYCASTLAB_ROUTER") else ["test_*.py"]
