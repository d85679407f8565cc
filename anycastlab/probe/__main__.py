"""`python3 probe.pyz --config /etc/anycastlab/probe.json`: run the probe until a signal says stop."""

from __future__ import annotations

import gc
import signal
import sys

from anycastlab.probe.config import ConfigError, from_json
from anycastlab.probe.loop import Loop
from anycastlab.probe.notify import Notifier
from anycastlab.probe.publish import Journal
from anycastlab.probe.service import Probe
from anycastlab.probe.units import CONFIG_PATH

USAGE = "usage: probe [--check] [--config FILE]"


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 stopped as asked, 1 cannot run (one sentence on standard error)."""
    path, check = CONFIG_PATH, False
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    while words:
        word = words.pop(0)
        if word == "--config" and words:
            path = words.pop(0)
        elif word == "--check":
            check = True
        else:
            print(USAGE, file=sys.stderr)
            return 1
    try:
        with open(path, encoding="utf-8") as file:
            config = from_json(file.read())
    except OSError as error:
        print(f"probe: cannot read {path}: {error.strerror}", file=sys.stderr)
        return 1
    except ConfigError as error:
        print(f"probe: {path}: {error}", file=sys.stderr)
        return 1
    if check:
        return 0
    loop = Loop()
    try:
        probe = Probe(config, loop, Journal(), Notifier())
    except OSError as error:
        print(f"probe: cannot start on {config.address}: {error.strerror}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: probe.request_stop())
    probe.start()
    gc.freeze()  # what exists now stays; later collections need not look at it
    loop.run()
    loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
