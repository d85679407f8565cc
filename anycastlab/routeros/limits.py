"""Every time-out and limit of the router client, with unit and reason, in one place."""

from __future__ import annotations

from typing import Final

# --- connection ------------------------------------------------------------------------------------------------------

#: Seconds for TCP connect and, again, for the TLS handshake. A router on the same LAN needs milliseconds; a board under
#: load needs about a second for RSA.
CONNECT_TIMEOUT_S: Final = 5.0

#: Seconds for one whole API answer, first byte to `!done`. A deadline for the answer, not for one packet: a router that
#: sends a byte now and then must not hold us for ever. 100,000 firewall rows take about 10 s on a small board.
CALL_TIMEOUT_S: Final = 30.0

#: Longest API word accepted, bytes: a script of 64 KiB is the longest a router holds, some characters in four bytes. A
#: length beyond it is garbage, such as an HTTP answer read as API words.
MAX_WORD_BYTES: Final = 256 * 1024

#: Words in one sentence; RouterOS has rows of about 80 properties.
MAX_SENTENCE_WORDS: Final = 1024

#: Bytes of one sentence: a row holds a script or two, the rest is short.
MAX_SENTENCE_BYTES: Final = 1024 * 1024

#: Bytes of one answer, of several commands asked at once together. 100,000 firewall rows have about 40 MB; in memory an
#: answer takes several times its bytes.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

#: Rows in one answer. 100,000 address-list rows are real; several times that is not a home router.
MAX_ROWS: Final = 400_000

#: Bytes asked from the kernel at once; one system call per word would cost seconds on large menus.
RECEIVE_BYTES: Final = 64 * 1024

#: API ports of RouterOS (`/ip/service`), plain and TLS.
API_PORT: Final = 8728
API_TLS_PORT: Final = 8729

#: Seconds the connector waits for a router that its own deploy has just created (lab only), and between two tries.
APPEAR_TIMEOUT_S: Final = 40.0
APPEAR_INTERVAL_S: Final = 0.3

# --- applying --------------------------------------------------------------------------------------------------------

#: Writes between safe-mode take and release. RouterOS keeps about 100 undoable actions; on overflow it leaves safe mode
#: and keeps the changes (MikroTik manual, "Safe Mode"). The rest is room for what other sessions change meanwhile.
SAFE_MODE_ACTIONS: Final = 80

#: Seconds to keep asking the router after the session broke, and between two tries. RouterOS notices a dead API
#: session when its TCP connection closes; the roll-back itself takes a moment.
ROLLBACK_TIMEOUT_S: Final = 20.0
ROLLBACK_INTERVAL_S: Final = 0.5

#: Seconds given to the router to undo a lost session's changes once it answers again, before we do it. When the line
#: was cut, the router notices only minutes later (its TCP time-out); both ways end in the same state.
ROLLBACK_SETTLE_S: Final = 3.0

#: Seconds after which an armed roll-back undoes our rows on routers below 7.18. Must exceed VERIFY_TIMEOUT_S plus the
#: time for the writes themselves.
ARMED_ROLLBACK_S: Final = 180

# --- verifying -------------------------------------------------------------------------------------------------------

#: Seconds until a check that is not fulfilled counts as failed. FRR's first announcement after a start takes about 5 s,
#: a BGP connect retry up to 10 s more.
VERIFY_TIMEOUT_S: Final = 30.0

#: Seconds between two read-outs while waiting.
VERIFY_INTERVAL_S: Final = 0.5

#: Seconds a row may take to be in use after it was written: BGP and filters are worked on by processes of their own.
ROWS_SETTLE_S: Final = 5.0

#: Allowed deviation of a BFD interval from the configured one, a ratio: RFC 5880 6.8.7 jitters by up to 25 %, but the
#: read-out is the unjittered number, which RouterOS rounds to 10 ms.
BFD_INTERVAL_TOLERANCE: Final = 0.15
