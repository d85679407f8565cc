"""The base image against the real daemon. The standard one is built at most once; interrupted builds are of another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anycastlab.image import build
from anycastlab.image.definition import ImageDefinition
from anycastlab.image.store import ImageStore

# An image nobody else builds, so that an unlucky interruption cannot cost anybody theirs.
OTHER_LAYOUT = 999
PATIENCE_S = 60.0
SECOND_CALL_S = 1.5  # three questions to the daemon, 30 ms each, on a busy machine
INSTANCE = "anycastlab-image-test"

_BUILD = f"""
import sys
from anycastlab.image import build, limits
from anycastlab.image.definition import ImageDefinition
from anycastlab.image.errors import ImageError
from anycastlab.image.store import ImageStore
limits.BUILD_DISK_MIB = int(sys.argv[1])
store = ImageStore()
definition = ImageDefinition(store.architecture(), layout={OTHER_LAYOUT})
try:
    build.ensure_built(definition, store=store, say=lambda line: print(line, flush=True))
except ImageError as error:
    print(f"error: {{error}}", flush=True)
    sys.exit(1)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def environment(workplace: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(workplace / "work"), "ANYCASTLAB_CACHE": str(workplace / "cache")}


def builder(workplace: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _BUILD, "0"],
        env=environment(workplace),
        stdout=subprocess.PIPE,
        text=True,
        # As a shell does it for a job in the foreground; a test runner in the background may have SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - one thread here
    )


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return met


def mentions(workplace: Path) -> list[str]:
    """Processes and mounts of the build that are still there."""
    found = [line for line in Path("/proc/mounts").read_text().splitlines() if str(workplace) in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(workplace / "work") in command:
            found.append(command)
    return found


def in_incus(definition: ImageDefinition) -> bool:
    images = ImageStore().images()
    return any(image.digest == definition.digest or definition.alias in image.aliases for image in images)


@pytest.fixture
def other() -> ImageDefinition:
    return ImageDefinition(ImageStore().architecture(), layout=OTHER_LAYOUT)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_build_leaves_nothing(
    workplace: Path, other: ImageDefinition, number: signal.Signals, code: int
) -> None:
    # Given a build that is at work
    process = builder(workplace)
    work = workplace / "work"
    assert until(lambda: any(work.glob("anycastlab-image-*/mmdebstrap.*/var/lib/apt/lists/*_InRelease")))

    # When it is ended
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == code
    assert process.stdout is not None
    process.stdout.close()

    # Then its processes and mounts end with it, and no image is there
    assert until(lambda: mentions(workplace) == []), mentions(workplace)
    assert not in_incus(other)
    if number is signal.SIGKILL:
        # What nobody could tidy up, the next build does before it begins.
        assert any(work.iterdir())
        build._remove_abandoned(work)
    assert list(work.iterdir()) == []


def test_a_full_disk_is_one_sentence_and_leaves_nothing(workplace: Path, other: ImageDefinition) -> None:
    # Given a work directory with room for the package lists and not much more, in a mount name space of its own
    work = workplace / "work"
    listing = f"ls -A {work}"
    script = f'mount -t tmpfs -o size=120m small {work}; "$@"; code=$?; {listing}; exit $code'

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", _BUILD, "0"],
        env=environment(workplace),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    # Then it says so, and the listing after it is empty
    assert done.returncode == 1, done.stdout + done.stderr
    [log] = (workplace / "cache").glob("image-build-failed-*.log")
    assert done.stdout.splitlines()[-1] == (
        "error: The disk is full: the base image was not built. Free some space, or name another directory in TMPDIR, "
        f"and run it again. The log is {log}."
    )
    assert "No space left on device" in log.read_text() or "enough free space" in log.read_text()
    assert not in_incus(other)


@pytest.fixture(scope="module")
def standard() -> str:
    return build.ensure()


def test_the_second_call_builds_nothing_and_is_quick(standard: str) -> None:
    said: list[str] = []
    started = time.monotonic()

    assert build.ensure(say=said.append) == standard

    assert said == []
    assert time.monotonic() - started < SECOND_CALL_S


@pytest.fixture(scope="module")
def machine(standard: str) -> Iterator[Callable[[str], str]]:
    """Runs a shell line in a machine that was just made from the image and has no network."""

    def incus(*arguments: str, check: bool = True) -> str:
        return subprocess.run(
            ["incus", "--project", "default", *arguments], capture_output=True, text=True, check=check
        ).stdout

    incus("delete", "-f", "-q", INSTANCE, check=False)
    try:
        incus("launch", "-q", "--no-profiles", "-s", "anycastlab", standard, INSTANCE)
        state = ["exec", INSTANCE, "--", "systemctl", "is-system-running"]
        assert until(lambda: incus(*state, check=False).strip() in ("running", "degraded"))
        yield lambda line: incus("exec", INSTANCE, "--", "sh", "-c", line, check=False).strip()
    finally:
        incus("delete", "-f", "-q", INSTANCE, check=False)


def test_a_machine_boots_without_a_failed_unit(machine: Callable[[str], str]) -> None:
    assert machine("systemctl is-system-running --wait") == "running"


def test_nothing_of_the_lab_starts_by_itself(machine: Callable[[str], str]) -> None:
    assert machine("systemctl is-enabled frr unbound dnsdist ssh").split() == ["disabled"] * 4
    assert machine("systemctl is-active frr unbound dnsdist ssh").split() == ["inactive"] * 4


def test_what_the_lab_needs_starts_when_asked(machine: Callable[[str], str]) -> None:
    machine("systemctl start frr unbound ssh")

    assert machine("systemctl is-active frr unbound ssh").split() == ["active"] * 3
    assert machine("for p in nft conntrack dnsdist ethtool openssl ping; do command -v $p; done | wc -l") == "6"
    assert machine("python3 -c 'import dns.message; print(1)'") == "1"


def test_each_machine_has_its_own_identity(machine: Callable[[str], str]) -> None:
    assert machine("hostname; cat /etc/hostname").split() == [INSTANCE, INSTANCE]
    assert len(machine("cat /etc/machine-id")) == 32
    # Keys of sshd are made at its first start, never shipped.
    born = "stat -c %Y /run/systemd"  # made when this machine booted
    machine("systemctl start ssh")
    assert int(machine("stat -c %Y /etc/ssh/ssh_host_ed25519_key")) >= int(machine(born)) - 1


def test_the_root_directory_is_roots_alone(machine: Callable[[str], str]) -> None:
    assert machine("stat -c '%a %U' / /etc /root").splitlines() == ["755 root", "755 root", "700 root"]
