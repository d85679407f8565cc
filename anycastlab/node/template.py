"""Templates of what lands on machines: where they lie, how values are quoted in them, and what is said of a broken one.

They are arranged by what they belong to: the machine, a resolver, a design. Found as data of the package, so that an
installed wheel has them, too.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, UndefinedError

from anycastlab.node.errors import NodeError

TEMPLATES: Final = Path(str(resources.files("anycastlab").joinpath("templates")))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # nothing here is HTML; values are quoted where they stand, by the filters below and `tojson`
    )
    environment.filters |= {"sh": shlex.quote, "quoted": _quoted, "word": _word}
    return environment


def _quoted(text: str) -> str:
    """In double quotes, for unbound, which knows no escapes in them."""
    if not re.fullmatch(r'[^"\\\x00-\x1f\x7f]*', str(text)):
        raise NodeError(f"{text!r} cannot be written into a configuration file.", "Leave out quotes and line breaks.")
    return f'"{text}"'


def _word(text: str) -> str:
    """As it stands, for FRR and sysctl, which end a value at white space and quote nothing."""
    if not re.fullmatch(r"[!-~]+", str(text)):  # not shown: it may be a key
        raise NodeError("A value for FRR or sysctl is not one word.", "Leave out spaces and line breaks.")
    return str(text)


def filled(template: str, context: dict[str, Any]) -> bytes:
    """The file that `template` (a path below `TEMPLATES`) and `context` make; raises NodeError."""
    try:
        return _environment().get_template(template).render(context).encode()
    except UndefinedError as error:
        raise NodeError(
            f"The template {template} uses something that is not there: {error.message}.",
            "Correct the template or give the variable.",
        ) from None
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise NodeError(f"The template {template}{where} is broken: {error.message}.") from None
