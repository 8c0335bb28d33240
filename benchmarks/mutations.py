"""Break configurations at random and plan them: only ConfigErrors and findings may come of it, never a traceback.

    python -m benchmarks.mutations 10000 [--seed S]

Each round takes one of the examples or of a few smaller deployments, changes one to four things (types, ranges,
missing and extra keys, contradictory topologies, foreign alphabets, huge values, broken YAML) and goes through the
loader, the planner and the rules that users get. The suite runs 500 rounds.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from slipway.config.deployment import ROLES
from slipway.config.errors import InvalidConfigError
from slipway.config.load import load
from slipway.config.validate import resolve, schema
from slipway.finding import Finding
from slipway.front import open_inventory
from slipway.knowledge import tables
from slipway.knowledge.flags import FlagList
from slipway.plan.make import Known, make
from tests.examples.golden import inventories
from tests.slipway.checkpoint.checkpoints import NAMES
from tests.slipway.rules.cases import baseline, known_of

Config = dict[str, Any]
GPU = {"prefill": ["h1"], "decode": ["h2"], "router": ["h1"]}
ONE = {"prefill": ["h1"], "decode": ["h1"], "router": ["h1"]}
TWO = {"prefill": ["h1", "h2"], "decode": ["h3", "h4"], "router": ["h1"]}
FREE: Config = {"page_size": None, "kv_cache_dtype": "fp8_e4m3"}
# Deployments like the examples: groups, and what all.yml says.
SOUND: tuple[tuple[dict[str, list[str]], Config], ...] = (
    (GPU, {}),
    (ONE, {"model": {"path": "deepseek-v4-flash-nvfp4"}, "hardware": "8xRTX-PRO-6000", "worker": FREE | {"tp": 4}}),
    (GPU, {"model": {"path": "deepseek-r1-fp4"}, "hardware": "8xB200", "worker": FREE | {"tp": 8, "dp": 8}}),
    (ONE, {"model": {"path": "gpt-oss-120b"}, "hardware": "2xH100", "worker": FREE | {"tp": 1}}),
    (TWO, {"model": {"path": "kimi-k2-int4"}, "worker": FREE | {"tp": 16, "nnodes": 2}}),
    (GPU, {"hardware": "DGX-Spark", "worker": {"tp": 1}}),
    ({"unified": ["h1"], "router": ["h1"]}, {"hardware": "4xL40S"}),
    (
        ONE,
        {
            "model": {"path": "tiny"},
            "hardware": None,
            "engine": {"version": "0.5.13", "device": "cpu", "extra_packages": []},
        },
    ),
)
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 64, 65535, 65536, 2**31, 2**63, 10**30, -(10**30), 0.0, 1.5, 1e308,
    float("inf"), float("nan"), "", " ", "auto", "none", "0.5.13", "0.5.23", "9.9.9", "cpu", "cuda", "8xH200",
    "8xH100", "4x4090", "127.0.0.1", "0.0.0.0", "::1", "fe80::1%eth0", "/", "..", "a" * 5000, "Größe 大きさ 🦊",
    "\u202e\u0000x", "{x}", "{}", "%s", "1" * 400, "true", "-1", "1e400", "mlx5_0,mlx5_1", '{"0": "mlx5_0"}', [], {},
    [1, 2, 2], [None], {"a": {"b": []}}, [[[]]], {"": ""}, ["a", 1, True], list(range(300)), "prefill", "mooncake",
    "nixl", "fp8_e4m3", "EAGLE", "3.9",
)  # fmt: skip


def rounds(seed: int, count: int) -> Iterator[str]:
    """One word a round, for what came of it; raises what a user would see as a traceback."""
    for number in range(seed, seed + count):
        yield outcome(*broken(random.Random(number)))


def broken(chance: random.Random) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Groups and the text of each file of a configuration that was sound."""
    groups, files = copy.deepcopy(chance.choice(examples())) if chance.random() < 0.5 else small(chance)
    for _ in range(chance.randint(1, 4)):
        chance.choice(WAYS)(chance, groups, files)
    texts = {name: yaml.safe_dump(data, allow_unicode=True) for name, data in files.items()}
    if chance.random() < 0.03:
        name = chance.choice(list(texts))
        texts[name] = texts[name].replace(chance.choice(": \n-{"), chance.choice(("\t", "%", "}", "\x00", "&a", "*a")))
    return groups, texts


