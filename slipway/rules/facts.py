"""What rules may ask about, by name: each name of a worker, of the deployment around it, or of a prefill-decode pair.

A name is a row of `WORKER` or `WHOLE`, or one of these with a dot:
    flag.NAME     what the engine will run with: given, else resolved by the backend tables, else its default
    given.NAME    the flag as it is passed; unknown when it is not
    auto.NAME     what the backend tables resolved
    env.NAME      a variable of the environment; on.NAME: the same as yes or no
    package.NAME  version that `extra_packages` pins, `any` when it pins none
    router.KEY, router_flag.NAME, verify.KEY   settings of the router and of verification
In pairs: prefill.NAME, decode.NAME, same.NAME (yes or no, unknown when one is), and the rows of `PAIR`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any

from slipway.builds.recipe import Build
from slipway.config.deployment import EngineSettings, HostSettings
from slipway.hardware import HostHardware
from slipway.knowledge import architectures, gpus, releases
from slipway.knowledge.backends import standing_release
from slipway.knowledge.flags import FlagList
from slipway.knowledge.versions import Version
from slipway.plan.evidence import Evidence, InstanceEvidence
from slipway.plan.model import HostPlan

from .conditions import as_number, word
from .constants import constant, words_of

TRUE, FALSE = frozenset({"1", "true", "yes", "y", "on"}), frozenset({"0", "false", "no", "n", "off"})
_NOTHING = object()
# What differs between workers that are alike, and what rows therefore may not ask about.
PLACED = frozenset(
    {"host", "port", "disaggregation_bootstrap_port", "nccl_port", "dist_init_addr", "node_rank", "model_path"}
    | {"SGLANG_HOST_IP", "TMPDIR", "CUDA_VISIBLE_DEVICES", "SLIPWAY_INSTANCE", "SLIPWAY_URL"}
)


class Whole:
    """The deployment as rules ask about it. router: the first host with one."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.workers = tuple(Worker(entry, self) for entry in evidence.instances)
        self.router = next((host for host in evidence.deployment.hosts if "router" in host.roles), None)
        self._settings = {host.name: host for host in evidence.deployment.hosts}
        self._planned = {host.name: host for host in evidence.plan.hosts}
        self._known: dict[str, Any] = {}
        self._kinds: dict[Hashable, list[Worker]] = {}

    def of(self, *roles: str) -> tuple[Worker, ...]:
        """Workers with one of the roles; all when none is named."""
        return tuple(worker for worker in self.workers if not roles or worker.role in roles)

    def kinds(self, *roles: str) -> list[list[Worker]]:
        """Workers of the roles, those of which every fact is the same together."""
        if not self._kinds:
            for worker in self.workers:
                self._kinds.setdefault(worker.kind, []).append(worker)
        return [alike for alike in self._kinds.values() if not roles or alike[0].role in roles]

    def settings(self, host: str) -> HostSettings:
        """What was configured for a host."""
        return self._settings[host]

    def host(self, name: str) -> HostPlan:
        """What is planned for a host."""
        return self._planned[name]

    def get(self, name: str) -> Any:
        """One fact of the deployment; None when it is unknown."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Any:
        prefix, _, key = name.partition(".")
        if prefix in _OF_WHOLE and key:
            return _OF_WHOLE[prefix](self, key)
        return WHOLE[name](self) if name in WHOLE else None


class Worker:
    """One worker as rules ask about it."""

    def __init__(self, entry: InstanceEvidence, whole: Whole) -> None:
        self.entry, self.whole = entry, whole
        self.name, self.role = entry.instance.name, entry.instance.role
        self._known: dict[str, Any] = {}
        self._dests: Mapping[str, Any] | None = None
        self._packages: Mapping[str, str] | None = None

    def get(self, name: str) -> Any:
        """One fact of the worker, or of its deployment; None when it is unknown."""
        found = self._known.get(name, _NOTHING)
        if found is _NOTHING:
            found = self._known[name] = self._find(name)
        return found

    def _find(self, name: str) -> Any:
        prefix, _, key = name.partition(".")
        if name in WORKER:
            return WORKER[name](self)
        if prefix in _OF_WORKER and key:
            return _OF_WORKER[prefix](self, key)
        return self.whole.get(name)

    def text(self, name: str) -> str:
        """A fact as messages show it."""
        return shown(self.get(name))

    @property
    def engine(self) -> EngineSettings:
        """The engine of its host."""
        return self.whole.settings(self.entry.instance.host).engine

    @property
    def hardware(self) -> HostHardware | None:
        """Its first host's hardware; None when it is unknown."""
        return self.entry.hardware[0] if self.entry.hardware else None

    @property
    def probed(self) -> HostHardware | None:
        """Its first host's hardware when the host itself was asked."""
        hardware = self.hardware
        return hardware if hardware is not None and hardware.origin == "probe" else None

    @property
    def kind(self) -> Hashable:
        """Equal for workers of which every fact is the same: what rows may ask about, without looking it all up."""
        entry, host = self.entry, self.whole.host(self.entry.instance.host)
        flags = [item for item in entry.instance.settings.items() if item[0] not in PLACED]
        env = [item for item in entry.instance.env.items() if item[0] not in PLACED]
        made = (self.get("checkpoint"), self.get("checkpoint_in_place"), host.manager, host.builds)
        seen = (entry.arch, self.get("gpu"), self.get("rdma"), self.get("nvlink"), id(entry.checkpoint))
        return (self.role, id(entry.settings), entry.release, repr(flags), repr(env), *made, *seen)

    @property
    def pins(self) -> Mapping[str, str]:
        """What its release, or the nearest known, pins."""
        return nearest(self.entry.release).pins

    @property
    def flags(self) -> Mapping[str, Any]:
        """What is passed, by the engine's field name, so that aliases and renames meet."""
        if self._dests is None:
            release = self.entry.release
            meant = [_meant(release, str(key), value) for key, value in self.entry.instance.settings.items()]
            self._dests = {dest: value for dest, value in meant if dest}
        return self._dests

    @property
    def version(self) -> Version:
        """The number of its release."""
        return _version(self.entry.release)

    @property
    def packages(self) -> Mapping[str, str]:
        """Packages of its engine build and their pins, `any` where a line pins none."""
        if self._packages is None:
            lines = (*_build_lines(self.whole.host(self.entry.instance.host).builds), *self.engine.extra_packages)
            self._packages = pins_of(lines)
        return self._packages


