"""The pure parts of the `@incus` connector and of the file API."""

from __future__ import annotations

from io import BytesIO, StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyinfra.api.exceptions import InventoryError

from anycastlab.incus import connector, files
from anycastlab.incus.connector import IncusConnector
from anycastlab.incus.facts import ApiQuery, IncusAlias, IncusInstance
from anycastlab.incus.remotes import Server
from anycastlab.incus.rest import Rest
from anycastlab.incus.shell import client_command


@pytest.mark.parametrize(
    ("name", "instance", "remote"), [("node01", "node01", "local"), ("attic:node01", "node01", "attic")]
)
def test_a_host_name_holds_server_and_instance(name: str, instance: str, remote: str) -> None:
    assert list(IncusConnector.make_names_data(name)) == [
        (f"@incus/{name}", {"incus_instance": instance, "incus_remote": remote}, ["@incus"])
    ]


@pytest.mark.parametrize("name", ["", "1node", "node_01", "attic:", "a b", "node01-", "n" * 64, "x/y"])
def test_a_name_no_instance_can_have_is_refused(name: str) -> None:
    with pytest.raises(InventoryError, match="names no Incus instance"):
        list(IncusConnector.make_names_data(name))


@pytest.mark.parametrize(
    ("given_", "sent"),
    [
        (None, None),
        ("", None),
        ("one", b"one\n"),
        ("one\n", b"one\n"),
        (["one", "two\n"], b"one\ntwo\n"),
        (b"\x00\xff", b"\x00\xff"),
        (StringIO("text"), b"text"),
        (BytesIO(b"\x00"), b"\x00"),
    ],
)
def test_stdin_as_pyinfra_gives_it(given_: object, sent: bytes | None) -> None:
    assert connector.stdin_bytes(given_) == sent


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_lines_of_text_come_back_unchanged(lines: list[str]) -> None:
    output = "".join(f"{line}\n" for line in lines).encode()
    assert [line.line for line in connector._lines("stdout", output)] == lines


@given(st.binary())
def test_any_bytes_can_be_printed(output: bytes) -> None:
    for line in connector._lines("stdout", output):
        line.line.encode("utf-8")


def test_headers_go_out_under_both_names_with_the_leading_zero() -> None:
    assert files.headers("file", 0o640, 5, 0) == {
        "X-Incus-type": "file",
        "X-LXD-type": "file",
        "X-Incus-write": "overwrite",
        "X-LXD-write": "overwrite",
        "X-Incus-mode": "0640",
        "X-LXD-mode": "0640",
        "X-Incus-uid": "5",
        "X-LXD-uid": "5",
        "X-Incus-gid": "0",
        "X-LXD-gid": "0",
    }


def test_set_user_id_modes_keep_their_first_digit() -> None:
    assert files.headers("file", 0o4755)["X-Incus-mode"] == "04755"


@given(st.from_regex(r"\A(/[a-z.]{1,20}){1,4}\Z"))
def test_a_temporary_name_is_hidden_in_the_same_directory(path: str) -> None:
    temporary = files.beside(path)
    assert temporary.rpartition("/")[0] == path.rpartition("/")[0]
    assert temporary.rpartition("/")[2].startswith(".")
    assert temporary != files.beside(path)


def test_the_longest_name_leaves_room_for_the_temporary_one() -> None:
    assert len(files.beside("/etc/" + "n" * 255).rpartition("/")[2]) <= 255


def test_a_fact_is_also_an_ordinary_incus_command() -> None:
    command = IncusInstance().command(instance="node01", project="anycastlab")
    assert command.get_raw_value() == ("incus query '/1.0/instances/node01?project=anycastlab' 2>/dev/null || true")


def test_an_image_is_looked_for_where_images_are_also_before_the_labs_project_exists() -> None:
    class Projects:
        """Knows the image in `default`; every other project does not exist."""

        def __init__(self, project: str | None) -> None:
            self.project = project

        def in_project(self, project: str | None) -> Projects:
            return Projects(project)

        def find(self, path: str) -> dict[str, str] | None:
            return {"target": path} if self.project == "default" else None

    host = cast(Any, SimpleNamespace(rest=Projects("anycastlab-new")))
    answer = IncusConnector._ask(host, cast(ApiQuery, IncusAlias().command(alias="base")))
    assert answer.stdout == '{"target": "/images/aliases/base"}'


def test_shell_always_names_remote_and_project() -> None:
    rest = Rest(Server("attic", "https://192.0.2.7:8443"), "anycastlab")
    assert client_command(rest, "node01", ["ip", "-br", "a"]) == [
        *("incus", "exec", "--project", "anycastlab", "attic:node01", "--", "ip", "-br", "a")
    ]
