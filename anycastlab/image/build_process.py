"""The build in a process of its own, for callers inside pyinfra.

pyinfra runs on gevent, which replaces pipes, threads and even `os.close` by versions that wait for its loop: until then
a closed descriptor stays open. `process.run_piped` reads until all writers of a pipe are gone: inside pyinfra it would
wait for itself, and its timeout, a thread, would never get its turn.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from anycastlab.image.errors import ImageError


def ensure(image: str, *, release: int, say: Callable[[str], None]) -> None:
    """The image of `build.ensure` is in the local server then. `say` receives its progress, line by line.

    Raises ImageError with the build's own sentence. If this process ends, in whatever way, the build is interrupted.
    """
    command = [sys.executable, "-m", "anycastlab.image", str(release), *([image] if image else [])]
    # A session of its own: Ctrl-C reaches us alone, and what ends the build is that we let go of its input.
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stdout:
                say(line.rstrip("\n"))
            # A sentence, or the traceback of a bug: less than a pipe holds, so it could wait for its turn.
            complaint = process.stderr.read().strip()
        finally:
            process.stdin.close()
        code = process.wait()
    if code:
        raise ImageError(complaint or f"The build of the base image was interrupted (exit code {code}).")
