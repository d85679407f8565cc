"""In which order test files begin, and which of them belong on the same worker.

The last long file decides when a run ends, so the long ones begin first. Some of them compute all the time (whole labs
are built and removed), others mostly wait for timers of the probe, of BGP and of scenarios: they take turns in this
list, or the processors would be too few in one half of the run and idle in the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
# Minutes each; what is not named here takes less than one.
LONG: Final = tuple(
    TESTS / "lab" / name
    for name in (
        "test_probe_adguardhome.py",  # waits
        "test_deploy.py",
        "test_flat_layout.py",
        "incus/test_connector.py",
        "test_image_remote.py",
        "test_probe_unbound.py",  # waits
        "test_node.py",
        "test_router_routing.py",  # waits
        "test_router_verify.py",  # waits
        "test_scenarios.py",  # waits
        "test_boards.py",
        "test_ipv6.py",
        "test_probe_machine.py",  # waits
        "test_router_dataplane.py",
    )
)
# What needs real machines, before what only computes.
FOLDERS: Final = ("lab", "contract", "unit")
# The lab that `tests/lab/conftest.py` builds takes half a minute; these two are short enough to share it.
SHARED_LAB: Final = ("tests/lab/test_router_verify.py", "tests/lab/test_scenarios.py")


def place(path: Path) -> tuple[int, int]:
    """What to sort tests by; those of one file stay in their order."""
    if path in LONG:
        return LONG.index(path), 0
    folder = path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""
    return len(LONG), FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


def scope(file: str) -> str:
    """Files with the same scope go to the same worker."""
    return "the shared lab" if file in SHARED_LAB else file
