"""Backends of one instance: what the engine would pick, what Slipway passes, and what is wrong with either.

`resolve` is a walk over backends.yml: each setting's first row that holds decides; a resolved setting is a fact that
later rows may ask about. It never raises for a request, whatever it says: what no row covers is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from slipway.knowledge import architectures, releases
from slipway.knowledge.backend_rows import ChoiceRow, ClassRow, ConstraintRow, Remark, VerdictRow, load_tables
from slipway.knowledge.conditions import When
from slipway.knowledge.families import family_of
from slipway.knowledge.problems import Problem, Severity
from slipway.knowledge.versions import Version

How = Literal["explicit", "table", "engine default"]
UNKNOWN = "unknown"
_NO_ROW = "backends.yml has no row"
_BRACES = re.compile(r"\{(\w+)\}")
_SEVERITY_OF: dict[str, Severity] = {"forbidden": "error", "wrong": "error", "unverified": "warning"}
_KIND_OF = {"forbidden": "backend-forbidden", "wrong": "backend-wrong-answers", "unverified": "backend-unverified"}
_SAYS_OF = {"forbidden": "does not work", "wrong": "gives wrong answers", "unverified": "is not verified"}


@dataclass(frozen=True)
class Request:
    """What decides the backends of one instance.

    quantization: the method as SGLang reads it ('' or None = unquantized); hybrid_nvfp4: the checkpoint really is
    FP8 with NVFP4 experts, whatever the release makes of it. experts: how the routed experts are stored ('nvfp4',
    'mxfp4', 'int4', 'fp8_block', ...), 'none' for a dense model. attention: mha, gqa, mla, dsa, swa or hybrid.
    model_class: Hugging Face class or model type. gpu: name in the catalogue (gpus.yml), when known.
    explicit: settings that the user wrote, by name; None and 'auto' count as not written.
    """

    release: str
    arch: str
    model_class: str = ""
    attention: str = ""
    quantization: str | None = None
    hybrid_nvfp4: bool = False
    experts: str = UNKNOWN
    swiglu_limit: float | None = None
    attention_sinks: bool = False
    kv_cache_quant: str | None = None
    patches: frozenset[str] = frozenset()
    role: str = "unified"
    tp: int = 1
    ep: int = 1
    speculative: str | None = None
    speculative_topk: int | None = None
    gpu: str = ""
    driver: str = ""
    explicit: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """One resolved setting. value: what the engine will run with; None when that is unknown.

    auto_value: what the engine would do by itself, in words ('unknown' when nobody looked).
    how: 'explicit' and 'table' values are passed to the engine, an 'engine default' is left alone.
    """

    name: str
    value: Any
    auto_value: str
    how: How
    reason: str
    source: str
    confidence: str
    problems: tuple[Problem, ...] = ()
    kind: Literal["flag", "environment"] = "flag"

    @property
    def passed(self) -> bool:
        """Tell whether the engine must be given the value."""
        return self.how != "engine default"


@dataclass
class Walk:
    """The facts so far; grows as settings are resolved."""

    request: Request
    release: Version
    facts: dict[str, frozenset[str]]
    words: dict[str, str]

    def holds(self, when: When) -> bool:
        """Tell whether a row's condition holds now."""
        return when.holds(self.facts, self.release)

    def learn(self, name: str, word: str) -> None:
        """Make a resolved setting a fact; what the request itself says is never overwritten."""
        self.facts.setdefault(name, frozenset({word}))
        self.words.setdefault(name, word)

    def say(self, text: str) -> str:
        """Fill the facts into a text of a table."""
        return _BRACES.sub(lambda match: self.words.get(match[1], match[1].replace("_", " ")), text)


def resolve(request: Request) -> tuple[Choice, ...]:
    """Resolve every backend of an instance, and the environment that the result needs."""
    walk, choices = _walk(request)
    tables = load_tables()
    remarks = [row for row in (*tables.constraints, *tables.known_bad) if walk.holds(row.when)]
    choices = [_with_remarks(walk, choice, remarks) for choice in choices]
    return (*_with_general(walk, choices), *_environment(walk))


def problems(choices: tuple[Choice, ...]) -> tuple[Problem, ...]:
    """Collect the problems of all choices, errors first."""
    found = [problem for choice in choices for problem in choice.problems]
    return tuple(sorted(found, key=lambda problem: ("error", "warning", "note").index(problem.severity)))


def passed_flags(choices: tuple[Choice, ...]) -> dict[str, Any]:
    """Return the settings that the engine must be given, by flag name."""
    return {choice.name: choice.value for choice in choices if choice.kind == "flag" and choice.passed}


