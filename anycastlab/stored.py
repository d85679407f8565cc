"""What was written to a file earlier, read again: whole, of a bounded size, and never waited for.

A file that is there and cannot be understood is damaged, and that is another thing than no file: who reads says so and
does not go on as if there had been nothing. Standard library alone.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NoReturn

MOST: Final = 64 << 20
"""Octets of a file that is read at once: a long run's summary and a router's backup have far less."""

MOST_LINE: Final = 1 << 20
"""Characters of one line of a file that is read line by line: a record of a query has some hundred."""

_SHOWN: Final = 60  # characters of a value in a sentence


class Damaged(ValueError):  # noqa: N818  (a state of a file)
    """The file is there and is not what was written; the text says why and fits after "is damaged: "."""


def read_json(path: Path, most: int = MOST) -> Any:
    """The JSON document in a file; raises Damaged, or OSError (FileNotFoundError where there is none)."""
    return parse_json(_read(path, most), most)


def read_text(path: Path, most: int = MOST) -> str:
    """The UTF-8 text in a file; raises Damaged, or OSError."""
    content = _read(path, most)
    if len(content) > most:
        raise Damaged(f"it is larger than {most >> 10} KiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Damaged("it is no text") from None


def _read(path: Path, most: int) -> bytes:
    """One octet more than may be, so that one sees whether there was more."""
    with opened(path) as file:
        return file.read(most + 1)


def parse_json(content: bytes | str, most: int = MOST) -> Any:
    """The value that JSON text stands for, which a file or another machine gave; raises Damaged, a ValueError.

    `most` is octets, of a text characters. Numbers without end are none (RFC 8259, 6).
    """
    if len(content) > most:
        raise Damaged(f"it is larger than {most >> 10} KiB")
    if not content.strip():
        raise Damaged("it is empty")
    try:
        return json.loads(content, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise Damaged(f"it is no JSON ({error.msg[0].lower()}{error.msg[1:]}, line {error.lineno})") from None
    except RecursionError:
        raise Damaged("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise Damaged("it is no text") from None
    except Damaged:
        raise
    except ValueError:  # more digits than Python takes for a number
        raise Damaged("a number in it is too long") from None


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file for reading. Raises Damaged for what is no regular file (a FIFO would be waited for), and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        raise Damaged("it is a folder" if stat.S_ISDIR(kind) else "it is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def lines(file: IO[bytes]) -> Iterator[str]:
    """The lines of an open file, each with its end; raises Damaged for one that is too long or no text."""
    number = 0
    while content := file.readline(MOST_LINE + 1):
        number += 1
        if len(content) > MOST_LINE:
            raise Damaged(f"line {number} is longer than {MOST_LINE >> 10} KiB")
        try:
            yield content.decode("utf-8")
        except UnicodeDecodeError:
            raise Damaged(f"line {number} is no text") from None


def shown(value: object) -> str:
    """A value from a file as a sentence shows it: as JSON, not as Python, and not all of a long one."""
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _no_number(word: str) -> NoReturn:
    raise Damaged(f"{word} is no number")
