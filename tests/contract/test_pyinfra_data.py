"""`--data` means the same to our commands as to pyinfra, whose reading of it ours repeats."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.commands.options import parse_data

TEXTS = (
    "",
    "true",
    "False",
    "null",
    "7",
    "007",
    "+1",
    "1.5",
    "[1, 2]",
    '["a"]',
    "{",
    "10.1.1.1",
    "a=b",
    "1_000",
    "NaN",
)

# In a process of its own: importing pyinfra's command line replaces the standard library's sockets.
THEIRS = """
import json, sys
from pyinfra_cli.util import parse_cli_arg
print(json.dumps([repr(parse_cli_arg(text)) for text in json.loads(sys.argv[1])]))
"""


def theirs(texts: list[str]) -> list[str]:
    command = [sys.executable, "-c", THEIRS, json.dumps(texts)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [str(value) for value in found]


def test_values_are_read_as_pyinfra_reads_them() -> None:
    assert [repr(parse_data((f"key={text}",))["key"]) for text in TEXTS] == theirs(list(TEXTS))


@given(st.text(max_size=30))
def test_any_text_is_a_value(text: str) -> None:
    assert set(parse_data((f"key={text}",))) == {"key"}


@pytest.mark.parametrize("option", ["scenario", "phone"])
def test_commands_that_measure_keep_the_standard_library(option: str) -> None:
    check = (
        f"import sys, anycastlab.commands.{option}, anycastlab.scenarios.session, anycastlab.commands.options as o;"
        "o.parse_data(('a=1',)); from gevent import monkey; sys.exit(monkey.is_module_patched('socket'))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
