"""Whatever a request, a setting or a variable says, there is an answer and never an exception."""

from dataclasses import fields

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.knowledge import backends, envs, explain, gpus, releases
from slipway.knowledge.backends import Choice, Request, resolve
from slipway.knowledge.families import family_of
from slipway.knowledge.flags import FlagList, shipped_releases

WORDS = st.text(max_size=12)
RELEASES = st.sampled_from([*shipped_releases(), "0.5.99", "main", "", "0.5.18rc1"]) | WORDS
ARCHES = (
    st.sampled_from(["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121", "cpu", "sm_75"])
    | WORDS
)
MODELS = (
    st.sampled_from(
        [
            "DeepseekV4ForCausalLM",
            "DeepseekV3ForCausalLM",
            "DeepseekV32ForCausalLM",
            "GptOssForCausalLM",
            "LlamaForCausalLM",
            "NemotronHForCausalLM",
        ]
    )
    | WORDS
)
METHODS = (
    st.sampled_from(
        [
            "fp8",
            "mxfp4",
            "mxfp8",
            "modelopt_fp4",
            "modelopt_fp8",
            "modelopt_mixed",
            "compressed-tensors",
            "awq_marlin",
            "w4afp8",
            "nvfp4_online",
            "",
            None,
        ]
    )
    | WORDS
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from([*explain.names(), "tp", "cuda_graph_max_bs", "transfer_backend"]) | WORDS
REQUESTS = st.builds(
    Request,
    release=RELEASES,
    arch=ARCHES,
    model_class=MODELS,
    attention=st.sampled_from(["mha", "gqa", "mla", "dsa", "swa", "hybrid", ""]) | WORDS,
    quantization=METHODS,
    hybrid_nvfp4=st.booleans(),
    experts=st.sampled_from(["nvfp4", "mxfp4", "int4", "fp8_block", "bfloat16", "none", "unknown"]) | WORDS,
    swiglu_limit=st.none() | st.floats(),
    attention_sinks=st.booleans(),
    kv_cache_quant=st.none() | WORDS,
    patches=st.frozensets(st.sampled_from(["pr-25820", "pr-27906"]) | WORDS, max_size=2),
    role=st.sampled_from(["prefill", "decode", "unified"]) | WORDS,
    tp=st.integers(),
    ep=st.integers(),
    speculative=st.none() | WORDS,
    speculative_topk=st.none() | st.integers(),
    gpu=st.sampled_from(["", "h200", "gb200", "l40s"]) | WORDS,
    driver=st.sampled_from(["", "580.159.04", "595.1"]) | WORDS,
    explicit=st.dictionaries(
        NAMES,
        st.sampled_from(["marlin", "triton", "flashinfer_cutlass", "fp8_e4m3", "mooncake", "auto"]) | ANYTHING,
        max_size=4,
    ),
)
FEW = settings(max_examples=50, deadline=None)


@FEW
@given(REQUESTS)
def test_resolve_always_answers_completely(request):
    choices = resolve(request)
    assert len({(choice.kind, choice.name) for choice in choices}) == len(choices)
    for choice in choices:
        check_choice(choice)
    assert all(problem.message for problem in backends.problems(choices))


def check_choice(choice: Choice):
    assert choice.how in ("explicit", "table", "engine default")
    assert choice.reason
    assert choice.source
    assert choice.confidence
    assert choice.value is not None or choice.auto_value == "unknown"
    for problem in choice.problems:
        assert problem.severity in ("error", "warning", "note")
        assert problem.fix
        assert problem.source


@FEW
@given(REQUESTS)
def test_what_the_tables_choose_the_verdicts_do_not_refuse(request):
    plain = Request(**{item.name: getattr(request, item.name) for item in fields(Request) if item.name != "explicit"})
    for choice in resolve(plain):
        if choice.how != "table" or choice.kind != "flag":
            continue
        again = resolve(Request(**{**vars(plain), "explicit": {choice.name: choice.value}}))
        (same,) = [item for item in again if item.name == choice.name and item.kind == "flag"]
        fresh = {problem.kind for problem in same.problems} - {problem.kind for problem in choice.problems}
        assert not fresh & {"backend-forbidden", "backend-wrong-answers"}, (choice, same)


@FEW
@given(RELEASES, st.dictionaries(NAMES, ANYTHING, max_size=4))
def test_flags_never_raise_and_render_what_they_accept(release, written):
    flags = FlagList.for_release(release)
    if any(problem.severity == "error" for problem in flags.check_all(written)):
        return
    assert all(isinstance(word, str) for word in flags.render(written))


@FEW
@given(st.sampled_from(shipped_releases()), st.data())
def test_any_flag_takes_any_value_without_an_exception(release, data):
    flags = FlagList.for_release(release)
    name = data.draw(st.sampled_from(sorted(flags.flags)))
    value = data.draw(ANYTHING)
    for problem in flags.check(name, value):
        assert problem.subject == name


@FEW
@given(
    st.sampled_from(["SGLANG_CACHE_DIR", "SGLANG_ENABLE_JIT_DEEPGEMM", "SGLANG_DSV4_X", "SGL_", "PATH"]) | WORDS,
    ANYTHING,
    RELEASES,
)
def test_variables_never_raise(name, value, release):
    for problem in envs.check(name, value, release):
        assert problem.subject == name


@FEW
@given(WORDS, RELEASES)
def test_lookups_never_raise(text, release):
    assert gpus.find(text) is None or gpus.find(text).arch
    assert family_of(text)
    assert releases.nearest(release).version
    assert releases.get(release) is None or releases.get(release).ready_path