def small(chance: random.Random) -> tuple[dict[str, list[str]], Config]:
    """Groups and the files of a deployment that is put together here."""
    groups, change = copy.deepcopy(chance.choice(SOUND))
    base = baseline()
    files = {"group_vars/all.yml": merged(base["all"], change), "host_vars/h1.yml": {"address": "10.0.0.1"}}
    files |= {f"host_vars/{host}.yml": {"address": f"10.0.0.{host[1:]}"} for host in sorted(hosts(groups) - {"h1"})}
    return groups, files


@cache
def examples() -> tuple[tuple[dict[str, list[str]], Config], ...]:
    """Groups and files of every inventory that ships with the project."""
    return tuple(_example(path) for path in inventories().values())


def _example(inventory: Path) -> tuple[dict[str, list[str]], Config]:
    found = open_inventory(inventory, {}).deployment.hosts
    groups = {role: [host.name for host in found if role in host.roles] for role in ROLES}
    paths = sorted(inventory.parent.glob("*_vars/*.yml"))
    files = {f"{path.parent.name}/{path.name}": yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}
    return {role: members for role, members in groups.items() if members}, files


def merged(base: Config, change: Config) -> Config:
    """`change` over a copy of `base`, one mapping deep."""
    found = copy.deepcopy({"model": {"path": "llama-3.1-8b"}, **base})
    for key, value in change.items():
        found[key] = {**found[key], **value} if isinstance(found.get(key), dict) and isinstance(value, dict) else value
    return found


def hosts(groups: dict[str, list[str]]) -> set[str]:
    """Every host of some groups."""
    return {host for members in groups.values() for host in members if isinstance(host, str)}