def shown(value: Any) -> str:
    """A value in a message: short, and never on two lines."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(str(item) for item in value) if isinstance(value, (tuple, list)) else str(value)
    plain = " ".join(text.split())
    return plain if len(plain) <= 120 else plain[:117] + "..."


# --- names with a dot ---------------------------------------------------------------------------------------


_list = cache(FlagList.for_release)
_version = cache(standing_release)
nearest = cache(releases.nearest)


def _meant(release: str, name: str, value: Any) -> tuple[str, Any]:
    """The engine's field that a setting lands in, and its value there; no field where the release has none."""
    if _list(release).find(name) is not None:
        return _dest(release, name)[0], value
    moved = _list(release).translate(name, value)
    return (moved[0].dest, moved[1]) if moved else ("", value)


@cache
def _dest(release: str, name: str) -> tuple[str, Any]:
    """The engine's field behind a flag name in a release, and its default."""
    meant = _list(release).translate(name, None)
    if meant is None:
        return name, None
    flag = meant[0]
    return flag.dest, False if flag.kind in ("switch", "toggle") and flag.default is None else flag.default


def _given(worker: Worker, name: str) -> Any:
    return worker.flags.get(_dest(worker.entry.release, name)[0])


def _flag(worker: Worker, name: str) -> Any:
    given = _given(worker, name)
    if given is not None and given != "auto":
        return given
    resolved = _auto(worker, name)
    if resolved is not None:
        return resolved
    return given if given is not None else _dest(worker.entry.release, name)[1]