def environment(choices: tuple[Choice, ...]) -> dict[str, str]:
    """Return the environment that the choices need."""
    return {choice.name: str(choice.value) for choice in choices if choice.kind == "environment"}


@cache
def standing_release(release: str) -> Version:
    """Return the number whose facts hold for a release: its own, or the newest known for a commit or branch."""
    return Version.parse(release) or releases.nearest(release).version


def walked(request: Request) -> Walk:
    """Return the facts of a request after everything is resolved (for `slipway explain`)."""
    return _walk(request)[0]


def _walk(request: Request) -> tuple[Walk, list[Choice]]:
    """Resolve setting after setting; each result is a fact for the next."""
    walk = _start(request)
    explicit = _explicit(request.explicit)
    choices: list[Choice] = []
    for name in load_tables().order:
        choice = _choose(walk, name, explicit.get(name))
        if choice is not None:
            choices.append(choice)
            walk.learn(name, str(choice.value) if choice.value is not None else UNKNOWN)
    return walk, choices


def _start(request: Request) -> Walk:
    """Turn a request into facts and words."""
    walk = Walk(request, standing_release(request.release), _plain_facts(request), _plain_words(request))
    tables = load_tables()
    walk.learn("class", _classify(walk, tables.quantization_classes))
    walk.learn("attention_class", _classify(walk, tables.attention_classes))
    return walk


def _classify(walk: Walk, rows: tuple[ClassRow, ...]) -> str:
    """Name the class of the first row that holds."""
    return next((row.name for row in rows if walk.holds(row.when)), UNKNOWN)


def _plain_facts(request: Request) -> dict[str, frozenset[str]]:
    """List what the request itself says."""
    known = architectures.get(request.arch)
    argument = _explicit(request.explicit).get("quantization")
    single = {
        "gpu": request.gpu.lower(),
        "family": family_of(request.model_class),
        "attention": request.attention.lower(),
        "quantization": (request.quantization or "none").lower(),
        "experts": request.experts.lower(),
        "hybrid_nvfp4": _presence(request.hybrid_nvfp4),
        "clamp": _presence(request.swiglu_limit is not None),
        "sinks": _presence(request.attention_sinks),
        "role": request.role.lower(),
        "tp": "one" if request.tp == 1 else "many",
        "ep": _expert_parallel(request),
        "kv_cache_quant": (request.kv_cache_quant or "none").upper(),
        "quantization_argument": UNKNOWN if argument is None else str(argument),
    }
    facts = {name: frozenset({word}) for name, word in single.items()}
    facts["arch"] = frozenset(known.names if known else (request.arch,))
    facts["patch"] = frozenset(patch.lower() for patch in request.patches)
    facts["speculative"] = frozenset(_speculation(request))
    facts["driver"] = frozenset(_driver(request.driver))
    return facts


def _plain_words(request: Request) -> dict[str, str]:
    """List the words that texts of the tables may name."""
    known = architectures.get(request.arch)
    return {
        "release": request.release,
        "arch": known.name if known else request.arch,
        "quantization": request.quantization or "none",
        "clamp": f"{request.swiglu_limit:g}" if isinstance(request.swiglu_limit, (int, float)) else "",
        "ep_size": str(request.ep),
        "tp_size": str(request.tp),
        "role": request.role,
    }


def _presence(value: bool) -> str:
    """Say yes and no in words that YAML does not turn into booleans."""
    return "present" if value else "absent"


def _expert_parallel(request: Request) -> str:
    """Say how ep relates to tp."""
    if request.ep == 1:
        return "one"
    return "tp" if request.ep == request.tp else "other"


def _speculation(request: Request) -> tuple[str, ...]:
    """Name the algorithm and whether it drafts a tree."""
    if not request.speculative:
        return ("none",)
    return (request.speculative.lower(), "tree" if (request.speculative_topk or 1) > 1 else "chain")


def _driver(text: str) -> tuple[str, ...]:
    """Compare the driver's major number with the marks that rows ask about."""
    major = text.partition(".")[0]
    if not (major.isascii() and major.isdigit()):
        return (UNKNOWN,)
    return tuple(f"{'ge' if int(major) >= mark else 'lt'}_{mark}" for mark in load_tables().driver_marks)


