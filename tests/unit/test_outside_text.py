"""What others said is printed, stored and drawn as plain text of a bounded length, wherever it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anycastlab import outside_text
from anycastlab.errors import AnycastlabError
from anycastlab.probe_control import read_state, table
from anycastlab.routeros.errors import refused
from anycastlab.routeros.row import describe
from anycastlab.status.answer import Answer
from anycastlab.status.asking import ask_from
from anycastlab.status.gather import node_status, service_status
from anycastlab.status.household import Household
from tests.unit.routeros.support import make_site

HOSTILE = "node01\x1b]0;owned\x07\x1b[2J\r\n\x9b31m\u202etxt\u2028\ud800\x00<br>|"


@pytest.mark.parametrize("character", list("\x00\a\b\t\n\r\x1b\x7f\x85\x9b\u200b\u2028\u202e\u2066\ud800\ufeff"))
def test_nothing_a_terminal_obeys_is_left(character: str) -> None:
    assert outside_text.one_line(f"a{character}b") == "a b"
    assert outside_text.name(f"a{character}b") == "a b"


def test_ordinary_text_stays_as_it_is_in_any_language() -> None:
    for text in ("node01", "Wörter, 日本語 e\u0301 😀", ""):
        assert outside_text.one_line(text) == text


def test_length_is_bounded_and_cleaning_twice_changes_nothing() -> None:
    long = outside_text.one_line(HOSTILE * 10_000)
    assert len(long) == outside_text.MOST
    assert outside_text.one_line(long) == long
    assert len(outside_text.name("x" * 60_000)) == outside_text.MOST_NAME
    assert outside_text.lines("a\nb\x1b", 10) == "a\nb "
    assert len(outside_text.lines("a\n" * 60_000, 10)) == 10


def test_an_error_that_quotes_others_is_fit_for_a_terminal() -> None:
    error = AnycastlabError(f"The router says {HOSTILE}." + "x" * 60_000, "Look.\nThere.")
    assert "\x1b" not in str(error)
    assert error.hint == "Look.\nThere."
    assert len(str(error)) < 5000


def test_a_routers_refusal_and_its_rows_are_plain_text() -> None:
    trap = refused(HOSTILE * 1000, "0", "/ip/dns/set", "192.0.2.1")
    assert "\x1b" not in str(trap)
    assert len(str(trap)) < 500
    told = describe({".id": "*1", "name": HOSTILE, "comment": HOSTILE})
    assert "\x1b" not in told
    assert "\n" not in told


def test_an_identity_in_the_status_is_plain_text() -> None:
    site = make_site(lab="lab")
    said = json.dumps([[HOSTILE, *["x" * 60_000] * 100]])
    answers, problem = ask_from(site, lambda _: (True, said), [["10.1.9.53", "id.anycast.lan", "TXT"]])
    assert problem is None
    answered_by = service_status(site, answers[0], None, "10.1.9.53").answered_by
    assert answered_by is not None
    assert answered_by.isprintable()
    assert answers[0] is not None
    assert sum(map(len, answers[0])) < 10_000


def test_what_a_nodes_programs_print_is_plain_text_in_the_status() -> None:
    site = make_site()
    bgp = json.dumps({"ipv4Unicast": {"peers": {"10.1.2.1": {"state": HOSTILE}}}})
    node = node_status(site.nodes[0], site, Answer(0, f"version\tv1 \x1b[2J\nbgp\t{bgp}\n"), Household.of(site, (), ()))
    assert node.bgp is not None
    assert node.bgp.isprintable()
    assert node.version is not None
    assert node.version.isprintable()


def test_what_a_probe_published_is_plain_text_in_the_table() -> None:
    state = {
        "written": 100.0,
        "cause": "sick",
        "state": "withdrawn",
        "effective": False,
        "since": 90.0,
        "p95_s": None,
        "reason": HOSTILE,
        "problems": {"x": HOSTILE * 1000},
        "questions": {"resolver": {"good": False, "last": {"outcome": HOSTILE, "detail": HOSTILE}}},
    }
    probe = read_state(lambda *_: (0, f"{json.dumps(state)}\n100.5\n"), "node01")
    assert "\x1b" not in table([probe])
    assert len(table([probe])) < 2000


def test_only_this_module_decides_what_is_harmless() -> None:
    """A second way to clean text would be a second bound."""
    package = Path(outside_text.__file__).parent
    others = [
        path for path in package.rglob("*.py") if "isprintable" in path.read_text() and path.name != "outside_text.py"
    ]
    assert others == []


def test_error_numbers_are_left_to_programmers() -> None:
    said = "Could not connect ([Errno None] Unable to connect to port 1 on 127.0.0.11)"
    assert str(AnycastlabError(said, "[Errno 2] No such file.")) == said.replace("[Errno None] ", "") + " No such file."
