"""The base image made from a small Debian of an Incus remote, which here is the machine's own daemon under its name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anycastlab.host import apt, mirror
from anycastlab.image import build, commands
from anycastlab.image.definition import CODENAMES, DerivedDefinition
from anycastlab.image.store import ImageStore, StoredImage
from anycastlab.paths import cache_dir

RELEASE = 12  # not the default, so that it can only come from the image
ALIAS = f"anycastlab-test-source/{RELEASE}/{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
SOURCE = f"local:{ALIAS}"
INSTANCE = "anycastlab-remote-image-test"
PATIENCE_S = 60.0
BUILD_PATIENCE_S = 300.0

_BUILD = "import sys; from anycastlab.image import build; build.ensure(sys.argv[1])"
# As in a deploy: pyinfra puts gevent's versions in place of pipes, threads and `os.close`.
_BUILD_IN_A_DEPLOY = f"""
from gevent import monkey
monkey.patch_all()
import sys
from anycastlab.image import build_process
from anycastlab.image.errors import ImageError
try:
    build_process.ensure(sys.argv[1], release={RELEASE}, say=lambda line: print(line, flush=True))
except ImageError as error:
    sys.exit(f"error: {{error}}")
"""


def incus(*arguments: str, check: bool = True) -> str:
    return subprocess.run(
        ["incus", "--project", "default", *arguments], capture_output=True, text=True, check=check
    ).stdout


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return met


def derived() -> DerivedDefinition:
    return DerivedDefinition(ImageStore().architecture(), source=SOURCE)


def made() -> list[StoredImage]:
    return [image for image in ImageStore().images() if image.digest == derived().digest]


@pytest.fixture(scope="module")
def small_debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with Debian's essential packages and apt; its own apt would reach nothing and stop every build.

    Its file is kept beside other downloads, for it takes a minute to make.
    """
    rootfs = cache_dir() / "tests" / f"small-debian-{RELEASE}.squashfs"
    if not rootfs.exists():
        rootfs.parent.mkdir(parents=True, exist_ok=True)
        sources = mirror.source_lines(apt.archives(), CODENAMES[RELEASE])
        traps = (
            'echo "deb http://127.0.0.1:9/debian nowhere main" > "$1/etc/apt/sources.list"; '
            'echo \'APT::Update::Pre-Invoke { "false"; };\' > "$1/etc/apt/apt.conf.d/10-trap"; '
            'ln -sfn /run/systemd/resolve/stub-resolv.conf "$1/etc/resolv.conf"'
        )
        command = [
            "mmdebstrap",
            "--variant=apt",
            "--format=tar",
            "--skip=output/dev",
            "--skip=cleanup/apt",
            f"--customize-hook={traps}",
        ]
        partial = rootfs.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with subprocess.Popen(
            [*command, CODENAMES[RELEASE], "-", *(["-"] if sources else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as builder:
            assert builder.stdin is not None
            builder.stdin.write(sources.encode())
            builder.stdin.close()
            subprocess.run(commands.squash_command(partial), stdin=builder.stdout, check=True, capture_output=True)
        assert builder.returncode == 0
        partial.rename(rootfs)
    folder = tmp_path_factory.mktemp("metadata")
    (folder / "metadata.yaml").write_text(f"architecture: {ImageStore().architecture()}\ncreation_date: 1\n")
    subprocess.run(["tar", "-C", folder, "-cf", folder / "metadata.tar", "metadata.yaml"], check=True)
    forget()
    incus("image", "import", "-q", str(folder / "metadata.tar"), str(rootfs), "--alias", ALIAS)
    try:
        yield ALIAS
    finally:
        forget()


def forget() -> None:
    for image in made():
        incus("image", "delete", image.fingerprint)
    incus("image", "delete", ALIAS, check=False)


@pytest.mark.usefixtures("small_debian")
@pytest.mark.parametrize(
    ("program", "number"),
    [(_BUILD, signal.SIGTERM), (_BUILD_IN_A_DEPLOY, signal.SIGTERM), (_BUILD_IN_A_DEPLOY, signal.SIGKILL)],
    ids=["alone", "in a deploy", "in a deploy that is killed"],
)
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, program: str, number: signal.Signals) -> None:
    # Given a build that has unpacked the image and is adding to it
    process = subprocess.Popen(
        [sys.executable, "-c", program, SOURCE],
        env={**os.environ, "TMPDIR": str(tmp_path), "ANYCASTLAB_CACHE": str(tmp_path / "cache")},
        stderr=subprocess.DEVNULL,
    )
    assert until(lambda: any(tmp_path.glob("anycastlab-image-*/mmdebstrap.*/var/lib/apt/lists/*_InRelease")))

    # When it is ended
    process.send_signal(number)
    assert process.wait(PATIENCE_S) != 0

    # Then neither files nor mounts nor an image are left
    assert until(lambda: [path.name for path in tmp_path.iterdir()] == ["cache"])
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert made() == []


@pytest.fixture(scope="module")
def alias(small_debian: str) -> str:  # noqa: ARG001
    """Built as a deploy builds it."""
    done = subprocess.run(
        [sys.executable, "-c", _BUILD_IN_A_DEPLOY, SOURCE],
        capture_output=True,
        text=True,
        timeout=BUILD_PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "  packing …" in done.stdout.splitlines()
    return derived().alias


@pytest.mark.usefixtures("small_debian")
def test_an_error_of_a_build_in_a_deploy_is_the_builds_own_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD_IN_A_DEPLOY, "local:nowhere"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_says_where_it_comes_from_and_is_made_once(alias: str) -> None:
    said: list[str] = []
    assert build.ensure(SOURCE, say=said.append) == alias == derived().alias
    assert said == []

    shown = json.loads(incus("image", "list", alias, "--format", "json"))[0]
    source = json.loads(incus("image", "list", ALIAS, "--format", "json"))[0]
    assert shown["properties"]["anycastlab.source"] == f"{SOURCE} {source['fingerprint']}"
    assert shown["properties"]["release"] == CODENAMES[RELEASE]


@pytest.fixture(scope="module")
def machine(alias: str) -> Iterator[Callable[[str], str]]:
    """Runs a shell line in a machine that was just made from the image and has no network."""
    incus("delete", "-f", "-q", INSTANCE, check=False)
    try:
        incus("launch", "-q", "--no-profiles", "-s", "anycastlab", alias, INSTANCE)
        state = ["exec", INSTANCE, "--", "systemctl", "is-system-running"]
        assert until(lambda: incus(*state, check=False).strip() in ("running", "degraded"))
        yield lambda line: incus("exec", INSTANCE, "--", "sh", "-c", line, check=False).strip()
    finally:
        incus("delete", "-f", "-q", INSTANCE, check=False)


def test_it_boots_with_everything_there_and_nothing_started(machine: Callable[[str], str]) -> None:
    assert machine("systemctl is-system-running --wait") == "running"
    assert machine(". /etc/os-release; echo $VERSION_ID") == str(RELEASE)
    assert machine("dpkg -l frr unbound dnsdist knot python3-dnspython | grep -c ^ii") == "5"
    units = "frr unbound dnsdist knot ssh"
    assert machine(f"systemctl is-enabled {units}").split() == ["disabled"] * 5
    assert machine(f"systemctl is-active {units}").split() == ["inactive"] * 5
    assert machine("systemctl is-enabled systemd-networkd systemd-logind").split() == ["enabled", "masked"]


def test_what_the_lab_needs_starts_when_asked(machine: Callable[[str], str]) -> None:
    machine("systemctl start frr unbound ssh")

    assert machine("systemctl is-active frr unbound ssh").split() == ["active"] * 3
    assert machine("python3 -c 'import dns.message; print(1)'") == "1"


def test_nothing_of_the_build_or_the_images_own_set_up_is_left(machine: Callable[[str], str]) -> None:
    assert machine("cat /etc/resolv.conf") == "# Written by the deploy."
    assert machine("find /etc/apt -type f; ls -d /.apt* /usr/sbin/policy-rc.d /sbin/start-stop-daemon.REAL") == ""
    assert machine("hostname; cat /etc/hostname").split() == [INSTANCE, INSTANCE]
    assert machine("stat -c '%a %U' / /etc /root").splitlines() == ["755 root", "755 root", "700 root"]
