"""Reading what other programs write: os-release, source files, apt-cache, nft, iptables, Incus."""

from __future__ import annotations

import json

import pytest

from anycastlab.host import apt, firewall
from anycastlab.host.distribution import Distribution, parse_os_release

STANZAS = """\
# comment
Types: deb
URIs: http://other.example/debian
Suites: trixie
Signed-By: /other.gpg

Types: deb
URIs: http://mirror.example/debian/ http://second.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def test_os_release_of_debian() -> None:
    text = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n'

    assert parse_os_release(text) == Distribution("debian", "12", "bookworm", "Debian GNU/Linux 12 (bookworm)")


def test_os_release_survives_comments_and_broken_quotes() -> None:
    assert parse_os_release("# x\nID=ubuntu\nNAME='Ubuntu\nVERSION_ID='24.04'\nnonsense\n") == Distribution(
        "ubuntu", "24.04"
    )


@pytest.mark.parametrize(
    ("distribution", "supported"),
    [
        (Distribution("debian", "11"), False),
        (Distribution("debian", "12"), True),
        (Distribution("debian", "13"), True),
        (Distribution("debian", ""), True),  # testing and unstable have no number
        (Distribution("ubuntu", "22.04"), False),
        (Distribution("ubuntu", "24.04"), True),
        (Distribution("ubuntu", "25.10"), True),
        (Distribution("fedora", "42"), False),
    ],
)
def test_which_systems_have_incus_in_their_archive(distribution: Distribution, supported: bool) -> None:
    assert distribution.supported is supported


def test_signed_by_is_that_of_the_same_mirror() -> None:
    assert apt.signed_by([STANZAS], "http://mirror.example/debian") == "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert apt.signed_by([STANZAS], "http://second.example/debian/") == "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert apt.signed_by([STANZAS], "http://third.example/debian") == ""


def test_signed_by_in_a_one_line_source() -> None:
    lines = (
        "# deb [signed-by=/no.gpg] http://m.example/debian x main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://m.example/debian bookworm main\n"
    )

    assert apt.signed_by([lines], "http://m.example/debian") == "/k.gpg"


def test_a_key_written_into_the_source_keeps_its_lines() -> None:
    key = " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n -----END PGP PUBLIC KEY BLOCK-----"
    text = f"Types: deb\nURIs: http://m.example/debian\nSuites: x\nSigned-By:\n{key}\n"

    assert apt.signed_by([text], "http://m.example/debian") == f"\n{key}"


def test_packages_with_a_candidate() -> None:
    policy = (
        "incus-base:\n  Installed: (none)\n  Candidate: 6.0.4-2\n  Version table:\n     6.0.4-2 500\n"
        "incus:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n"
    )

    assert apt.parse_known_packages(policy) == {"incus-base"}


def chains(**chain: str) -> str:
    return json.dumps({"nftables": [{"metainfo": {}}, {"chain": {"family": "ip", "name": "FORWARD", **chain}}]})


@pytest.mark.parametrize(
    ("text", "drops"),
    [
        (chains(hook="forward", policy="drop"), True),
        (chains(hook="forward", policy="drop", family="inet"), True),
        (chains(hook="forward", policy="accept"), False),
        (chains(hook="input", policy="drop"), False),
        (chains(hook="forward", policy="drop", family="ip6"), False),
        (chains(), False),
        ("", False),
        ("[]", False),
    ],
)
def test_docker_is_seen_by_the_policy_of_the_forward_hook(text: str, drops: bool) -> None:
    assert firewall.forward_policy_drops(text) is drops


def test_the_older_tables_are_read_too() -> None:
    assert firewall.iptables_forward_drops("-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n")
    assert not firewall.iptables_forward_drops("-P FORWARD ACCEPT\n-A FORWARD -j DROP\n")
