"""Why a build failed, as one sentence. Pure: read from its last lines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anycastlab.image.definition import ImageDefinition
from anycastlab.image.errors import ImageError
from anycastlab.image.limits import BUILD_TIMEOUT_S
from anycastlab.image.process import Outcome

_REASONS: Final = (
    # (words in the output, what is wrong, what to do)
    (
        ("No space left on device", "don't have enough free space"),
        "The disk is full: the base image was not built.",
        "Free some space, or name another directory in TMPDIR, and run it again.",
    ),
    (
        ("Cannot allocate memory", "Out of memory"),
        "The memory is full: the base image was not built.",
        "Stop something large and run it again.",
    ),
    (
        ("NO_PUBKEY", "is not signed", "EXPKEYSIG"),
        "The Debian archive is signed with a key this machine does not know.",
        "Install a newer debian-archive-keyring and run it again.",
    ),
    (
        ("does not have a Release file", "404  Not Found", "404 Not Found"),
        "The Debian mirror of this machine does not have Debian {release} ({codename}) for {architecture}.",
        "Look at the mirror in /etc/apt, or choose the release it has.",
    ),
    (
        (
            "Temporary failure resolving",
            "Could not resolve",
            "Could not connect",
            "Connection timed out",
            "Failed to fetch",
        ),
        "The Debian mirror of this machine cannot be reached.",
        "See whether `apt-get update` works here, and run it again.",
    ),
    (
        ("newuidmap", "/etc/subuid", "unprivileged user namespace"),
        "This user may not make user name spaces, which building without root needs.",
        "Run it as root, or add a range for this user to /etc/subuid and /etc/subgid.",
    ),
)

# How mmdebstrap and apt begin the line of an error, and how sqfstar does.
_COMPLAINTS: Final = ("E:", "FATAL ERROR:")


def explain(outcome: Outcome, definition: ImageDefinition, log: Path) -> ImageError:
    """The error for a build that did not end well. `log` holds everything the build said."""
    if outcome.timed_out:
        return ImageError(
            f"Building the base image took longer than {BUILD_TIMEOUT_S / 60:.0f} minutes and was stopped.",
            f"The log is {log}.",
        )
    text = "\n".join(outcome.last_lines)
    for words, problem, hint in _REASONS:
        if any(word in text for word in words):
            names = {
                "release": str(definition.release),
                "codename": definition.codename,
                "architecture": definition.debian_architecture,
            }
            return ImageError(problem.format(**names), f"{hint} The log is {log}.")
    said = next((line for line in reversed(outcome.last_lines) if line.startswith(_COMPLAINTS)), "")
    reason = said.removeprefix("E: ").removeprefix("FATAL ERROR: ").rstrip(".") or _how_they_ended(outcome)
    return ImageError(f"Building the base image failed: {reason}.", f"The log is {log}.")


def _how_they_ended(outcome: Outcome) -> str:
    """Both exit codes and the last words. Where sqfstar fails, mmdebstrap ends its own process group by SIGHUP."""
    ends = f"mmdebstrap ended with {outcome.producer_exit}, sqfstar with {outcome.consumer_exit}"
    last = outcome.last_lines[-1].strip() if outcome.last_lines else ""
    return f"{ends}; the last line was `{last}`" if last else ends
