"""Which wheels a Python installs, as far as their names tell (PEP 425)."""

import pytest

from slipway.builds.wheels import read_name


@pytest.mark.parametrize(
    ("file", "python", "fits"),
    [
        ("a-1-py3-none-any.whl", "3.12", True),
        ("a-1-py2.py3-none-any.whl", "3.12", True),
        ("interegular-0.3.3-py37-none-any.whl", "3.12", True),  # one of the engine's own requirements
        ("a-1-py313-none-any.whl", "3.12", False),
        ("a-1-py2-none-any.whl", "3.12", False),
        ("a-1-cp312-cp312-manylinux2014_x86_64.whl", "3.12", True),
        ("a-1-cp311-cp311-manylinux2014_x86_64.whl", "3.12", False),
        ("a-1-cp38-abi3-manylinux2014_x86_64.whl", "3.12", True),
        ("a-1-cp313-abi3-manylinux2014_x86_64.whl", "3.12", False),
    ],
)
def test_a_wheel_fits(file, python, fits):
    assert read_name(file).fits(python) is fits
