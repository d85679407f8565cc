"""After a roll-back: netwatch and the redirect it switches must agree again.

Safe mode undoes every change since it was taken, also those netwatch's scripts made meanwhile. A redirect that was
switched on because the nodes died during the change is then off, and netwatch, whose state did not change, would not
say so again. Switching the entry off and on makes it ask anew and run its script.
"""

from __future__ import annotations

from typing import Final

from anycastlab.routeros.connection import Connection
from anycastlab.routeros.observe import redirect_active
from anycastlab.routeros.row import tag_of
from anycastlab.routeros.rows_fallback import NAT, NETWATCH

NETWATCH_TAG: Final = "anycastlab:netwatch"


def realign(connection: Connection) -> bool:
    """True when netwatch was made to ask again. Two round trips, four when it was."""
    entries = [row for row in connection.print(NETWATCH, [".id", "comment", "status"]) if tag_of(row) == NETWATCH_TAG]
    redirects = connection.print(NAT, [".id", "comment", "disabled"])
    if len(entries) != 1 or entries[0].get("status") not in ("up", "down"):
        return False
    if (entries[0]["status"] == "down") == redirect_active(redirects):
        return False
    for verb in ("disable", "enable"):
        connection.call(f"{NETWATCH}/{verb}", f"=numbers={entries[0]['.id']}")
    return True