@cache
def paths() -> tuple[tuple[str, ...], ...]:
    """Every key that the schema knows."""

    def below(node: Config, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for key, child in resolve(node).get("properties", {}).items():
            yield (*at, key)
            yield from below(child, (*at, key))

    return tuple(below(schema(), ()))


@cache
def flag_names() -> tuple[str, ...]:
    """Every flag of two releases."""
    return tuple(sorted({name[2:] for release in ("0.5.13", "0.5.23") for name in FlagList.for_release(release).flags}))


@cache
def variables() -> tuple[str, ...]:
    """Every variable of the engine, and those that rules look at."""
    known = ("MC_FORCE_TCP", "UCX_TLS", "NCCL_SOCKET_IFNAME", "HOST_IP", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "HOME")
    return (*sorted(tables.load("envs.json")["variables"]), *known)


def put(data: Any, path: tuple[str, ...], value: Any) -> None:
    """Set a key, making sections on the way; a value in the way stays."""
    for key in path[:-1]:
        data = data.setdefault(key, {}) if isinstance(data, dict) else None
    if isinstance(data, dict):
        data[path[-1]] = value


def set_key(chance: random.Random, _groups: Any, files: Any) -> None:
    """A known key gets a strange value."""
    put(files[chance.choice(list(files))], chance.choice(paths()), copy.deepcopy(chance.choice(STRANGE)))


def set_number(chance: random.Random, _groups: Any, files: Any) -> None:
    """A size of a role gets a number that may contradict the others."""
    key = chance.choice(("tp", "pp", "dp", "ep", "nnodes", "instances", "page_size", "port", "bootstrap_port", "gpus"))
    value: Any = chance.choice((1, 2, 3, 4, 6, 8, 16, 64, 30000))
    value = list(range(value % 9)) if key == "gpus" else value
    put(files["group_vars/all.yml"], (chance.choice(("worker", "prefill", "decode", "unified")), key), value)


def set_flag(chance: random.Random, _groups: Any, files: Any) -> None:
    """A flag of the engine gets any value."""
    role = chance.choice(("worker", "prefill", "decode"))
    value = copy.deepcopy(chance.choice(STRANGE))
    put(files["group_vars/all.yml"], (role, "server_args", chance.choice(flag_names())), value)


def set_variable(chance: random.Random, _groups: Any, files: Any) -> None:
    """A variable of the engine gets any value."""
    role = chance.choice(("worker", "prefill", "decode", "router"))
    put(files["group_vars/all.yml"], (role, "env", chance.choice(variables())), copy.deepcopy(chance.choice(STRANGE)))


def set_model(chance: random.Random, _groups: Any, files: Any) -> None:
    """Another checkpoint, release or machine."""
    hardware = chance.choice(
        ("8xH200", "1xL4", "8xB200", "GB300", "DGX-Spark", "cpu", "64xA100", {"gpu": "X", "count": 3})
    )
    version = chance.choice(("0.5.13", "0.5.14", "0.5.19", "0.5.23", "0.6.0", "0.4.9", "1.0.0.post1"))
    path, value = chance.choice(
        ((("hardware",), hardware), (("engine", "version"), version), (("model", "path"), NAMES))
    )
    put(files[chance.choice(list(files))], path, chance.choice(value) if value is NAMES else value)


def drop_key(chance: random.Random, _groups: Any, files: Any) -> None:
    """A key goes."""
    data = files[chance.choice(list(files))]
    while isinstance(data, dict) and data:
        key = chance.choice(list(data))
        if not isinstance(data[key], dict) or chance.random() < 0.3:
            del data[key]
            return
        data = data[key]


def add_key(chance: random.Random, _groups: Any, files: Any) -> None:
    """A key that nobody knows."""
    word = str(chance.choice(STRANGE))[:50]
    put(files[chance.choice(list(files))], chance.choice(((word,), ("worker", word), ("engine", word))), 1)


def change_groups(chance: random.Random, groups: Any, _files: Any) -> None:
    """Hosts come, go, and take other roles."""
    role = chance.choice(("prefill", "decode", "unified", "router", "decod", "größe"))
    groups[role] = [f"h{number}" for number in range(1, chance.randint(1, 5))]


WAYS = (set_key, set_key, set_number, set_flag, set_variable, set_model, drop_key, add_key, change_groups)


def outcome(groups: dict[str, list[str]], texts: dict[str, str]) -> str:
    """`refused` by the configuration, or the worst finding of the plan."""
    try:
        plan = make(read(groups, texts), known()).plan
    except InvalidConfigError as error:
        assert error.errors and all(item.found and item.allowed for item in error.errors)
        return "refused"
    assert all(isinstance(finding, Finding) and finding.message for finding in plan.findings)
    json.dumps([finding.message for finding in plan.findings])
    return next((word for word in ("error", "warning", "note") if word in {f.severity for f in plan.findings}), "clean")


def read(groups: dict[str, list[str]], texts: dict[str, str]) -> Any:
    """The deployment that the files say, by the loader."""
    known_hosts = hosts(groups)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        for name, text in texts.items():
            path = Path(folder) / name
            if path.parent.name == "host_vars" and path.stem not in known_hosts:
                continue
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return load(Path(folder), groups, {}, Path(folder))


@cache
def known() -> Known:
    """Every checkpoint of the tests, by name, and those of the examples, by the folder that they name."""
    found = known_of(NAMES, {})
    facts = {f"examples/facts/{name}": found.checkpoints[name] for name in NAMES}
    tiny = {"models/tiny": found.checkpoints["tiny"]}
    files = {**found.files, "models/tiny": found.files["tiny"]}
    return replace(found, files=files, checkpoints={**found.checkpoints, **facts, **tiny})


def main(argv: list[str]) -> int:
    """Run the rounds; 1 at the first traceback, which is printed with its seed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(argv)
    seen: Counter[str] = Counter()
    start = time.perf_counter()
    try:
        for word in rounds(asked.seed, asked.count):
            seen[word] += 1
    except Exception:  # noqa: BLE001 - whatever it is, it is what this looks for
        traceback.print_exc()
        print(f"seed {asked.seed + seen.total()}", file=sys.stderr)
        return 1
    spent = time.perf_counter() - start
    print(
        f"{asked.count} mutations in {spent:.0f} s: "
        + ", ".join(f"{count} {word}" for word, count in seen.most_common())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
