"""The committed reference pages are what the code says."""

import pytest

from scripts.reference.__main__ import pages, stale


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_page_is_not_stale(name):
    assert not stale(pages()[name]), "run: make docs"


def test_every_key_of_the_schema_is_on_the_page():
    from slipway.config.validate import schema

    text = pages()["config"].text()
    for node in (schema()["properties"], schema()["$defs"]["worker"]["properties"]):
        assert [key for key in node if f"`{key}`" not in text and f"## {key}" not in text] == []
