"""Progress: repainted on a terminal, plain lines elsewhere, and never in the way of the run."""

from __future__ import annotations

import io
import threading

import pytest

from anycastlab.phone import limits
from anycastlab.phone.progress import Progress


class Screen(io.StringIO):
    """A terminal, or not; notes when something was written."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROGRESS_TERMINAL_S", 0.01)
    monkeypatch.setattr(limits, "PROGRESS_LOG_S", 0.01)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_form_fits_the_place(terminal: bool) -> None:
    screen = Screen(terminal)
    with Progress(screen, lambda: "7/9 sent"):
        assert screen.written.wait(10)

    text = screen.getvalue()
    if terminal:
        assert text.startswith("\r\x1b[K7/9 sent")
        assert text.endswith("\n")
    else:
        assert set(text.splitlines()) == {"7/9 sent"}
        assert "\x1b" not in text


def test_a_reader_that_is_gone_does_not_end_the_run() -> None:
    class Gone(Screen):
        def write(self, _text: str) -> int:
            self.written.set()
            raise BrokenPipeError

    screen = Gone(terminal=False)

    with Progress(screen, lambda: "x"):
        assert screen.written.wait(10)
