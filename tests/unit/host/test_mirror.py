"""The mirror is the one the machine already uses, whatever else is configured beside it."""

from __future__ import annotations

import pytest

from anycastlab.host.mirror import Archives, debian_archives, parse_index_targets, source_lines

NO_LISTS: dict[str, str] = {}


def archives(output: str, lists: dict[str, str] = NO_LISTS) -> Archives | None:
    return debian_archives(parse_index_targets(output), lists.__getitem__)


UPDATED = """\
http://mirror.example/debian|bookworm-backports|main|Debian Backports|Debian Backports
http://mirror.example/debian|bookworm|main|Debian|Debian
http://mirror.example/debian|bookworm|contrib|Debian|Debian
http://mirror.example/debian|bookworm-updates|main|Debian|Debian
http://mirror.example/debian-security|bookworm-security|main|Debian|Debian-Security
"""


def test_main_updates_and_security_are_told_apart() -> None:
    assert archives(UPDATED) == Archives(
        "http://mirror.example/debian", "http://mirror.example/debian", "http://mirror.example/debian-security"
    )


def test_before_the_first_update_apt_knows_no_origin_and_the_path_decides() -> None:
    output = (
        "http://mirror.example/debian|bookworm|main|$(ORIGIN)|$(LABEL)\n"
        "http://mirror.example/debian-security|bookworm-security|main|$(ORIGIN)|$(LABEL)\n"
    )

    assert archives(output) == Archives("http://mirror.example/debian", "", "http://mirror.example/debian-security")


@pytest.mark.parametrize("origin", ["zabbly", "$(ORIGIN)"])
def test_other_vendors_with_debians_code_names_are_not_debian(origin: str) -> None:
    foreign = f"https://packages.example/incus/stable|bookworm|main|{origin}|{origin}\n"

    assert archives(foreign) is None
    found = archives(foreign + UPDATED)
    assert found is not None
    assert found.main == "http://mirror.example/debian"


def test_suites_may_be_named_by_their_role() -> None:
    output = (
        "https://mirror.example/debian|stable|main|Debian|Debian\n"
        "https://mirror.example/debian|stable-updates|main|Debian|Debian\n"
        "https://security.example|stable-security|main|Debian|Debian-Security\n"
    )

    assert archives(output) == Archives(
        "https://mirror.example/debian", "https://mirror.example/debian", "https://security.example"
    )


def test_the_old_name_of_the_security_suite_is_known() -> None:
    output = UPDATED.replace("bookworm-security", "bullseye/updates")

    found = archives(output)

    assert found is not None
    assert found.security == "http://mirror.example/debian-security"


def test_cloud_images_name_a_list_of_mirrors() -> None:
    output = (
        "mirror+file:/etc/apt/mirrors/debian.list|trixie|main|Debian|Debian\n"
        "mirror+file:/etc/apt/mirrors/debian-security.list|trixie-security|main|$(ORIGIN)|$(LABEL)\n"
    )
    lists = {
        "/etc/apt/mirrors/debian.list": "# nearest first\n\nhttps://near.example/debian/\thttps\nhttps://far.example/debian\n",
        "/etc/apt/mirrors/debian-security.list": "https://near.example/debian-security\n",
    }

    assert archives(output, lists) == Archives(
        "https://near.example/debian", "", "https://near.example/debian-security"
    )


@pytest.mark.parametrize("output", ["", "garbage\n", "cdrom:[Debian 12]|bookworm|main|Debian|Debian\n"])
def test_nothing_usable_is_none(output: str) -> None:
    assert archives(output) is None


def test_ubuntu_has_no_debian_archive() -> None:
    assert archives("http://mirror.example/ubuntu|noble|main|Ubuntu|Ubuntu\n") is None


def test_the_same_mirror_serves_another_release() -> None:
    assert source_lines(archives(UPDATED), "trixie") == (
        "deb http://mirror.example/debian trixie main\n"
        "deb http://mirror.example/debian trixie-updates main\n"
        "deb http://mirror.example/debian-security trixie-security main\n"
    )


def test_what_is_not_configured_here_is_not_used() -> None:
    assert source_lines(Archives("http://m.example/debian"), "trixie") == "deb http://m.example/debian trixie main\n"
    assert source_lines(None, "trixie") == ""
