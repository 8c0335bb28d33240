"""Release numbers compare as PEP 440 orders them, and ranges are half-open."""

import pytest

from slipway.knowledge.versions import Span, Version, version

ORDER = [
    "0.5.9",
    "0.5.13.dev1",
    "0.5.13a1",
    "0.5.13rc1",
    "0.5.13",
    "0.5.13.post1",
    "0.5.13.post2",
    "0.5.14",
    "0.6",
    "1.0.1",
]


def test_releases_sort_with_post_and_pre_releases():
    assert sorted(set(ORDER), key=version) == ORDER


@pytest.mark.parametrize(
    ("left", "right"),
    [("0.6", "0.6.0"), ("v0.5.13", "0.5.13"), ("0.5.13+cu130", "0.5.13"), ("0.5.13post1", "0.5.13.post1")],
)
def test_spellings_of_one_release_are_equal(left, right):
    assert version(left) == version(right)
    assert hash(version(left)) == hash(version(right))


@pytest.mark.parametrize(
    "text", ["", "main", "c0bb04b67f", "0.5.x", "0.5.13 ", "١.٢", "1" * 400, "0.5.13.post1.post2", None, 0.5j]
)
def test_what_is_no_release_number_is_none_or_stripped(text):
    parsed = Version.parse(text)
    assert parsed is None or parsed.text == str(text).strip()


def test_a_number_of_our_own_tables_must_be_right():
    with pytest.raises(ValueError, match="'main' is not a release number"):
        version("main")


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        ("all", ["0.5.13", "9"], []),
        ("0.5.14+", ["0.5.14", "0.5.14.post1", "0.6"], ["0.5.13.post1", "0.5.14rc1"]),
        ("..0.5.21", ["0.5.13", "0.5.20.post3"], ["0.5.21"]),
        ("0.5.14..0.5.17", ["0.5.14", "0.5.16.post1"], ["0.5.13", "0.5.17"]),
    ],
)
def test_spans(span, inside, outside):
    parsed = Span.parse(span)
    assert [item for item in inside if not parsed.holds(version(item))] == []
    assert [item for item in outside if parsed.holds(version(item))] == []


def test_spans_say_themselves():
    said = [str(Span.parse(text)) for text in ("all", "0.5.14+", "..0.5.21", "0.5.14..0.5.17")]
    assert said == ["every release", "since 0.5.14", "before 0.5.21", "0.5.14 up to, not including, 0.5.17"]


@pytest.mark.parametrize("text", ["", "0.5.13", "a..b", "main+"])
def test_a_malformed_span_is_refused(text):
    with pytest.raises(ValueError, match="is not a"):
        Span.parse(text)
