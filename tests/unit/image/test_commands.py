"""The command lines of the build, and what its failures are called."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from anycastlab.image import commands
from anycastlab.image.definition import ImageDefinition
from anycastlab.image.failure import explain
from anycastlab.image.process import Outcome

DEFINITION = ImageDefinition("x86_64")
LOG = Path("/cache/image-build.log")


def builder(*, root: bool = True, sources: bool = True, definition: ImageDefinition = DEFINITION) -> list[str]:
    return commands.builder_command(
        definition,
        root=root,
        overlay=Path("/w/overlay.tar"),
        apt_options=Path("/w/apt.conf"),
        keyring="/keys.gpg",
        sources_on_stdin=sources,
    )


def test_release_and_architecture_in_debians_words() -> None:
    command = builder(definition=ImageDefinition("aarch64", release=12))

    assert "--architectures=arm64" in command
    assert command[-3:] == ["bookworm", "-", "-"]


def test_without_a_mirror_of_its_own_mmdebstrap_uses_its_default() -> None:
    assert builder(sources=False)[-2:] == ["trixie", "-"]


def test_only_root_may_use_root_mode() -> None:
    assert "--mode=root" in builder(root=True)
    assert "--mode=unshare" in builder(root=False)


def test_the_builder_of_root_lives_in_name_spaces_that_end_with_us() -> None:
    command = commands.contained(["x"], root=True)

    assert command[:4] == ["setpriv", "--pdeathsig", "KILL", "--"]
    assert "--kill-child=KILL" in command


def test_without_root_our_end_kills_the_whole_group() -> None:
    # Given the wrapper around a shell with a child that has told us its process id
    wrapped = commands.contained(["sh", "-c", "sleep 60 & echo $!; cat; wait"], root=False)
    process = subprocess.Popen(
        wrapped, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    child = int(process.stdout.readline())

    # When input came through and what the kernel sends at our end arrives
    process.stdin.write("input\n")
    process.stdin.flush()
    assert process.stdout.readline() == "input\n"
    process.send_signal(signal.SIGTERM)

    # Then nothing of it is left: the pipe has no writer any more
    assert process.stdout.read() == ""
    assert process.wait(10) == -signal.SIGKILL
    process.stdin.close()
    process.stdout.close()
    assert not Path(f"/proc/{child}/cmdline").exists() or Path(f"/proc/{child}/cmdline").read_bytes() == b""


def test_apt_never_reads_what_another_servers_image_says_to_it(tmp_path: Path) -> None:
    # Given the root that mmdebstrap prepared, and an image with an apt configuration of its own, and no /dev
    root = tmp_path / "root"
    (root / "etc/apt").mkdir(parents=True)
    (root / "etc/apt/sources.list").write_text("ours")
    image = (
        'mkdir -p "$1/etc/apt/apt.conf.d" "$1/var/lib/apt/lists" && echo theirs > "$1/etc/apt/sources.list" '
        '&& echo theirs > "$1/etc/apt/apt.conf.d/10" && echo theirs > "$1/var/lib/apt/lists/old"'
    )
    command = commands.builder_command(
        DEFINITION,
        root=True,
        overlay=Path("/w/overlay.tar"),
        apt_options=Path("/w/apt.conf"),
        keyring="/keys.gpg",
        sources_on_stdin=True,
        unpack=image,
    )

    # When it is unpacked the way the build does
    hook = next(word for word in command if word.startswith("--setup-hook=")).removeprefix("--setup-hook=")
    subprocess.run(["sh", "-c", hook, "sh", str(root)], check=True)

    assert [path.read_text() for path in root.rglob("*") if path.is_file()] == ["ours"]
    assert all((root / folder).is_dir() for folder in ("dev", "proc", "sys", "var/lib/apt/lists/partial"))


def test_mirror_addresses_and_proxies_stay_off_the_command_line() -> None:
    # They may hold a password, and every user can read command lines.
    assert not [word for word in builder() if "://" in word]


def test_the_hosts_proxy_is_used() -> None:
    dump = (
        'APT "";\nAcquire::http "";\nAcquire::http::Proxy "http://user:pw@proxy.example:3142";\n'
        'Acquire::https::Proxy "DIRECT";\nAcquire::Languages:: "en";\n'
    )

    proxies = commands.parse_proxies(dump)

    assert proxies == {"Acquire::http::Proxy": "http://user:pw@proxy.example:3142", "Acquire::https::Proxy": "DIRECT"}
    assert 'Acquire::http::Proxy "http://user:pw@proxy.example:3142";\n' in commands.apt_options(proxies)


def outcome(*lines: str, timed_out: bool = False) -> Outcome:
    return Outcome(1, 0, lines, timed_out)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "cannot write: No space left on device",
            "The disk is full: the base image was not built. Free some space, or name another directory in TMPDIR, "
            "and run it again. The log is /cache/image-build.log.",
        ),
        (
            "E: You don't have enough free space in /var/cache/apt/archives/.",
            "The disk is full: the base image was not built. Free some space, or name another directory in TMPDIR, "
            "and run it again. The log is /cache/image-build.log.",
        ),
        (
            "Err:1 http://m.example trixie InRelease  Temporary failure resolving 'm.example'",
            "The Debian mirror of this machine cannot be reached. "
            "See whether `apt-get update` works here, and run it again. The log is /cache/image-build.log.",
        ),
        (
            "E: The repository 'http://m.example/debian trixie Release' does not have a Release file.",
            "The Debian mirror of this machine does not have Debian 13 (trixie) for amd64. "
            "Look at the mirror in /etc/apt, or choose the release it has. The log is /cache/image-build.log.",
        ),
        (
            "W: GPG error: the following signatures couldn't be verified: NO_PUBKEY 6ED0E7B82643E131",
            "The Debian archive is signed with a key this machine does not know. "
            "Install a newer debian-archive-keyring and run it again. The log is /cache/image-build.log.",
        ),
        (
            "E: something new",
            "Building the base image failed: something new. The log is /cache/image-build.log.",
        ),
        (
            "what nobody expects",
            "Building the base image failed: mmdebstrap ended with 1, sqfstar with 0; the last line was `I: after`. "
            "The log is /cache/image-build.log.",
        ),
        (
            "FATAL ERROR: Out of space.",
            "Building the base image failed: Out of space. The log is /cache/image-build.log.",
        ),
    ],
)
def test_failures_in_the_words_a_person_reads(line: str, sentence: str) -> None:
    assert str(explain(outcome("I: before", line, "I: after"), DEFINITION, LOG)) == sentence


def test_a_build_that_hung() -> None:
    assert str(explain(outcome(timed_out=True), DEFINITION, LOG)) == (
        "Building the base image took longer than 30 minutes and was stopped. The log is /cache/image-build.log."
    )
