"""The whole node as one pyinfra operation: one look, one plan, and, if anything differs, one program that makes it so.

Looking costs one command. A plan that is empty is a no-op; one that is not is told before anything happens (`--diff`
shows each file). Commands: packages only if some are missing, AdGuard Home only if it is not the right one, then the
agent (see `agent`), which withdraws the node before it stops anything.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

from pyinfra import context, logger
from pyinfra.api import FileUploadCommand, FunctionCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from anycastlab import shell_answer, tell
from anycastlab.errors import AnycastlabError
from anycastlab.node import (
    adguard_yaml,
    apply,
    architecture,
    certificates,
    credentials,
    facts,
    frr_config,
    keep,
    layout,
    lockfile,
    plan,
    ports,
    probe_key,
    render,
    resolver_binary,
    show,
    timing,
)
from anycastlab.node.agent import FRESH, complaint
from anycastlab.node.errors import NodeError, ResolverError
from anycastlab.node.managed import ManagedFile
from anycastlab.outside_text import one_line
from anycastlab.shell_answer import ShellError
from anycastlab.site import Node, Service, Site, deployed

_PASSWORDS = adguard_yaml.Passwords(credentials.bcrypt_matches, credentials.bcrypt_hash)
# Stands for a password or certificate that a dry run does not make.
_LATER = "made by the first deploy"


@operation()
def configure(
    site: Site,
    node: Node,
    adguardhome_source: str = "auto",
    must_serve: bool = False,
    waits: bool = True,
    new_probe_key: bool = False,
) -> Generator[PyinfraCommand, None, None]:
    """Make `node` as `site` describes it: packages, network, FRR, resolver, probe; in service again at the end.

    + adguardhome_source: where the program comes from, see `resolver_binary`
    + must_serve: a change is done only when the node is announced, even if it was not before (a rebuilt node)
    + new_probe_key: the probes of this home get another key, see `probe_key`
    + waits: a node that was announced is waited for; not when only the router's own change lets it be announced again

    A machine that does not exist yet counts as empty, so the plan on nothing is complete. Fails cleanly, with one
    sentence, when the machine would run emulated, when a daemon refuses its file (nothing was changed then), or when
    the node does not come back.
    """
    try:
        yield from _configure(site, node, adguardhome_source, must_serve, waits, new_probe_key)
    except AnycastlabError as error:
        if not context.state.is_executing:
            raise  # before anything ran: the whole run ends here
        yield FunctionCommand(fail, [str(error)], {})


def _configure(
    site: Site, node: Node, source: str, must_serve: bool, waits: bool, new_key: bool
) -> Generator[PyinfraCommand, None, None]:
    executing = bool(context.state.is_executing)
    wanted, state = _look(site, node, source, executing, new_key)
    todo = plan.make(wanted, state, _PASSWORDS)
    keeps = keep.outlives(site, node) and _is_first(site, node, state)
    if not todo.changes:
        context.host.noop(f"{node.name} is as it should be")
        return
    _tell(todo, state, _was_deployed(site, node, todo, state))
    yield from _commands(site, node, wanted, state, todo, keeps, source, must_serve, waits)


@operation(is_idempotent=False)
def rehearse(
    site: Site, node: Node, adguardhome_source: str = "auto", runs: bool = True
) -> Generator[PyinfraCommand, None, None]:
    """Make sure that a rebuilt `node` can be configured, before the present machine is withdrawn and deleted.

    Its resolver's program is obtained, secrets and certificate are made, and the present machine's own daemons check
    what the new one would get (AdGuard Home's here, where no machine `runs` that could be asked). Otherwise a sentence,
    and the machine stays in service.
    """
    if not context.state.is_executing:
        yield StringCommand("true")  # a dry run deletes nothing
        return
    try:
        yield from _rehearse(site, node, adguardhome_source, runs)
    except AnycastlabError as error:
        yield FunctionCommand(fail, [str(error)], {})


def _rehearse(site: Site, node: Node, source: str, runs: bool) -> Generator[PyinfraCommand, None, None]:
    wanted, state = _look(site, node, source, True, False, runs)
    binary = None
    if node.resolver == "adguardhome":
        machine = context.host.get_fact(facts.MachineFact) if state.present else _machine_of(node)
        binary = resolver_binary.obtain(source, machine, world=resolver_binary.tools(logger.info))
        wanted = dataclasses.replace(wanted, program=plan.Program(binary.version, binary.sha256))
    whole = plan.make(wanted, facts.NodeState(present=True), _PASSWORDS)
    if not state.present:
        if binary is not None and whole.adguard is not None:
            resolver_binary.check_config(binary, whole.adguard.content)
        return
    fresh = plan.make(wanted, state, _PASSWORDS).program
    if fresh is not None and binary is not None:
        yield StringCommand("mkdir", "-p", layout.LIB)
        yield FileUploadCommand(str(binary.path), apply.STAGED_PROGRAM)
    program = apply.rehearsal(site, node, dataclasses.replace(whole, program=fresh))
    yield StringCommand("python3", "-I", "-", _stdin=program, _timeout=timing.CONFIGURE_LIMIT_S)


def _machine_of(node: Node) -> str:
    """The machine that the node is said to be, where it cannot be asked."""
    return node.architecture or resolver_binary.tools().own_machine


@operation(is_idempotent=False)
def withdraw(node: Node, service: Service) -> Generator[PyinfraCommand, None, None]:
    """Take a serving node out of service before its machine is deleted: link down, route gone, then a moment more.

    The drain flag is a deploy's, so a run that dies here is made good by the next one.
    """
    yield StringCommand(withdraw_script(node, service))


def withdraw_script(node: Node, service: Service) -> str:
    """The shell commands of `withdraw`."""
    route = f"vtysh -c 'show ip route {service.prefix}' 2>/dev/null | grep -q 'directly connected, {layout.LINK}'"
    tries = round(timing.ROUTE_GONE_LIMIT_S / timing.POLL_S)
    return (
        # Whole or not at all; where it cannot be written, a probe that is stopped keeps the link down as well.
        f"{{ mkdir -p {layout.STATE} && echo {layout.DRAINED_BY_DEPLOY} > {layout.DRAINED}{FRESH}"
        f" && mv -f {layout.DRAINED}{FRESH} {layout.DRAINED}; }} 2>/dev/null || systemctl stop {layout.PROBE_UNIT}\n"
        f"ip link set dev {layout.LINK} down || exit 1\n"
        f"n=0; while {route}; do\n"
        f"  n=$((n + 1)); [ $n -le {tries} ] || {{\n"
        f"    echo '{node.name}: FRR keeps the service address although its link is down.' >&2; exit 1; }}\n"
        f"  sleep {timing.POLL_S}; done\n"
        f"sleep {timing.WITHDRAWN_S}"
    )


def _look(
    site: Site, node: Node, source: str, executing: bool, new_key: bool, runs: bool = True
) -> tuple[plan.Wanted, facts.NodeState]:
    """The node as it should be and as it is; while executing, its resolver's program is obtained if it is needed.

    A machine that does not run is as good as none.
    """
    resolver_binary.check_source(source)
    # What the machine must be asked about does not depend on it, only the content of a few files does.
    blank = _wanted(site, node, render.Machine(node.name, stub=True), None, executing, new_key)
    paths = [*layout.FOLDERS, *(file.path for file in blank.files)] + (
        [layout.ADGUARD_PROGRAM] if node.resolver == "adguardhome" else []
    )
    asked = {"paths": tuple(paths), "units": layout.UNITS, "packages": layout.packages(node.resolver)}
    state = context.host.get_fact(facts.NodeFact, **asked) if runs else facts.NodeState()
    machine_type = ""
    if node.platform == "ssh" and not state.present:  # it let us in, so it is there
        raise answered_nothing(node)
    if state.present:
        require_root(node, state)
        _require_interface(node, state)
        machine_type = architecture.check(node.name, state.evidence, node.architecture)
        ports.require_free(site, node, state.held, plan.started(state))
    machine = _machine(site, node, state)
    program = _program(node, machine_type, source)
    wanted = _wanted(site, node, machine, program, executing, new_key)
    todo = plan.make(wanted, state, _PASSWORDS)
    if executing and todo.program and todo.program.sha256 is None:
        binary = resolver_binary.obtain(
            source, machine_type or _machine_of(node), world=resolver_binary.tools(logger.info)
        )
        wanted = dataclasses.replace(wanted, program=plan.Program(binary.version, binary.sha256))
    return wanted, state


def _machine(site: Site, node: Node, state: facts.NodeState) -> render.Machine:
    """What frr.conf tells of the machine: as it does already, or as the kernel does where it is written anyway.

    So a machine that was renamed, or began to forward, is left alone.
    """
    if not state.present:
        return render.Machine(node.name)
    kernel = render.Machine(
        state.hostname,
        state.ipv4_forwarding,
        state.ipv6_forwarding,
        stub=ports.stub_is_in_the_way(state.held) or layout.RESOLVED_CONFIG in state.files,
    )
    present = state.files.get(layout.FRR_CONFIG)
    told = frr_config.machines_own(state.frr_own)
    if present and told.hostname:
        machine = dataclasses.replace(
            kernel,
            hostname=told.hostname,
            ipv4_forwarding=told.ipv4_forwarding,
            ipv6_forwarding=told.ipv6_forwarding,
        )
        if hashlib.sha256(render.frr_conf(site, node, machine)).hexdigest() == present.sha256:
            return machine
    return kernel


def answered_nothing(node: Node) -> ShellError:
    """Somebody's login shell ended before it came to what it was given (`exit` in `.bashrc`)."""
    return shell_answer.refused(node.name, [], "and did not do what it was told")


def require_root(node: Node, state: facts.NodeState) -> None:
    """Raises NodeError if the machine was looked at by a user without root's rights."""
    if not state.root:
        raise NodeError(
            f"{node.name} is reached as a user without root's rights.",
            "Set `_sudo` to True for it in the inventory, or `ssh_user` to root; nothing was changed.",
        )


def _require_interface(node: Node, state: facts.NodeState) -> None:
    """Raises NodeError if the machine has no such interface: replies would have no way to the router."""
    if not state.interfaces or node.interface in state.interfaces:
        return
    others = sorted(state.interfaces - {"lo", layout.LINK})
    fits = next((name for name, prefix in state.addresses if prefix.startswith(f"{node.address}/")), "")
    raise NodeError(
        f"{node.name} has no interface {node.interface}; it has {', '.join(map(one_line, others)) or 'none'}.",
        f"Set `interface` for it in the inventory{f' to {one_line(fits)}, which has {node.address}' if fits else ''}; "
        "nothing was changed.",
    )


def _program(node: Node, machine: str, source: str) -> plan.Program | None:
    if node.resolver != "adguardhome":
        return None
    version = lockfile.packaged().version
    machine = machine or _machine_of(node)
    if source.startswith("file:"):
        return plan.Program(version, resolver_binary.obtain(source, machine).sha256)
    present = resolver_binary.cached(machine)
    return plan.Program(version, present.sha256 if present else None)


def _wanted(
    site: Site, node: Node, machine: render.Machine, program: plan.Program | None, executing: bool, new_key: bool
) -> plan.Wanted:
    adguard = None
    if node.resolver == "adguardhome":
        password = credentials.adguard_password(create=executing) or _LATER
        adguard = render.adguard(site, node, password)
    certificate = None
    if render.needs_certificate(site, node):
        certificate = certificates.for_site(site, create=executing) or render.Certificate(_LATER, _LATER)
    key = probe_key.for_site(site, create=executing, renew=new_key) or f"{_LATER}\n"
    return plan.Wanted(
        name=node.name,
        files=render.files(site, node, machine, certificate, key),
        units=layout.wanted_units(node.resolver),
        unwanted_units=layout.other_resolver_units(node.resolver),
        packages=layout.packages(node.resolver),
        program=program,
        adguard=adguard,
        link_prefixes=layout.link_prefixes(site.service),
        ways=render.ways(site, node),
        rules=layout.rules(site.service),
    )


def _commands(
    site: Site,
    node: Node,
    wanted: plan.Wanted,
    state: facts.NodeState,
    todo: plan.Plan,
    keeps: bool,
    source: str,
    must_serve: bool,
    waits: bool,
) -> Generator[PyinfraCommand, None, None]:
    if todo.packages and keeps:
        # A machine without Python has it among the packages; then what comes with them is told by `fresh_packages`.
        record = "command -v python3 >/dev/null || exit 0; exec python3 -I -"
        yield StringCommand("sh", "-c", QuoteString(record), _stdin=keep.services_program(node))
    if todo.packages:
        yield StringCommand(_install(todo.packages), _timeout=timing.PACKAGES_LIMIT_S)
    if keeps:
        files = render_names(site, node)
        yield StringCommand("python3", "-I", "-", _stdin=keep.program(node, files, todo.packages))
    if todo.program and context.state.is_executing:
        machine = context.host.get_fact(facts.MachineFact)
        binary = resolver_binary.obtain(source, machine)
        yield from _sent(node, binary.path)
    if todo.older_schema is not None and context.state.is_executing:
        todo = plan.make(wanted, state, _PASSWORDS, _migrated(node, todo))
    agent = apply.program(site, node, todo, must_serve, waits)
    yield StringCommand("python3", "-I", "-", _stdin=agent, _timeout=timing.CONFIGURE_LIMIT_S)


def _sent(node: Node, program: Path) -> Generator[PyinfraCommand, None, None]:
    """The program to where the agent expects it.

    Over SSH through the shell alone: SFTP may be switched off, and a login shell that greets breaks it.
    """
    folder = f"umask 022; mkdir -p {layout.LIB}"
    if node.platform != "ssh":
        yield StringCommand(folder)
        yield FileUploadCommand(str(program), apply.STAGED_PROGRAM)
        return
    text = base64.encodebytes(program.read_bytes()).decode()
    yield StringCommand(f"{folder} && base64 -d > {apply.STAGED_PROGRAM}", _stdin=text, _timeout=timing.UPLOAD_LIMIT_S)


def _migrated(node: Node, todo: plan.Plan) -> adguard_yaml.Document:
    """The node's AdGuard Home file as the program to come brings it to its schema; nothing is changed by looking."""
    program = apply.STAGED_PROGRAM if todo.program else layout.ADGUARD_PROGRAM
    found = context.host.get_fact(facts.MigratedFact, program=program)
    if not found.ok:
        said = one_line(complaint(found.said))
        raise ResolverError(
            f"{node.name}: AdGuard Home cannot read {layout.ADGUARD_CONFIG} as schema {todo.older_schema}: {said}.",
            "Correct its schema_version, or delete the file to start afresh; the old one stays.",
        )
    return adguard_yaml.parse(found.text)


def _is_first(site: Site, node: Node, state: facts.NodeState) -> bool:
    """Whether this deploy writes files there that none has written before."""
    return not keep.parse(state.originals).covers(keep.paths(node, render_names(site, node)))


def render_names(site: Site, node: Node) -> tuple[ManagedFile, ...]:
    """The node's files, of which only the names and what is the same on every machine is to be used."""
    certificate = render.Certificate(_LATER, _LATER) if render.needs_certificate(site, node) else None
    return render.files(site, node, render.Machine(node.name, stub=True), certificate, _LATER)


def _install(packages: tuple[str, ...]) -> str:
    """A shell command that asks nothing: also not about a configuration file of a package that somebody left half-way.

    The file that is there stays. What a killed dpkg left open is finished first, or apt would refuse to begin.
    """
    names = " ".join(packages)
    keep = "--force-confdef --force-confold"
    options = " ".join(f"-o Dpkg::Options::={option}" for option in keep.split())
    apt = f"DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 {options}"
    finish = f"DEBIAN_FRONTEND=noninteractive dpkg {keep} --configure -a </dev/null"
    return (
        f'[ -z "$(ls -A /var/lib/dpkg/updates 2>/dev/null)" ] || {finish} || true;'
        # Somebody's source may be dead: what is needed may come from the others.
        f' n=0; until said=$(LC_ALL=C {apt} update 2>&1); do case "$said" in'
        f" *lists/lock*) n=$((n + 1)); [ $n -ge {timing.APT_LISTS_TRIES} ] ||"
        f" {{ sleep {timing.APT_LISTS_WAIT_S}; continue; }};;"
        f' esac; printf "%s\n" "$said" >&2; break; done; {apt} install --no-install-recommends {names}'
    )


def _was_deployed(site: Site, node: Node, todo: plan.Plan, state: facts.NodeState) -> str:
    """With which other settings the node was deployed before; empty where there are none, or none that is known."""
    if layout.DEPLOYED not in state.files or layout.DEPLOYED not in {file.path for file in todo.files}:
        return ""
    old = context.host.get_fact(facts.ContentFact, paths=(layout.DEPLOYED,)).get(layout.DEPLOYED, "")
    found = deployed.differences(deployed.parse(old), site, node)
    return deployed.said(found, "this run has") if found else ""


def _tell(todo: plan.Plan, state: facts.NodeState, before: str) -> None:
    """Say what is going to happen; the present text of files is only read where differences are to be seen."""

    def details() -> list[str]:
        readable = tuple(file.path for file in todo.files if file.path in state.files and show.is_text(file))
        old = context.host.get_fact(facts.ContentFact, paths=readable) if readable else {}
        return show.details(todo, old)

    tell.change("; ".join(part for part in (show.headline(todo), before) if part), details)


def fail(state: Any, host: Any, sentence: str) -> bool:  # noqa: ARG001  (pyinfra hands `state` over by that name)
    """A command that fails with a sentence."""
    host.log_styled(sentence, fg="red", log_func=logger.error)
    return False
