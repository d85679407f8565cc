"""BIRD's numbered lines, as a running BIRD wrote them, through a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from anycastlab.virtual_router.dataplane.bird_control import NoAnswer, Reply, ask, decode
from tests.unit.dataplane.bird_socket import bird_socket
from tests.unit.dataplane.recorded import sections

SYNTAX = "9001 syntax error, unexpected CF_SYM_UNDEFINED, expecting CF_SYM_KNOWN or TEXT or ALL"


def talk(folder: Path, answers: dict[str, list[str]], *commands: str) -> tuple[tuple[Reply, ...], list[str]]:
    async def go() -> tuple[tuple[Reply, ...], list[str]]:
        async with bird_socket(folder / "ctl", lambda command: answers[command]) as asked:
            return await ask(*commands, path=folder / "ctl", timeout_s=10), asked

    return asyncio.run(go())


def test_continued_lines_keep_their_code_and_lose_its_digits() -> None:
    reply = decode(["1011-Router ID is 10.1.2.1", " Hostname is router", "0013 Daemon is up and running"])
    assert reply.lines == (
        (1011, "Router ID is 10.1.2.1"),
        (1011, "Hostname is router"),
        (13, "Daemon is up and running"),
    )
    assert reply.error is None


def test_a_route_keeps_its_indentation() -> None:
    reply = decode(["1007-10.79.0.0/16         unicast [s4 04:13:58] * (254)", " \tdev dns", "0000 "])
    assert reply.text == "10.79.0.0/16         unicast [s4 04:13:58] * (254)\n\tdev dns\n\n"


@pytest.mark.parametrize("lines", [[" first"], ["Table master4:"], [""]])
def test_what_is_not_the_protocol_is_said_so(lines: list[str]) -> None:
    with pytest.raises(ValueError, match=r"begins with|no code"):
        decode(lines)


def test_several_commands_share_a_connection_and_an_error_is_told_apart(tmp_path: Path) -> None:
    answers = {**sections("up"), "reload in 'nosuch'": [SYNTAX], "restart 'x'": ["0012-x: restarted", "0000 "]}
    replies, asked = talk(tmp_path, answers, "show status", "reload in 'nosuch'", "restart 'x'")
    assert asked == ["hello", "show status", "reload in 'nosuch'", "restart 'x'"]
    assert [reply.error for reply in replies] == [None, SYNTAX[5:], None]
    assert "Current server time is 2026-11-30 04:14:04.449\n" in replies[0].text


def test_a_failure_in_the_middle_of_a_reply_is_an_error() -> None:
    assert decode(["8006-node01: reload failed", "0000 "]).error == "node01: reload failed"


def test_a_line_longer_than_a_streams_usual_limit_arrives_whole(tmp_path: Path) -> None:
    path = "\tBGP.as_path: " + " ".join(["65053"] * 20_000)
    replies, _ = talk(tmp_path, {"show route all": [f"1012-{path}", "0000 "]}, "show route all")
    assert replies[0].text == f"{path}\n\n"


def test_log_lines_in_between_belong_to_no_reply(tmp_path: Path) -> None:
    replies, _ = talk(tmp_path, {"configure": ["0002-Reading", "+bfd1: Bad packet", "0003 Reconfigured"]}, "configure")
    assert replies[0].lines == ((2, "Reading"), (3, "Reconfigured"))


def test_a_bird_that_is_not_there_goes_away_or_hangs_gives_no_answer(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="No such file"):
        asyncio.run(ask("show status", path=tmp_path / "none"))
    with pytest.raises(NoAnswer, match="closed"):
        talk(tmp_path, {"show status": []}, "show status")

    async def hang() -> None:
        def never(_: str) -> Sequence[str]:
            return ["1000-BIRD 2.17.6"]

        async with bird_socket(tmp_path / "ctl", never):
            await ask("show status", path=tmp_path / "ctl", timeout_s=0.05)

    with pytest.raises(NoAnswer, match=r"within 0\.05 s"):
        asyncio.run(hang())
