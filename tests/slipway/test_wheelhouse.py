"""Wheelhouses: for whom wheels are, and parts of a chosen size that are put together by hash."""

import json
import platform
import sys

import pytest

from slipway.agent.wheelhouse import Target, WheelhouseError, fill, platform_flags
from slipway.builds.parts import LIST, PartsError, join, split
from slipway.cli import main
from slipway.front import files_of
from tests.slipway.agent.test_build import wheel


@pytest.fixture
def house(tmp_path):
    folder = tmp_path / "wheels"
    for number in range(3):
        wheel(folder, name=f"thing{number}", body=f"x = {'1' * 3000}\n")
    return folder


def test_parts_are_of_the_chosen_size_and_come_together_again(house, tmp_path):
    count = split(files_of(house), tmp_path / "parts", 4096)

    parts = sorted((tmp_path / "parts").glob("*.part"))
    assert (count, len(parts)) == (len(parts), count)
    assert all(path.stat().st_size == 4096 for path in parts[:-1])
    assert 0 < parts[-1].stat().st_size <= 4096
    assert join(tmp_path / "parts", tmp_path / "there") == 3
    for path in house.iterdir():
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda parts: (parts / "0001.part").unlink(), "0001.part is missing: carry these parts again"),
        (lambda parts: (parts / "0000.part").write_bytes(b"x"), "0000.part has 1 bytes, must be 4096"),
        (lambda parts: flip(parts / "0001.part"), "0001.part has another hash than parts.json says"),
        (lambda parts: (parts / LIST).write_text("{"), "parts.json cannot be read (JSONDecodeError): carry it again"),
        (lambda parts: relist(parts, "0" * 64), "is not as parts.json says: make them anew"),
    ],
    ids=["missing", "cut", "flipped", "list", "another-file"],
)
def test_a_part_that_suffered_is_named_and_nothing_is_put_together(house, tmp_path, harm, words, capsys):
    split(files_of(house), tmp_path / "parts", 4096)
    harm(tmp_path / "parts")

    with pytest.raises(PartsError) as error:
        join(tmp_path / "parts", tmp_path / "there")

    assert words in str(error.value)
    assert list((tmp_path / "there").glob("*.whl")) == []
    assert main(["wheelhouse", "--into", str(tmp_path / "there"), "--join", str(tmp_path / "parts")]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def flip(path):
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def relist(parts, digest):
    listed = json.loads((parts / LIST).read_text())
    listed["files"] = {name: [size, digest] for name, (size, _) in listed["files"].items()}
    (parts / LIST).write_text(json.dumps(listed))


def test_wheels_are_for_the_hosts_not_for_us():
    own = Target(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine(), platform.libc_ver()[1])
    assert platform_flags(own) == platform_flags(Target(own.python)) == []
    flags = platform_flags(Target("3.9", "aarch64", "2.28"))
    assert flags[:4] == ["--python-version", "3.9", "--implementation", "cp"]
    places = flags[5::2]
    assert places[0] == "manylinux_2_28_aarch64"
    assert "manylinux_2_29_aarch64" not in places
    assert places[-1] == "linux_aarch64"


def test_what_cannot_be_had_is_said_in_pip_s_own_words(house, tmp_path):
    sources = {"index_url": f"file://{tmp_path}/nowhere", "find_links": str(house)}
    assert fill(str(tmp_path / "into"), Target("3.11"), ["thing0==1.0\n"], sources) == 1
    with pytest.raises(WheelhouseError, match=r"No matching distribution found for thing9==1.0"):
        fill(str(tmp_path / "into"), Target("3.11"), ["thing9==1.0\n"], sources)
