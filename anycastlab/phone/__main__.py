"""The command: `anycastlab phone --server ADDRESS …`, or the archive of this package.

Exit codes: 0 measured; 1 it could not or would not run; 2 it ran but was late or skipped queries, so the numbers are
not valid; 130 stopped by Ctrl-C or SIGTERM, with complete files of what it had.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from anycastlab import __version__
from anycastlab.phone import interception, limits, mix, records, schedule, summary, wire
from anycastlab.phone.errors import PhoneError
from anycastlab.phone.lookup import Times
from anycastlab.phone.network import (
    SocketNetwork,
    ephemeral_ports,
    machine,
    raise_fd_limit,
    read_wall_clock,
)
from anycastlab.phone.priority import raised
from anycastlab.phone.progress import Progress
from anycastlab.phone.sender import Identity, Sender, Setup, no_collections
from anycastlab.phone.servers import Transport, parse
from anycastlab.phone.stubs import STUBS, plan

OK, ERROR, LATE, STOPPED = 0, 1, 2, 130


@dataclass(frozen=True)
class Outputs:
    """Files that are open before the run starts: an hour later is too late to learn that a folder does not exist."""

    csv: TextIO | None
    jsonl: TextIO | None
    summary: TextIO | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as exit_:  # argparse's own 2 would read as "late"
        return OK if exit_.code in (0, None) else ERROR
    try:
        return _run(options)
    except PhoneError as error:
        print(f"error: {error.problem}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:  # before the first query
        return STOPPED


def _run(options: argparse.Namespace) -> int:
    transport = Transport(options.proto)
    servers = tuple(parse(text, transport) for text in options.server)
    nonce = options.nonce if options.nonce is not None else secrets.token_hex(8)
    parameters = schedule.Parameters(
        rate=options.rate,
        duration_s=options.duration,
        seed=options.seed,
        nonce=nonce,
        mix=mix.load(options.mix),
        clients=tuple(name.strip() for name in options.client.split(",")),
        identity_rate=limits.IDENTITY_RATE if Identity(options.identity) is Identity.TXT else 0.0,
    )
    setup = _setup(options, servers, transport)
    questions = schedule.make(parameters)
    _check_room(parameters, setup)
    network = SocketNetwork(options.tls_name)
    with contextlib.ExitStack() as stack:
        stack.callback(network.shut)
        outputs = stack.enter_context(_open(options))
        if not options.no_interception_check:
            interception.check(network, servers)
        network.prepare(transport)
        priority = stack.enter_context(raised(not options.normal_priority))
        sender = Sender(setup, questions, network)
        stack.enter_context(_stopping(sender, network))
        progress = Progress(sys.stderr, lambda: _progress(sender, len(questions)))
        with contextlib.nullcontext() if options.quiet else progress, no_collections():
            # Last of all: whatever takes time before the first query has been done.
            clock = read_wall_clock()
            start_ns = _start(options.start_at, network.now())
            found = sender.run(start_ns)
        about = _about(options, parameters, setup, clock, start_ns)
        about["machine"]["priority"] = priority
        result = summary.document(found, about, sender.interrupted, sender.stray)
        _write(outputs, found, result)
    if options.json_summary != "-":
        _tell("\n".join(summary.lines(result)), sys.stderr if "-" in (options.csv, options.jsonl) else sys.stdout)
    if sender.interrupted:
        return STOPPED
    return OK if result["phone"]["punctual"] else LATE


def _setup(options: argparse.Namespace, servers: tuple[Any, ...], transport: Transport) -> Setup:
    for name in ("timeout", "stall", "late_window"):
        value = getattr(options, name)
        if not 0 < value <= limits.FELT_LIMIT_S:
            raise PhoneError(
                f"--{name.replace('_', '-')} {value:g} is not possible.",
                f"Give more than 0 and at most {limits.FELT_LIMIT_S:g} seconds.",
            )
    try:
        wire.encode_name(options.identity_name)
    except wire.WireError as error:
        raise PhoneError(f"--identity-name: {error}.") from None
    if options.tls_name is not None and transport is not Transport.DOT:
        raise PhoneError(
            f"--tls-name is for DNS over TLS, and --proto is {transport.value}.", "Add --proto dot, or leave it out."
        )
    return Setup(
        servers=servers,
        transport=transport,
        one_flow=options.one_flow,
        times=Times(
            timeout_ns=round(options.timeout * limits.NS),
            stall_ns=round(options.stall * limits.NS),
            late_window_ns=round(options.late_window * limits.NS),
        ),
        identity=Identity(options.identity),
        identity_name=options.identity_name,
    )


def _check_room(parameters: schedule.Parameters, setup: Setup) -> None:
    """Enough sockets, ports and ids for the worst case, in which nothing is ever answered. Else say so now."""
    held_s = (setup.times.timeout_ns + setup.times.late_window_ns) / limits.NS
    for name in parameters.clients:
        held_s = max(held_s, plan(STUBS[name], len(setup.servers)).gives_up_ns / limits.NS)
    queries = min(schedule.count(parameters), int(parameters.rate * held_s) + 1)
    advice = "Lower --rate, --timeout or --late-window, or use fewer retrying clients."
    if setup.one_flow:
        if 2 * queries > limits.IDS:
            raise PhoneError(f"{queries} queries may be under way at once, more than query ids can tell apart.", advice)
        return
    # A TCP retry after truncation may double the sockets of a query, and each retrying stub adds some.
    sockets = 2 * queries + limits.SPARE_FDS
    if (allowed := raise_fd_limit(sockets)) < queries + limits.SPARE_FDS:
        raise PhoneError(f"{queries} sockets may be open at once; this machine allows {allowed} open files.", advice)
    if queries > (ports := int(ephemeral_ports() * limits.PORT_SHARE)):
        raise PhoneError(f"{queries} sockets may be open at once; this machine has {ports} local ports for it.", advice)


def _start(start_at: int | None, now_ns: int) -> int:
    if start_at is None:
        return now_ns + round(limits.LEAD_S * limits.NS)
    if start_at < now_ns:
        raise PhoneError(
            f"--start-at {start_at} lies {(now_ns - start_at) / limits.NS:.3f} s in the past.",
            "Leave more time between asking for a start and the start.",
        )
    if start_at - now_ns > limits.MAX_DURATION_S * limits.NS:
        raise PhoneError(
            f"--start-at {start_at} lies more than {limits.MAX_DURATION_S / 86400:g} days ahead.",
            "It is a time of CLOCK_MONOTONIC, in nanoseconds.",
        )
    return start_at


@contextlib.contextmanager
def _stopping(sender: Sender, network: SocketNetwork) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run in good order; a second one at once."""

    def stop(_signal: int, _frame: object) -> None:
        sender.stop()
        network.interrupt()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _open(options: argparse.Namespace) -> Iterator[Outputs]:
    chosen = {"--csv": options.csv, "--jsonl": options.jsonl, "--json-summary": options.json_summary}
    taken: dict[str, str] = {}
    for option, path in chosen.items():
        place = path if path in (None, "-", os.devnull) else os.path.realpath(path)
        if place not in (None, os.devnull) and (other := taken.setdefault(place, option)) != option:
            where = "standard output" if path == "-" else path
            raise PhoneError(f"{other} and {option} would both be written to {where}.", "Give each a file of its own.")
    opened: list[TextIO] = []

    def output(path: str | None) -> TextIO | None:
        if path is None or path == "-":
            return sys.stdout if path else None
        try:
            opened.append(Path(path).open("w", encoding="utf-8", newline=""))  # noqa: SIM115  # closed below
        except OSError as error:
            raise PhoneError(f"Cannot write {path}: {error.strerror}.") from None
        return opened[-1]

    try:
        yield Outputs(*map(output, chosen.values()))
    finally:
        for file in opened:
            # What was to be in it has been written and flushed, or has failed and been told.
            with contextlib.suppress(OSError):
                file.close()


