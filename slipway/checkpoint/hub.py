"""Which files of a repository tell what it is: small ones, so that a plan need not download the weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slipway.checkpoint.index import index_name

# In the order of use. Absent ones are no fault: the list is matched against what the repository has.
_NAMES = (
    "config.json",
    "hf_quant_config.json",
    "quant_model_description.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
)
# The index of DeepSeek-V4-Flash has some 140,000 entries and about 11 MB; beyond this something else has its
# name.
LARGEST_SMALL_FILE = 64 * 2**20


def small_files(file_list: Iterable[str] | Mapping[str, int]) -> tuple[str, ...]:
    """The files to fetch before planning, out of a repository's file list.

    file_list: names, or names with sizes in bytes (then a file above 64 MiB is left out).

    >>> small_files(["README.md", "config.json", "model-00001-of-00002.safetensors"])
    ('config.json',)
    """
    sizes = file_list if isinstance(file_list, Mapping) else dict.fromkeys(file_list, 0)
    wanted = [*_NAMES, index_name(sizes)]
    return tuple(name for name in wanted if name in sizes and sizes[name] <= LARGEST_SMALL_FILE)
