"""`python -m anycastlab.run PYINFRA-ARGUMENTS…`: the working process of a run. Started by `outside`.

Before anything heavy is imported it is made sure that this process ends with the one that shows what it does, and that
Ctrl-C is an exit code from the first moment on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from anycastlab.exit_codes import INTERRUPTED
from anycastlab.run.limits import PARENT_VARIABLE, STOP_LIMIT_S

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _stop(_number: int, _frame: object) -> None:
    # Once: who stops twice must not break what is being put back. The kernel ends what does not stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(STOP_LIMIT_S)
    raise SystemExit(INTERRUPTED)


def _tie_to_parent() -> None:
    # SIGINT, as that is what gives a router's half-made change back.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != int(os.environ.pop(PARENT_VARIABLE)):  # it has ended before this process could be tied to it
        os._exit(INTERRUPTED)


def _leave(_number: int, _frame: object) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    # Nothing has begun, and an exception out of an import that replaces the standard library would be a mess.
    signal.signal(signal.SIGINT, _leave)
    _tie_to_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # `outside` held it back until here
    from anycastlab.run.inside import main

    signal.signal(signal.SIGINT, _stop)
    sys.exit(main(sys.argv[1:]))
