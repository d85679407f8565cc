"""What a person reads before a change: every file, no secret."""

from __future__ import annotations

from anycastlab.node import layout, plan, render, show
from anycastlab.node.facts import NodeState
from anycastlab.node.managed import ManagedFile
from anycastlab.site import Bgp, Site
from tests.unit.node.homes import home
from tests.unit.node.test_plan import PASSWORDS, wanted


def test_the_headline_names_what_stops() -> None:
    found = plan.make(
        wanted("node02"), NodeState(present=True, packages=frozenset(layout.packages("unbound"))), PASSWORDS
    )
    assert show.headline(found) == (
        "write 19 files; restart anycast0, frr, unbound, anycastlab-probe; start anycastlab-escalate.path"
    )


def test_a_changed_line_is_shown_and_a_key_is_not() -> None:
    # given a node whose key and timers change
    old_site, new_site = home(bgp=Bgp(password="0ld-k3y")), home(bgp=Bgp(password="n3w-k3y", hold_s=12))
    old, new = _frr(old_site), _frr(new_site)
    # when the difference is shown
    lines = show.details(plan.Plan(files=(new,)), {layout.FRR_CONFIG: old.content.decode()})
    # then the timers are there and neither key
    text = "\n".join(lines)
    assert "- timers bgp 3 9" in text
    assert "+ timers bgp 3 12" in text
    assert "k3y" not in text


def test_a_change_of_the_key_alone_is_told_without_it() -> None:
    old, new = _frr(home(bgp=Bgp(password="0ld-k3y"))), _frr(home(bgp=Bgp(password="n3w-k3y")))
    assert show.details(plan.Plan(files=(new,)), {layout.FRR_CONFIG: old.content.decode()}) == [
        f"~ {layout.FRR_CONFIG}: a secret differs"
    ]


def test_a_private_key_is_never_shown() -> None:
    key = ManagedFile(layout.TLS_KEY, b"-----BEGIN PRIVATE KEY-----\nabcdef\n", secret=True)
    assert "abcdef" not in "\n".join(show.details(plan.Plan(files=(key,)), {}))


def test_a_changed_mode_alone_is_told() -> None:
    file = ManagedFile("/etc/x", b"same\n", mode=0o600)
    assert show.details(plan.Plan(files=(file,)), {"/etc/x": "same\n"}) == ["~ /etc/x: owner root:root, mode 600"]


def test_the_passwords_of_adguard_home_are_masked_everywhere() -> None:
    found = plan.make(wanted(), NodeState(present=True), PASSWORDS)
    assert "secret" not in "\n".join(show.details(found, {}))


def _frr(site: Site) -> ManagedFile:
    made = render.files(site, site.nodes[0], render.Machine("node01"))
    return next(file for file in made if file.path == layout.FRR_CONFIG)