def _explicit(written: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings that the user really wrote, under the names of the tables."""
    aliases = load_tables().aliases
    plain = {str(key).lstrip("-").replace("-", "_"): value for key, value in written.items()}
    return {aliases.get(key, key): value for key, value in plain.items() if value is not None and value != "auto"}


def _choose(walk: Walk, name: str, written: Any) -> Choice | None:
    """Resolve one setting; None when nothing is written and no row holds."""
    row = next((row for row in load_tables().choices.get(name, ()) if walk.holds(row.when)), None)
    default = None if row is None else _default(walk, name, row)
    return default if written is None else _judge(walk, name, written, default)


def _default(walk: Walk, name: str, row: ChoiceRow) -> Choice:
    """Make the choice of a row."""
    auto = walk.say(row.auto)
    value: Any = row.value if row.value is not None else (None if auto == UNKNOWN else auto)
    return Choice(
        name=name,
        value=int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value,
        auto_value=auto,
        how="engine default" if row.value is None else "table",
        reason=walk.say(row.reason),
        source=row.source,
        confidence=row.confidence,
        problems=() if row.remark is None else (_problem(walk, name, row.remark, row.source),),
    )


def _judge(walk: Walk, name: str, written: Any, default: Choice | None) -> Choice:
    """Check a written value against the verdicts."""
    rows = load_tables().verdicts.get(name, ())
    row = next((row for row in rows if row.speaks_of(written) and walk.holds(row.when)), None)
    auto = default.auto_value if default else UNKNOWN
    own = default.problems if default else ()
    if row is None:
        kept = (*own, _unverified(walk, name, written, default)) if name in load_tables().verdicts else own
        reason = "written by the user; no row knows this value here"
        return Choice(name, written, auto, "explicit", reason, _NO_ROW, UNKNOWN, kept)
    found = own if row.verdict == "allowed" else (*own, _verdict_problem(walk, name, written, row, default))
    reason = f"written by the user; {walk.say(row.reason)}"
    return Choice(name, written, auto, "explicit", reason, row.source, row.confidence, found)


def _verdict_problem(walk: Walk, name: str, written: Any, row: VerdictRow, default: Choice | None) -> Problem:
    """Say why a written value is refused or doubtful, and what to use."""
    message = (
        f"{name} {written} {_SAYS_OF[row.verdict]} on {walk.words['arch']} with SGLang {walk.words['release']}: "
        f"{walk.say(row.reason)}"
    )
    fix = walk.say(row.fix) + _instead(written, default)
    return Problem(_SEVERITY_OF[row.verdict], _KIND_OF[row.verdict], message, fix, row.source, name)


def _unverified(walk: Walk, name: str, written: Any, default: Choice | None) -> Problem:
    """Warn of a value that no row knows."""
    message = (
        f"{name} {written} on {walk.words['arch']} with SGLang {walk.words['release']} and this checkpoint: "
        "no row of the tables knows it"
    )
    fix = "verify answers before trusting it" + _instead(written, default)
    return Problem("warning", "backend-unverified", message, fix, _NO_ROW, name)


def _instead(written: Any, default: Choice | None) -> str:
    """Name what would be chosen if nothing were written."""
    if default is None or default.value is None or str(default.value) == str(written):
        return ""
    return f"; left out, {'Slipway passes' if default.passed else 'the engine takes'} {default.value}"


def _with_remarks(walk: Walk, choice: Choice, rows: list[ConstraintRow]) -> Choice:
    """Attach the constraints and known faults that concern a choice."""
    found = [_problem(walk, choice.name, row.remark, row.source) for row in rows if row.setting == choice.name]
    return replace(choice, problems=(*choice.problems, *found)) if found else choice


def _problem(walk: Walk, name: str, remark: Remark, source: str) -> Problem:
    """Fill a remark of a table."""
    return Problem(remark.severity, remark.kind, walk.say(remark.message), walk.say(remark.fix), source, name)


def _with_general(walk: Walk, choices: list[Choice]) -> list[Choice]:
    """Attach to the first choice what concerns the tables themselves: an unknown GPU or release."""
    found: list[Problem] = []
    if architectures.get(walk.request.arch) is None:
        names = ", ".join(item.name for item in architectures.known())
        message = f"architecture {walk.request.arch!r} is in no table (known: {names}): nothing is known of it"
        found.append(
            Problem("warning", "architecture-unknown", message, "add it to architectures.yml", "architectures.yml")
        )
    if releases.get(walk.request.release) is None:
        message = f"SGLang {walk.request.release} is in no table: the rows of {walk.release} were applied"
        found.append(
            Problem("warning", "release-unknown", message, "verify answers before trusting it", "releases.yml")
        )
    if not found:
        return choices
    return [replace(choices[0], problems=(*choices[0].problems, *found)), *choices[1:]]


def _environment(walk: Walk) -> list[Choice]:
    """List the variables that the result needs."""
    rows = [row for row in load_tables().environment if walk.holds(row.when)]
    return [
        Choice(row.name, row.value, "unset", "table", row.reason, row.source, row.confidence, kind="environment")
        for row in rows
    ]
