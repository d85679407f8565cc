"""Every limit and time of the API side, in one place. Sizes in bytes, times in seconds."""

from __future__ import annotations

# --- one connection --------------------------------------------------------------------------------------------
MAX_WORD = 1 << 20
"""Longest word accepted after login; a script source or a certificate fits, a forged length does not."""
MAX_SENTENCE = 4 << 20
MAX_WORDS = 4096
"""Words in one sentence; a `remove` of 3,000 ids is one word, so real clients stay far below."""
MAX_WORD_BEFORE_LOGIN = 4096
MAX_WORDS_BEFORE_LOGIN = 16
"""Sizes are restricted until a login succeeded (MikroTik documentation, API)."""
LOGIN_TIMEOUT = 30.0
"""A connection that has not logged in by then is closed."""
MAX_LOGIN_ATTEMPTS = 8
"""Per connection; the connection is closed after them."""
READ_CHUNK = 1 << 16
MAX_PENDING = 64
"""Sentences of one session that may be running; then its socket is not read until one is done."""
SEND_BUFFER = 1 << 18
"""Unsent bytes at which replies wait for the client to read."""
SEND_TIMEOUT = 60.0
"""A client that reads nothing for this long is dropped; it would hold its rows in memory for ever."""
CLOSE_TIMEOUT = 1.0
"""What is left to send when a session ends gets this long."""

# --- configuration ---------------------------------------------------------------------------------------------
MAX_ROWS_PER_MENU = 20_000
"""A real router runs out of memory somewhere; the stand-in says so."""
SAVE_DELAY = 0.1
"""Writes that come close together are saved and applied as one."""
SETTLE_TIMEOUT = 15.0
"""Longest wait of a read for writes that are still being applied; then it answers with what there is."""
SAFE_MODE_ACTIONS = 100
"""Changes that safe mode can hold; one more and it is left, nothing undone (MikroTik documentation, Safe Mode)."""

# --- scripts ---------------------------------------------------------------------------------------------------
SCHEDULER_TICK = 1.0
"""How often the scheduler looks; RouterOS's times are whole seconds."""
SCRIPT_TIMEOUT = 60.0
"""A script that still runs then is stopped; in a home's script it is a mistake."""

# --- logs ------------------------------------------------------------------------------------------------------
LOG_LINES = 1000
"""RouterOS's `memory-lines` of `/log`."""
WRITE_LOG_BYTES = 8 << 20
"""Size at which the write log starts afresh; one older file is kept."""
WRITE_LOG_ROWS = 5000
"""Newest writes that `/anycastlab/write-log` shows."""