def _write(outputs: Outputs, found: list[records.Record], result: dict[str, Any]) -> None:
    try:
        if outputs.csv:
            records.write_csv(found, outputs.csv)
            outputs.csv.flush()
        if outputs.jsonl:
            records.write_jsonl(found, outputs.jsonl)
            outputs.jsonl.flush()
        if outputs.summary:
            outputs.summary.write(json.dumps(result, indent=2) + "\n")
            outputs.summary.flush()
    except OSError as error:
        _forsake_stdout()
        raise PhoneError(f"Cannot write the records: {error.strerror}.") from None


def _tell(text: str, out: TextIO) -> None:
    try:
        print(text, file=out, flush=True)
    except OSError as error:
        _forsake_stdout()
        raise PhoneError(f"Cannot write the summary: {error.strerror}.") from None


def _forsake_stdout() -> None:
    """What is still buffered for a standard output that takes nothing more would be an error at exit as well."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _progress(sender: Sender, total: int) -> str:
    counts = sender.counts
    lost = counts["lost"] + counts["late"]
    return (
        f"{sender.position}/{total} sent, {counts['answered']} answered, {counts['stalled']} stalled, {lost} lost, "
        f"{counts['servfail']} SERVFAIL, {counts['wrong']} wrong, {counts['skipped']} skipped"
    )


def _about(
    options: argparse.Namespace, parameters: schedule.Parameters, setup: Setup, clock: tuple[int, int], start_ns: int
) -> dict[str, Any]:
    offset_ns = clock[1] - clock[0]
    return {
        "anycastlab": __version__,
        "schedule": {
            "servers": [str(server) for server in setup.servers],
            "transport": setup.transport.value,
            "one_flow": setup.one_flow,
            "rate": parameters.rate,
            "duration_s": parameters.duration_s,
            "seed": parameters.seed,
            "nonce": parameters.nonce,
            "mix": parameters.mix.name,
            "clients": list(parameters.clients),
            "timeout_s": options.timeout,
            "stall_s": options.stall,
            "late_window_s": options.late_window,
            "identity": setup.identity.value,
            "identity_name": setup.identity_name,
        },
        "clock": {
            "start_monotonic_ns": start_ns,
            "start_utc": _utc(start_ns + offset_ns),
            # epoch time of a monotonic time t is t + this
            "epoch_minus_monotonic_ns": offset_ns,
        },
        "machine": {**machine(), "python": sys.version.split()[0]},
    }


def _utc(epoch_ns: int) -> str:
    seconds, rest = divmod(epoch_ns, limits.NS)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest // 1_000_000:03d}Z"


class _Columns(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(inspect.cleandoc(records.__doc__ or ""))
        parser.exit()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A wrong option is a sentence like every other mistake, without the whole usage before it."""
        self.exit(ERROR, f"error: {message}.\nhint: `{self.prog} --help` shows every option.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="anycastlab phone",
        usage="%(prog)s --server ADDRESS\n       [OPTION]…",  # one line each, also in a narrow window
        description="Ask DNS questions on a fixed schedule, like the devices of a household, and record each one.",
        epilog="Exit codes: 0 measured, 1 error or refusal, 2 late or skipped (not valid), 130 stopped.",
    )
    add = parser.add_argument
    add("--columns", action=_Columns, nargs=0, help="describe the columns of the records and exit")
    add("--server", action="append", required=True, metavar="ADDRESS[@PORT]", help="resolver; give it twice for two")
    add("--rate", type=float, default=20.0, help="queries per second (default %(default)g)")
    add("--duration", type=float, default=60.0, metavar="SECONDS", help="length of the schedule (default %(default)g)")
    add("--seed", type=int, default=1, help="of names and their order (default %(default)s)")
    add("--nonce", help="makes random names new in every run; give a recorded one to repeat them")
    add(
        "--mix",
        default="lab",
        metavar="FILE",
        help="names: lab (the embedded lab's), home, a .json file, or a list (default %(default)s)",
    )
    add("--client", default="wire", metavar="NAME,…", help=f"who asks, in turns: {', '.join(STUBS)} (default wire)")
    add("--proto", choices=[t.value for t in Transport], default="udp", help="transport (default %(default)s)")
    add("--tls-name", metavar="NAME", help="require a certificate for NAME (DoT); without it any is taken")
    add("--one-flow", action="store_true", help="one socket for all queries instead of a fresh port for each")
    add("--timeout", type=float, default=limits.TIMEOUT_S, metavar="SECONDS", help="lost after (default %(default)g)")
    add("--stall", type=float, default=limits.STALL_S, metavar="SECONDS", help="stalled after (default %(default)g)")
    add(
        "--late-window",
        type=float,
        default=limits.LATE_WINDOW_S,
        metavar="SECONDS",
        help="how long to listen on after the timeout (default %(default)g)",
    )
    add(
        "--identity",
        choices=[i.value for i in Identity],
        default="txt",
        help="how to learn which node answered (default %(default)s)",
    )
    add("--identity-name", default="id.anycast.lan", metavar="NAME", help="TXT name of a node (default %(default)s)")
    add("--start-at", type=int, metavar="NS", help="first query at this CLOCK_MONOTONIC time in nanoseconds")
    add("--csv", metavar="FILE", help="write one line per query; - for standard output")
    add("--jsonl", metavar="FILE", help="the same as JSON lines")
    add("--json-summary", metavar="FILE", help="write the summary as JSON")
    add("--normal-priority", action="store_true", help="do not ask for real-time priority")
    add("--quiet", action="store_true", help="no progress")
    add("--no-interception-check", action="store_true", help="measure although port 53 may be intercepted")
    return parser


if __name__ == "__main__":
    sys.exit(main())