def _auto(worker: Worker, name: str) -> Any:
    choice = worker.entry.choices.get(name)
    value = choice.value if choice is not None else None
    return None if value in ("unknown", "auto") else value


def _env(worker: Worker, name: str) -> Any:
    return worker.entry.instance.env.get(name)


def _on(worker: Worker, name: str) -> bool | None:
    return as_switch(worker.entry.instance.env.get(name))


def as_switch(value: Any) -> bool | None:
    """A variable as yes or no; None when it is unset or neither."""
    text = word(value) if value is not None else ""
    return True if text in TRUE else False if text in FALSE else None


def package_name(requirement: str) -> str:
    """The distribution that a requirement line names, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[=<>!~; ]", requirement.strip(), maxsplit=1)[0]).lower()


@cache
def pins_of(lines: tuple[str, ...]) -> Mapping[str, str]:
    """Package -> version of requirement lines, `any` where a line pins none."""
    return {package_name(line): line.partition("==")[2].split(";")[0].strip() or "any" for line in lines}


@cache
def _build_lines(builds: tuple[Build, ...]) -> list[str]:
    texts = [build.requirements for build in builds if build.kind == "sglang"]
    lines = (line.split("--hash")[0].strip(" \\") for text in texts for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def _package(worker: Worker, name: str) -> str | None:
    return worker.packages.get(package_name(name))


def _router(whole: Whole, key: str) -> Any:
    return getattr(whole.router.router, key, None) if whole.router else None


def _router_flag(whole: Whole, name: str) -> Any:
    if whole.router is None:
        return None
    given = {str(key).lstrip("-").replace("-", "_"): value for key, value in whole.router.router.server_args.items()}
    return given.get(name, constant("router_flags").get(name))


def _verify(whole: Whole, key: str) -> Any:
    return getattr(whole.evidence.deployment.hosts[0].verify, key, None)


_OF_WORKER: Mapping[str, Callable[[Worker, str], Any]] = {
    "flag": _flag,
    "given": _given,
    "auto": _auto,
    "env": _env,
    "on": _on,
    "package": _package,
}
_OF_WHOLE: Mapping[str, Callable[[Whole, str], Any]] = {
    "router": _router,
    "router_flag": _router_flag,
    "verify": _verify,
}

# --- plain names --------------------------------------------------------------------------------------------


def _arch(worker: Worker) -> Any:
    """The architecture and the one whose rows hold for it too."""
    known = architectures.get(worker.entry.arch)
    return known.names if known else worker.entry.arch or None


def _gpu(worker: Worker) -> str | None:
    found = gpus.find(worker.hardware.gpu_name) if worker.hardware else None
    return found.id if found else None


def _speculative(worker: Worker) -> str:
    return word(_flag(worker, "speculative_algorithm") or "none")


def _attn_dp(worker: Worker) -> int:
    """Attention data-parallel groups: dp counts as such when DP attention is on."""
    given = as_number(_flag(worker, "attn_dp_size")) or 1
    plain = as_number(_flag(worker, "dp_size")) or worker.entry.settings.dp
    by_switch = plain if _given(worker, "enable_dp_attention") is True else 1
    return max(int(given), int(by_switch), 1)


def _attn_tp(worker: Worker) -> int:
    """GPUs that share one copy of attention: tp / (attention DP x attention CP)."""
    tp = int(as_number(_flag(worker, "tp_size")) or worker.entry.settings.tp)
    groups = _attn_dp(worker) * int(as_number(_flag(worker, "attn_cp_size")) or 1)
    return max(tp // max(groups, 1), 1)


def _attention(worker: Worker) -> str | None:
    """mha, gqa, mla, dsa, swa or hybrid; a model whose layers compress (DeepSeek-V4) is dsa."""
    return worker.entry.checkpoint.attention.kind if worker.entry.checkpoint else None


def _latent(worker: Worker) -> bool | None:
    """Whether KV is one latent vector a token, the same on every rank (MLA and what builds on it)."""
    kind = _attention(worker)
    return None if kind is None else kind in ("mla", "dsa")


def _rdma(worker: Worker) -> str | None:
    """`active`, or `none` where the host was asked and has no usable port; unknown elsewhere."""
    hardware = worker.hardware
    if hardware is None or (hardware.origin != "probe" and not hardware.rdma):
        return None
    return "active" if hardware.active_rdma else "none"


def _nvlink(worker: Worker) -> bool | None:
    hardware = worker.hardware
    if hardware is None or not hardware.links:
        return None
    return any(len(island) > 1 for island in hardware.nvlink_islands)


def _experts(worker: Worker) -> str | None:
    checkpoint = worker.entry.checkpoint
    return None if checkpoint is None else "routed" if checkpoint.experts.routed > 0 else "none"


def _checkpoint(worker: Worker) -> str | None:
    """What the worker loads, by name and revision, wherever it lies."""
    planned = worker.whole.host(worker.entry.instance.host).checkpoint
    return f"{planned.name} {planned.revision}" if planned else None


def _transfer(worker: Worker) -> Any:
    return None if worker.role == "unified" else _flag(worker, "disaggregation_transfer_backend")


def _family_of_transfer(worker: Worker) -> str | None:
    """mooncake over TCP and over RDMA are one family: both speak Mooncake's protocol."""
    backend = _transfer(worker)
    return None if backend is None else word(backend).removesuffix("_tcp")


