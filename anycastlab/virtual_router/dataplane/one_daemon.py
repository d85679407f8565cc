"""One routing daemon at a time: two would fight for port 179 and for the kernel's table."""

from __future__ import annotations

from anycastlab.virtual_router.dataplane.kernel import Runner

_AT_REST = ("inactive", "failed", "")
"""One that is just starting or stopping has the port."""
_COMES_BACK = ("enabled", "enabled-runtime")


async def stop(unit: str, runner: Runner) -> bool:
    """Stops a unit for good, also for the next boot. Returns whether it ran.

    A unit that does not exist, or is masked, is out of the way.
    """
    shown = await runner(["systemctl", "show", "--property=ActiveState,UnitFileState", unit])
    state = dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line)
    runs = state.get("ActiveState", "") not in _AT_REST
    if runs or state.get("UnitFileState", "") in _COMES_BACK:
        await runner(["systemctl", "disable", "--now", unit])
    return runs
