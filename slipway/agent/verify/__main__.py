"""usage: verify < REQUEST, JSON: a list of subjects; one JSON line for each rung as it is done; 1 when one fails.

A subject says which `rungs` it is to be climbed by; without, those of a start: process, ports, health.
"""

from __future__ import annotations

import json
import sys

from slipway.agent.verify.climbing import climb
from slipway.agent.verify.rungs import RUNGS, rungs_of


def main() -> int:
    """Climb for each subject."""
    request = json.load(sys.stdin)
    ok = True
    for subject in request.get("subjects") or request["workers"]:
        for result in climb(subject, rungs_of(subject), RUNGS):
            print(json.dumps(result), flush=True)
            ok = ok and result["ok"]
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
