"""docs/reference/faults.md: every fault that the simulator can show, with what catches it and the test that saw it."""

from __future__ import annotations

from slipway.agent.simulator.faults import TABLE
from slipway.verify.faults import caught, wired

PATH = "docs/reference/faults.md"
HEAD = """\
# Faults and what catches them

Made by `make docs` from `slipway/agent/simulator/faults.py` and `slipway/verify/faults.yml`; edit those, not this page.

Each row is a fault that people reported of disaggregated serving, as the simulated engine shows it
(`SLIPWAY_SIM_FAULTS`, `python -m slipway.agent.simulator --list-faults`), the rung of the ladder that catches it
([verify.md](verify.md)), and the test in which it was seen to. `start-up` is the watch over a starting instance, `stop`
what is done when one is to end. Source: the row of the collection of reported faults that the project started from.
"""


def text() -> str:
    """The page."""
    rows = [
        f"| `{row.fault}` | {TABLE[row.fault].does} | {TABLE[row.fault].source} | {rung(row.rung, row.why)} | "
        f"{f'`{row.seen_by}`' if row.rung else ''} |"
        for row in caught()
    ]
    wires = [f"| {row.fault} | {row.source} | `{row.rung}` | `{row.test}` |" for row in wired()]
    return "\n".join(
        [
            HEAD,
            f"{len(rows)} faults of an engine:\n",
            "| fault | what shows | source | caught by | test |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "\nAnd of how things are put together, with engines that are well:\n",
            "| fault | source | caught by | test |",
            "| --- | --- | --- | --- |",
            *wires,
            "",
        ]
    )


def rung(name: str, why: str) -> str:
    """A rung's name, or why there is none."""
    return f"`{name}`" if name else f"nothing: {why}"
