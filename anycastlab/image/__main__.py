"""`python -m anycastlab.image RELEASE [IMAGE]`: the build as a process of its own (see `build_process`).

Progress goes to standard output, the sentence of an error to standard error. The end of standard input means that
whoever asked is gone: the build is then interrupted and tidies up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from anycastlab.errors import AnycastlabError
from anycastlab.exit_codes import INTERRUPTED
from anycastlab.image import build
from anycastlab.image.process import ending_signals_interrupt


def main(arguments: list[str]) -> int:
    """Exit code: 0 the image is there, 1 an error a person can mend, 130 interrupted."""
    release, image = int(arguments[0]), arguments[1] if len(arguments) > 1 else ""
    try:
        with ending_signals_interrupt():
            threading.Thread(target=_interrupt_when_alone, daemon=True).start()
            build.ensure(image, release=release, say=_say)
    except AnycastlabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupt_when_alone() -> None:
    # The bare descriptor: a thread that waits inside sys.stdin would hold its lock when Python ends.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