def _over_tcp(worker: Worker) -> bool | None:
    """Whether Mooncake is told to use TCP."""
    backend = _transfer(worker)
    if _family_of_transfer(worker) != "mooncake":
        return None
    return word(backend) == "mooncake_tcp" or _on(worker, "MC_FORCE_TCP") is True


def _kv_dtype(worker: Worker) -> str | None:
    """The KV cache's type under one name; unknown while it is `auto`."""
    value = word(_flag(worker, "kv_cache_dtype"))
    return None if value in ("auto", "none") else {"bf16": "bfloat16"}.get(value, value)


def _kv_word(worker: Worker) -> str:
    """The KV cache's type as it is passed, which old releases compare letter by letter."""
    return word(_given(worker, "kv_cache_dtype") or "auto")


def _asked_quantization(worker: Worker) -> str:
    """What the user wrote; what the tables add on one GPU and not on another is no difference."""
    settings = worker.entry.settings
    return word(settings.quantization or settings.server_args.get("quantization") or "as the checkpoint says")


def _mooncake_pool(worker: Worker) -> str:
    value = word(_env(worker, "SGLANG_MOONCAKE_CUSTOM_MEM_POOL") or "none")
    return "nvlink" if value in TRUE else value


def _mooncake_version(worker: Worker) -> str | None:
    names = constant("transfer_packages")["mooncake"]
    return next((found for name in names if (found := _package(worker, name))), None)


def _ucx_transports(worker: Worker) -> tuple[str, ...] | None:
    """What UCX_TLS allows; unknown when it is unset or says what is forbidden."""
    text = _env(worker, "UCX_TLS")
    return None if not text or text.startswith("^") else tuple(item.strip() for item in text.split(","))


def _longest_request(worker: Worker) -> Any:
    given = as_number(_given(worker, "context_length"))
    return given if given is not None else WORKER["checkpoint.context"](worker)


def _longest_reserved(worker: Worker) -> Any:
    """Tokens that decode must hold before it takes a request of full length."""
    longest, reserved = as_number(_longest_request(worker)), as_number(_flag(worker, "num_reserved_decode_tokens"))
    return None if longest is None or reserved is None else int(longest + reserved)


