"""Numbers and names that both processes of a run share. Imports nothing: it is read before anything heavy."""

from __future__ import annotations

from typing import Final

#: Seconds a stopped run may take to put a router's half-made change back; then the kernel ends it, and the router's own
#: safe mode does the same.
STOP_LIMIT_S: Final = 10
#: Environment of the working process: descriptor its messages go to, and the showing process' id.
CHANNEL_VARIABLE: Final = "ANYCASTLAB_RUN_CHANNEL"
PARENT_VARIABLE: Final = "ANYCASTLAB_RUN_PARENT"
#: Seconds between two looks at whether the working process should have stopped by now.
POLL_S: Final = 0.25
#: Seconds the showing process gets to clear the terminal before a question is asked on it.
CLEAR_S: Final = 0.2
