"""The stand-in as a program: `python3 router.pyz --config /etc/anycastlab/router.json`.

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 it could not start (one sentence on standard error says why).
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from anycastlab.virtual_router.config import Config, ConfigError
from anycastlab.virtual_router.dataplane.api import Dataplane, NullDataplane
from anycastlab.virtual_router.notify import notify
from anycastlab.virtual_router.router import StateError
from anycastlab.virtual_router.server import Server


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until told to stop."""
    parser = argparse.ArgumentParser(prog="anycastlab-router", description="A stand-in for a MikroTik router.")
    parser.add_argument("--config", type=Path, required=True, help="the configuration (JSON)")
    parser.add_argument("--rows-only", action="store_true", help="answer the API, but make no row do anything")
    options = parser.parse_args(argv)
    try:
        config = Config.from_json(options.config.read_text(encoding="utf-8"))
        dataplane = NullDataplane() if options.rows_only else _dataplane(config)
        asyncio.run(_serve(config, dataplane))
    except ConfigError as error:
        return _failed(f"configuration {options.config}: {error}")
    except (StateError, OSError) as error:
        return _failed(str(error))
    return 0


def _dataplane(config: Config) -> Dataplane:
    # Only here: a test of the API side needs none of it.
    from anycastlab.virtual_router.dataplane.plane import create

    return create(config)


async def _serve(config: Config, dataplane: Dataplane) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = Server(config, dataplane)
    server.router.log.echo = lambda line: print(line, file=sys.stderr, flush=True)
    await server.start()
    notify(f"READY=1\nSTATUS=RouterOS {config.version} on port {server.port}")
    await stopping.wait()
    notify("STOPPING=1")
    await server.stop()


def _failed(problem: str) -> int:
    print(f"anycastlab-router: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
