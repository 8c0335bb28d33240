"""What reaches a shell, systemd or supervisor is quoted so that it arrives as it was."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from slipway.render import env_quote, program_quote, render, unit_quote

VALUES = st.text(st.characters(blacklist_characters="\x00\n\r", blacklist_categories=["Cs"]), max_size=30)


@settings(max_examples=30, deadline=None)
@given(VALUES)
def test_a_shell_reads_back_what_was_written(value):
    script = f'A={env_quote(value)}\nprintf %s "$A"'

    assert subprocess.run(["sh", "-c", script], capture_output=True).stdout.decode() == value


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("--port", "--port"),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ("a b", '"a b"'),
        ('say "x"', '"say \\"x\\""'),
        ("", '""'),
        ("a;b", '"a;b"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
    ],
)
def test_a_unit_s_command_line_is_taken_literally(word, quoted):
    assert unit_quote(word) == quoted


def test_supervisor_neither_expands_nor_cuts():
    assert program_quote("50% ; x") == r"50%% \; x"


def test_an_undefined_variable_is_an_error():
    with pytest.raises(UndefinedError):
        render("environment.j2", instance=None, deployment="demo")
