"""A timer that wakes epoll at an absolute time on CLOCK_MONOTONIC, with nanosecond resolution.

epoll's own timeout counts in milliseconds and is rounded up, and is subject to timer slack; a timerfd is neither. The
interpreter knows timerfd from 3.13 on; through the C library it is there on 3.11 as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

from anycastlab.phone.limits import NS

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class Timer:
    """One-shot timer. `fd` becomes readable at the time set last."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self.fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_FLAGS)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._spec = _TimerSpec()
        self._pointer = ctypes.byref(self._spec)

    def set(self, at_ns: int) -> None:
        """Fire at `at_ns`; a time that has passed fires at once. Replaces an earlier setting."""
        # Zero would disarm it.
        self._spec.value.seconds, self._spec.value.nanoseconds = divmod(max(at_ns, 1), NS)
        if self._settime(self.fd, _TFD_TIMER_ABSTIME, self._pointer, None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def clear(self) -> None:
        """Take note that it fired."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        os.close(self.fd)
