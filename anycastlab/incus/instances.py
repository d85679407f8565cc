"""Making, changing and removing instances: plain functions over the API, no pyinfra.

`create` does, in this order: the instance, stopped; the files of its first boot; the key that says it is
finished. A run killed anywhere before the last leaves something `desired.plan` recognises and makes anew.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from anycastlab.incus.spec import InstanceSpec, Lab

from . import desired, files, limits
from .errors import ExistsError, IncusError, MissingError, NotRunningError
from .exec import execute
from .rest import Rest

# Ends with 0 once systemd has reached multi-user.target, at once where there is no systemd. $1: number of looks.
_BOOTED = """
command -v systemctl >/dev/null || exit 0
i=0
until systemctl is-active -q multi-user.target 2>/dev/null; do
  i=$((i + 1)); [ "$i" -lt "$1" ] || { systemctl list-jobs --no-legend 2>&1 | head -n 3; exit 1; }
  sleep "$2"
done
"""


def check_image(rest: Rest, alias: str) -> str:
    """The fingerprint behind an image alias of project `default`, its architecture checked against the server's."""
    server = rest.in_project(None)
    found = server.find(f"/images/aliases/{quote(alias, safe='')}")
    if found is None:
        raise MissingError(f"Incus on {rest.server} has no image {alias}.", "`make lab` builds it.")
    fingerprint = str(found["target"])
    check_architecture(rest, str(server.get(f"/images/{fingerprint}")["architecture"]), f"The image {alias}")
    return fingerprint


def check_architecture(rest: Rest, architecture: str, what: str) -> None:
    """Refuses what this server could only run emulated (its own kernel's architectures are the measure)."""
    environment = rest.info.get("environment") or {}
    native = [str(a) for a in environment.get("architectures") or []]
    if native and architecture not in native:
        raise IncusError(
            f"{what} is for {architecture}, but Incus on {rest.server} runs on {native[0]}: it would run emulated.",
            f"Use an image for {native[0]}, or a server with {architecture} hardware.",
        )


def create(rest: Rest, spec: InstanceSpec, lab: Lab, image: str) -> None:
    """Makes the instance, stopped and with everything its first boot needs. Raises `ExistsError` if it is there.

    `image` is an alias of the server's project `default`.
    """
    source = {"type": "image", "fingerprint": check_image(rest, image)}
    if rest.in_project(None).find(f"/storage-pools/{quote(lab.pool)}") is None:
        raise MissingError(f"Incus on {rest.server} has no storage pool {lab.pool}.", "`make lab` creates it.")
    first_files = desired.first_boot_files(spec)
    rest.run(
        "post",
        "/instances",
        {
            "name": spec.name,
            "type": "container",
            "description": f"anycastlab: lab {lab.name}",
            "profiles": [],
            "source": source,
            "config": desired.config_of(spec, lab),
            "devices": desired.devices_of(spec, lab),
        },
    )
    for path, content, mode in first_files:
        files.place(rest, spec.name, path, content, mode=mode)
    rest.run("patch", f"/instances/{quote(spec.name)}", {"config": {desired.READY_KEY: desired.digest_of(first_files)}})


def start(rest: Rest, name: str) -> None:
    """Starts (or resumes) an instance; one that is already running is fine, whoever started it."""
    state = rest.get(f"/instances/{quote(name)}")["status"]
    if state == "Running":
        return
    action = "unfreeze" if state == "Frozen" else "start"
    try:
        _set_state(rest, name, action)
    except ExistsError:
        # After a restart the daemon starts by itself what ran before, and may have been faster.
        return
    except IncusError as error:
        if rest.get(f"/instances/{quote(name)}")["status"] == "Running":
            return
        raise IncusError(
            f"{name} does not start: {error.problem}",
            f"`incus info --show-log --project {rest.project or 'default'} {name}` may say why.",
        ) from error


def wait_booted(rest: Rest, name: str, timeout_s: float = limits.BOOT_TIMEOUT_S) -> None:
    """Waits until systemd inside has reached multi-user.target."""
    looks = int(timeout_s / limits.BOOT_POLL_S)
    command = ["sh", "-c", _BOOTED, "sh", str(looks), str(limits.BOOT_POLL_S)]
    try:
        result = execute(rest, name, command, timeout_s=timeout_s)
    except TimeoutError as error:
        raise IncusError(f"{name} did not finish booting within {timeout_s:g} s.") from error
    except NotRunningError as error:
        raise IncusError(
            f"{name} stopped while it was booting.",
            f"`incus info --show-log --project {rest.project or 'default'} {name}` may say why.",
        ) from error
    if not result.ok:
        raise IncusError(f"{name} did not finish booting within {timeout_s:g} s; waiting for: {result.complaint}.")


def update(rest: Rest, spec: InstanceSpec, lab: Lab) -> None:
    """Brings limits, interfaces and proxies of an existing instance to `spec`, live."""
    actual = rest.get(f"/instances/{quote(spec.name)}")
    rest.run("put", f"/instances/{quote(spec.name)}", desired.updated(actual, spec, lab))


def delete(rest: Rest, name: str) -> None:
    """Stops without ceremony and deletes; an instance that is gone is fine."""
    try:
        _set_state(rest, name, "stop", force=True)
    except MissingError:
        return
    except IncusError:
        pass  # stopped already; if it is something else, the deletion will say so
    try:
        rest.run("delete", f"/instances/{quote(name)}")
    except MissingError:
        return


def _set_state(rest: Rest, name: str, action: str, force: bool = False) -> None:
    body: dict[str, Any] = {"action": action, "timeout": limits.STOP_TIMEOUT_S, "force": force}
    rest.run("put", f"/instances/{quote(name)}/state", body)
