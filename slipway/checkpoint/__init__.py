"""Checkpoints: what the small files say, how a release reads them, and whether the files belong together."""

from slipway.checkpoint.as_read import AsRead
from slipway.checkpoint.attention import Attention
from slipway.checkpoint.compatible import check_capability, check_quantization_flag
from slipway.checkpoint.declaration import Declaration
from slipway.checkpoint.experts import Experts
from slipway.checkpoint.folder import read_folder, read_windows
from slipway.checkpoint.generation import Generation
from slipway.checkpoint.hub import small_files
from slipway.checkpoint.model import Checkpoint, read_checkpoint
from slipway.checkpoint.sample import check_samples, samples_of
from slipway.checkpoint.scheme import LAYER_CLASSES, Quantization, Scheme
from slipway.checkpoint.structure import Folder, Inspection, inspect

__all__ = [
    "LAYER_CLASSES",
    "AsRead",
    "Attention",
    "Checkpoint",
    "Declaration",
    "Experts",
    "Folder",
    "Generation",
    "Inspection",
    "Quantization",
    "Scheme",
    "check_capability",
    "check_quantization_flag",
    "check_samples",
    "inspect",
    "read_checkpoint",
    "read_folder",
    "read_windows",
    "samples_of",
    "small_files",
]
