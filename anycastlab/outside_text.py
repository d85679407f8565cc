"""Text that others said, fit to be printed, stored or drawn: nothing a terminal obeys, one line, bounded.

Others are all whose words we do not choose: a resolver's identity, a router's refusal, a peer's reason, a file somebody
sent us. Standard library alone: this module is in the archives that run on machines, too.
"""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 300
"""Characters kept of a sentence: some lines of a terminal, and more than a router or a resolver needs to say why."""

MOST_NAME: Final = 63
"""Characters kept of a name: a DNS label has no more (RFC 1035, 2.3.4)."""

MOST_NAMES: Final = 64
"""Different names kept of those that answer: as many as a home may have nodes. One more may be anybody's invention."""

_CUT: Final = "…"
_NUMBER: Final = re.compile(r"\[Errno (-?\d+|None)\] ")


def one_line(text: str, most: int = MOST) -> str:
    """`text` without line breaks, escape sequences, marks that turn its direction, and halves of characters.

    Each of these becomes a space; of more than `most` characters the end is cut off. Doing it twice changes nothing.
    """
    if len(text) <= most and text.isprintable():
        return text
    # Cut first: somebody's megabyte is not worth looking at whole.
    clean = "".join(c if c.isprintable() else " " for c in text[: most + 1])
    return clean if len(clean) <= most else clean[: most - 1] + _CUT


def lines(text: str, most: int) -> str:
    """As `one_line`, but its lines stay lines. `most` bounds the whole."""
    kept = text if len(text) <= most else text[: most - 1] + _CUT
    return "\n".join(one_line(line, most) for line in kept.split("\n"))


def without_numbers(text: str) -> str:
    """`text` without the error numbers that Python puts before the system's own words ("[Errno 2] No such file")."""
    return _NUMBER.sub("", text)


def name(text: str) -> str:
    """A name that somebody gave, bounded as a DNS label is."""
    return one_line(text, MOST_NAME).strip()
