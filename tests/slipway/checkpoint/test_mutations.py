"""Anything may be in a checkpoint's files: findings come out, never a traceback."""

import json
from dataclasses import asdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.checkpoint import Folder, inspect, read_checkpoint, small_files
from slipway.checkpoint.headers import read_header
from slipway.memory import Layout, Use, plan_memory
from tests.slipway.checkpoint.checkpoints import NAMES, files_of

CALM = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["fp8", "modelopt", "compressed-tensors", "MIXED_PRECISION", "re:(a+)+$", "*", "\ud800", 2**70])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
RELEASES = st.sampled_from(["0.5.13", "0.5.16", "0.5.23", "0.5.99", "main", "", "v0.5.18", "0.5.18.post1+cu130"])
THIN = {
    name: {
        file: json.loads(text)
        for file, text in files_of(name).items()
        if file in ("config.json", "hf_quant_config.json", "generation_config.json")
    }
    for name in NAMES
}


def paths(value, path=()):
    """Every place in a document, so that any of them can be changed."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


PLACES = {name: [(file, path) for file in docs for path in paths(docs[file])][:400] for name, docs in THIN.items()}


def replaced(value, path, new):
    """The document with one place changed; unchanged when an earlier change has removed the place."""
    if not path:
        return new
    inside = isinstance(value, dict) and path[0] in value
    inside = inside or (isinstance(value, list) and isinstance(path[0], int) and path[0] < len(value))
    if not inside:
        return value
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@st.composite
def mutated(draw):
    name = draw(st.sampled_from(NAMES))
    documents = dict(THIN[name])
    for _ in range(draw(st.integers(1, 4))):
        file, path = draw(st.sampled_from(PLACES[name]))
        documents[file] = replaced(documents[file], path, draw(VALUES))
    return {file: json.dumps(document) for file, document in documents.items()}


@CALM
@given(mutated(), RELEASES, st.integers(-2, 9), st.integers(-2, 9))
def test_no_mutation_of_the_files_raises(files, release, tp, pp):
    checkpoint = read_checkpoint(files)
    read = checkpoint.as_read(release, ["pr-25820"])
    plan = plan_memory(checkpoint, Layout(tp=tp, pp=pp, ep=tp), Use(80 * 2**30))

    for finding in (*checkpoint.findings, *read.findings, *plan.findings):
        assert finding.rule and finding.message
        "".join(asdict(finding).values()).encode()
    json.dumps([asdict(checkpoint), asdict(plan)])


@CALM
@given(
    st.dictionaries(
        st.sampled_from(["config.json", "hf_quant_config.json", "a.safetensors.index.json"]), st.binary(max_size=60)
    )
)
def test_no_bytes_raise(files):
    assert isinstance(inspect(Folder(files, dict.fromkeys(files, 10))).findings, tuple)


@CALM
@given(VALUES, VALUES)
def test_no_index_raises(weights, metadata):
    index = json.dumps({"weight_map": weights, "metadata": metadata})
    files = {"config.json": "{}", "model.safetensors.index.json": index}

    assert inspect(Folder(files, {"model.safetensors": 3})).findings


def with_length(document):
    text = json.dumps(document).encode()
    return len(text).to_bytes(8, "little") + text


ENTRIES = st.fixed_dictionaries({"dtype": SCALARS, "shape": VALUES, "data_offsets": VALUES}) | VALUES
HEADERS = st.dictionaries(st.text(max_size=4), ENTRIES, max_size=3).map(with_length)


@CALM
@given(st.binary(max_size=40) | HEADERS, st.integers(0, 200))
def test_no_header_raises(raw, size):
    header, found = read_header("x.safetensors", raw, size)

    assert header is not None or found


@CALM
@given(
    st.sampled_from(NAMES),
    st.builds(Layout, *[st.integers(-1, 70)] * 4, st.booleans(), st.booleans()),
    st.builds(
        Use,
        st.integers(-1, 10**13),
        st.floats(),
        st.text(max_size=5) | st.sampled_from(["auto", "fp8_e4m3", "nvfp4"]),
        st.integers(-1, 10**9),
        st.integers(-1, 10**6),
        st.integers(-2, 10**6),
        st.integers(-1, 10**6),
        st.integers(-1, 512),
        st.floats(),
    ),
)
def test_no_layout_or_use_raises(name, layout, use):
    checkpoint = read_checkpoint({file: json.dumps(document) for file, document in THIN[name].items()})
    plan = plan_memory(checkpoint, layout, use)

    assert plan.fits == (not any(item.severity == "error" for item in plan.findings))
    assert plan.tokens >= 0


@given(st.lists(st.text(max_size=30)))
def test_no_file_list_raises(names):
    assert set(small_files(names)) <= set(names)
