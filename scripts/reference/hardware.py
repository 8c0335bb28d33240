"""Page of the machines that `hardware:` may name, made from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slipway.hardware.catalogue import KEYS, tables

PATH = "docs/reference/hardware-catalogue.md"

HEAD = """# Hardware catalogue

What `hardware:` may say, for planning hosts that cannot be asked. Made from `slipway/hardware/catalogue.yml` by
`make docs`; do not edit. Any count of a card is a machine: `8xH200`, `4xL40S`. Case, blanks and dashes do not matter.
Confidence: `captured` read in the output of such a machine · `typical` usual, varies by vendor.
"""


def text() -> str:
    """The whole page."""
    parts = [HEAD, "## Cards\n", *_cards(tables()["cards"])]
    parts += ["\n## Machines\n", *_machines(tables()["machines"])]
    parts += ["\n## A mapping\n", "| key | meaning |", "| --- | --- |"]
    return "\n".join([*parts, *(f"| `{key}` | {meaning} |" for key, meaning in KEYS.items())]) + "\n"


def _cards(rows: dict[str, Any]) -> Iterator[str]:
    yield "| card | as the driver prints it | memory | compute capability | NVLink | confidence |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for key, row in rows.items():
        memory = f"{row['memory_mib'] / 1024:.1f} GiB" + (" (shared with the CPU)" if row.get("unified_memory") else "")
        links = f"{row['nvlink']} links" if row.get("nvlink") else "none"
        links += f", groups of {row['nvlink_group']}" if row.get("nvlink_group") else ""
        printed, sm = row["names"][0], row["compute_capability"]
        yield f"| {_spellings(key, row)} | {printed} | {memory} | {sm} | {links} | {row['confidence']} |"


def _machines(rows: dict[str, Any]) -> Iterator[str]:
    yield "| machine | GPUs | NUMA nodes | CPUs | memory | confidence |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, row in rows.items():
        gpus = f"{row['count']} x {row['card']}" if row["count"] else "none"
        memory = f"{row['memory_gib']} GiB" if "memory_gib" in row else ""
        numa, cpus = row["numa_nodes"], row.get("cpus", "")
        yield f"| {_spellings(name, row)} | {gpus} | {numa} | {cpus} | {memory} | {row['confidence']} |"


def _spellings(name: str, row: dict[str, Any]) -> str:
    return ", ".join(f"`{one}`" for one in (name, *row.get("also", ())))