def _batch_a_rank(worker: Worker) -> int | None:
    """Requests that one attention-DP group computes at most, when that is said."""
    asked = as_number(_given(worker, "max_running_requests"))
    return None if asked is None else int(asked // _attn_dp(worker))


def _context(worker: Worker) -> int | None:
    return (worker.entry.checkpoint.context_length or None) if worker.entry.checkpoint else None


def _in_place(worker: Worker) -> bool | None:
    """Whether the checkpoint lies on the host already and nothing compares its files."""
    planned = worker.whole.host(worker.entry.instance.host).checkpoint
    return None if planned is None else planned.files is None


def _asks_for_key(worker: Worker) -> bool:
    settings = worker.entry.settings
    return settings.api_key is not None or _given(worker, "api_key") is not None


def _router_has_key(whole: Whole) -> bool | None:
    if whole.router is None:
        return None
    return whole.router.router.api_key is not None or _router_flag(whole, "api_key") is not None


def _key_in_arguments(worker: Worker) -> bool:
    routers = _router_flag(worker.whole, "api_key") is not None
    return routers or any(_given(worker, name) is not None for name in ("api_key", "admin_api_key"))


def _secret_in_env(worker: Worker) -> str | None:
    """The first variable whose name says that it holds a secret, and whose value is more than a switch."""
    endings = words_of("secret_endings")
    named = (name for name in sorted(worker.entry.instance.env) if name.upper().endswith(endings))
    return next((name for name in named if _env(worker, name) and _on(worker, name) is None), None)


def _page(worker: Worker) -> Any:
    return as_number(_flag(worker, "page_size"))


def _device(worker: Worker) -> str:
    return "simulator" if worker.engine.kind == "simulator" else worker.engine.device


WORKER: Mapping[str, Callable[[Worker], Any]] = {
    "role": lambda worker: worker.role,
    "release": lambda worker: worker.entry.release,
    "arch": _arch,
    "gpu": _gpu,
    "device": _device,
    "engine_kind": lambda worker: worker.engine.kind,
    "manager": lambda worker: worker.whole.host(worker.entry.instance.host).manager,
    "build": lambda worker: worker.entry.instance.build,
    "tp": lambda worker: as_number(_flag(worker, "tp_size")) or worker.entry.settings.tp,
    "pp": lambda worker: as_number(_flag(worker, "pp_size")) or worker.entry.settings.pp,
    "ep": lambda worker: as_number(_flag(worker, "ep_size")) or worker.entry.settings.ep,
    "nnodes": lambda worker: worker.entry.settings.nnodes,
    "attn_dp": _attn_dp,
    "attn_tp": _attn_tp,
    "start_budget_s": lambda worker: worker.entry.instance.start_budget_s,
    "drain_s": lambda worker: worker.entry.instance.drain_s,
    "speculative": _speculative,
    "transfer": _transfer,
    "transfer_family": _family_of_transfer,
    "transfer_over_tcp": _over_tcp,
    "kv_dtype": _kv_dtype,
    "kv_word": _kv_word,
    "page": _page,
    "rdma": _rdma,
    "nvlink": _nvlink,
    "checkpoint": _checkpoint,
    "checkpoint.read": lambda worker: worker.entry.checkpoint is not None,
    "checkpoint.family": lambda worker: worker.entry.checkpoint.model_family if worker.entry.checkpoint else None,
    "checkpoint.attention": _attention,
    "checkpoint.latent": _latent,
    "checkpoint.experts": _experts,
    "checkpoint.context": _context,
    "checkpoint_in_place": _in_place,
    "model_type": lambda worker: (worker.entry.checkpoint.model_type or None) if worker.entry.checkpoint else None,
    "data_parallel": lambda worker: max(_attn_dp(worker), worker.entry.settings.dp),
    "kv_layout": lambda worker: word(_env(worker, "SGLANG_DSV4_KV_LAYOUT") or "v4"),
    "kv_checksum": lambda worker: _given(worker, "disaggregation_enable_kv_checksum") is True,
    "staging": lambda worker: _on(worker, "SGLANG_DISAGG_STAGING_BUFFER") is True,
    "nixl_backend": lambda worker: word(_env(worker, "SGLANG_DISAGGREGATION_NIXL_BACKEND") or "UCX"),
    "mooncake_pool": _mooncake_pool,
    "mooncake_version": _mooncake_version,
    "ucx_transports": _ucx_transports,
    "tokenizer": lambda worker: _given(worker, "tokenizer_path") or "the checkpoint's",
    "quantization_word": _asked_quantization,
    "waiting_timeout": lambda worker: (
        as_number(_env(worker, "SGLANG_DISAGGREGATION_WAITING_TIMEOUT")) or constant("waiting_timeout_s")
    ),
    "longest_request": _longest_request,
    "longest_reserved": _longest_reserved,
    "batch_a_rank": _batch_a_rank,
    "asks_for_key": _asks_for_key,
    "key_in_arguments": _key_in_arguments,
    "secret_in_env": _secret_in_env,
}

WHOLE: Mapping[str, Callable[[Whole], Any]] = {
    "router_has_key": _router_has_key,
    "hosts": lambda whole: len(whole.evidence.deployment.hosts),
    "worker_hosts": lambda whole: len({entry.instance.host for entry in whole.evidence.instances}),
    "release": lambda whole: whole.workers[0].entry.release if whole.workers else None,
}


# --- pairs --------------------------------------------------------------------------------------------------


class Pair:
    """A prefill and a decode that may be given one request together."""

    def __init__(self, prefill: Worker, decode: Worker) -> None:
        self.prefill, self.decode = prefill, decode

    def get(self, name: str) -> Any:
        """One fact of the pair."""
        prefix, _, key = name.partition(".")
        if prefix == "prefill":
            return self.prefill.get(key)
        if prefix == "decode":
            return self.decode.get(key)
        if prefix == "same":
            return self._same(key)
        return PAIR[name][0](self) if name in PAIR else self.prefill.whole.get(name)

    def _same(self, key: str) -> bool | None:
        one, other = self.prefill.get(key), self.decode.get(key)
        return None if one is None or other is None else word(one) == word(other)


def _tp_ratio(pair: Pair) -> str:
    """equal, whole (one is a multiple of the other) or odd."""
    small, large = sorted((pair.prefill.get("attn_tp"), pair.decode.get("attn_tp")))
    return "equal" if small == large else "whole" if large % small == 0 else "odd"


def _kv_agreement(pair: Pair) -> str:
    """equal; differ; words (one type, spelt differently); half (one side says it); unsaid (neither does)."""
    same = pair.get("same.kv_dtype")
    alike = pair.get("same.kv_word")
    if same is None:
        return "unsaid" if alike else "half"
    return "differ" if not same else "equal" if alike else "words"


# Facts of a pair, with the facts of the workers that they depend on.
PAIR: Mapping[str, tuple[Callable[[Pair], Any], tuple[str, ...]]] = {
    "tp_ratio": (_tp_ratio, ("attn_tp",)),
    "kv_agreement": (_kv_agreement, ("kv_dtype", "kv_word")),
}


def of_worker(name: str, role: str) -> tuple[str, ...]:
    """Which facts of the worker of a role a pair's name needs."""
    prefix, _, key = name.partition(".")
    if name in PAIR:
        return PAIR[name][1]
    return (key,) if prefix in (role, "same") and key else ()


def is_known(name: str, pairs: bool) -> bool:
    """Whether a row may ask about a name."""
    prefix, _, key = name.partition(".")
    if pairs and prefix in ("prefill", "decode", "same"):
        return is_known(key, pairs=False)
    dotted = bool(key) and (prefix in _OF_WHOLE or (prefix in _OF_WORKER and key not in PLACED))
    return name in WORKER or name in WHOLE or dotted or (pairs and name in PAIR)
