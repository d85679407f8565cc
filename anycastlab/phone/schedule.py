"""What is asked when: fixed by its parameters before the first query, and the same for the same parameters.

Times are even (query i at i / rate). Names come from the mix as from a deck of cards: shuffled, dealt to the end,
shuffled again, so every ten queries hold the mix exactly. Random labels also depend on a `nonce`: with the seed alone
a second run would ask for names that the first one has left in the cache.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from dataclasses import dataclass

from anycastlab.phone import limits
from anycastlab.phone.errors import PhoneError
from anycastlab.phone.mix import RANDOM, Entry, Mix
from anycastlab.phone.stubs import STUBS, Stub

_LABEL_LENGTH = 16  # of 36 characters: 83 bits, no repetition in anybody's lifetime
_LABEL_ALPHABET = string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class Parameters:
    """Everything a schedule depends on. `clients` are stub names; queries take turns over them."""

    rate: float
    duration_s: float
    seed: int
    nonce: str
    mix: Mix
    clients: tuple[str, ...] = ("wire",)
    identity_rate: float = limits.IDENTITY_RATE


@dataclass(frozen=True, slots=True)
class Question:
    """One scheduled question: at `at_ns` after the start, `client` wants to know `name`."""

    index: int
    at_ns: int
    client: str
    stub: Stub
    entry: Entry
    name: str
    id: int
    identity_id: int | None  # id of the identity query that rides along, if one does


def count(parameters: Parameters) -> int:
    """Number of questions; raises PhoneError when the parameters make no sense."""
    if not 0 < parameters.rate <= limits.MAX_RATE:
        raise PhoneError(
            f"A rate of {parameters.rate:g} queries per second is not possible.",
            f"Give more than 0 and at most {limits.MAX_RATE:g}.",
        )
    if not 0 < parameters.duration_s <= limits.MAX_DURATION_S:
        raise PhoneError(
            f"A duration of {parameters.duration_s:g} s is not possible.",
            f"Give more than 0 and at most {limits.MAX_DURATION_S:g}.",
        )
    number = max(1, round(parameters.rate * parameters.duration_s))
    if number > limits.MAX_QUERIES:
        raise PhoneError(
            f"{number} queries are more than one run can hold ({limits.MAX_QUERIES}).", "Lower rate or duration."
        )
    return number


def make(parameters: Parameters) -> tuple[Question, ...]:
    """The whole schedule."""
    number = count(parameters)
    names = client_names(parameters.clients)
    stubs = [_stub(stub) for stub in parameters.clients]
    cards = _deal(parameters.mix, random.Random(f"{parameters.seed} cards"))
    labels = random.Random(f"{parameters.seed} labels {parameters.nonce}")
    ids = _ids(random.Random(f"{parameters.seed} ids {parameters.nonce}"))
    share = min(1.0, parameters.identity_rate / parameters.rate)
    questions = []
    for index in range(number):
        entry = next(cards)
        turn = index % len(stubs)
        # Every identity query the share has earned so far; evenly spread, the first question always has one.
        asks_identity = share > 0 and (index == 0 or int(index * share) > int((index - 1) * share))
        questions.append(
            Question(
                index=index,
                at_ns=round(index * limits.NS / parameters.rate),
                client=names[turn],
                stub=stubs[turn],
                entry=entry,
                name=entry.name.replace(RANDOM, _label(labels)) if RANDOM in entry.name else entry.name,
                id=next(ids),
                identity_id=next(ids) if asks_identity else None,
            )
        )
    return tuple(questions)


def client_names(stubs: tuple[str, ...]) -> tuple[str, ...]:
    """A name per client: the stub's, numbered when it occurs more than once."""
    return tuple(
        name if stubs.count(name) == 1 else f"{name}-{stubs[: position + 1].count(name)}"
        for position, name in enumerate(stubs)
    )


def _stub(name: str) -> Stub:
    try:
        return STUBS[name]
    except KeyError:
        raise PhoneError(f"There is no client {name!r}.", f"Known are {', '.join(STUBS)}.") from None


def _deal(mix: Mix, rng: random.Random) -> Iterator[Entry]:
    while True:
        cards = list(mix.deck)
        rng.shuffle(cards)
        yield from cards


def _label(rng: random.Random) -> str:
    return "".join(rng.choices(_LABEL_ALPHABET, k=_LABEL_LENGTH))


def _ids(rng: random.Random) -> Iterator[int]:
    """All 65,536 ids in random order, over and over: none comes back before the others were used."""
    order = list(range(limits.IDS))
    rng.shuffle(order)
    while True:
        yield from order
