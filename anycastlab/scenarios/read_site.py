"""The home that an inventory describes, read by a process of its own.

pyinfra's inventory needs gevent's patched standard library. A process that measures and must be interruptible at any
moment keeps the real one, so the reading is done by a child: `python -m anycastlab.scenarios.read_site INVENTORY DATA`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from anycastlab.errors import AnycastlabError
from anycastlab.scenarios.errors import ScenarioError
from anycastlab.site import Site


def read_site(inventory: str, data: Mapping[str, Any], environment: Mapping[str, str]) -> Site:
    """The `Site` of an inventory file under these settings; raises ScenarioError with the reason there is none."""
    command = [sys.executable, "-m", __name__, inventory, json.dumps(dict(data))]
    # A session of its own: Ctrl-C must not reach it while settings are put back.
    result = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, start_new_session=True, check=False
    )
    try:
        said = json.loads(result.stdout)
    except ValueError:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ScenarioError(f"The inventory {inventory} cannot be read: {reason}.") from None
    if "problem" in said:
        raise ScenarioError(said["problem"], said["hint"])
    return Site.model_validate(said["site"])


def _main() -> None:
    from anycastlab.fleet import Fleet

    inventory, data = sys.argv[1:]
    try:
        site = Fleet(inventory, json.loads(data)).site
    except AnycastlabError as error:
        print(json.dumps({"problem": error.problem, "hint": error.hint}))
    else:
        print(json.dumps({"site": site.model_dump(mode="json")}))


if __name__ == "__main__":
    _main()
