"""Makes a checkpoint of a real shape with random weights: python3 -m hardware.random_model FOLDER

For measuring, not for answers: Qwen2.5-1.5B's layers (28 x 1536, 12 heads, 2 key-value heads) with the vocabulary of
models/tiny, so that whatever it says can be decoded. Needs torch and safetensors, such as a GPU machine has.
Shape: the model's public config.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from slipway.agent.manifest import write

TINY = Path(__file__).resolve().parents[1] / "models/tiny"
LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD = 28, 1536, 8960, 12, 2, 128
LAYERS_A_FILE = 7
SCALE = 0.02  # standard deviation, as such models are initialised


def main(folder: Path) -> None:
    """Write the checkpoint: four files of seven layers, one of the embeddings, the index, and a manifest."""
    folder.mkdir(parents=True)
    torch.manual_seed(1)
    vocabulary = json.loads((TINY / "config.json").read_text())["vocab_size"]
    index: dict[str, str] = {}
    for start in range(0, LAYERS, LAYERS_A_FILE):
        tensors = {name: value for layer in range(start, start + LAYERS_A_FILE) for name, value in layer_of(layer)}
        index |= save(folder, f"model-layers-{start:02}.safetensors", tensors)
    rest = {"model.embed_tokens.weight": random(vocabulary, HIDDEN), "model.norm.weight": ones(HIDDEN)}
    index |= save(folder, "model-embeddings.safetensors", rest)
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    dump(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": index})
    dump(folder / "config.json", config(vocabulary))
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(TINY / name, folder / name)
    write(str(folder))
    print(f"{folder}: {size / 1e9:.2f} GB")


def layer_of(number: int) -> list[tuple[str, torch.Tensor]]:
    """The tensors of one layer, by name."""
    prefix, keys = f"model.layers.{number}", KV_HEADS * HEAD
    shapes = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (keys, HIDDEN),
              "self_attn.v_proj": (keys, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
              "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
              "mlp.down_proj": (HIDDEN, INNER)}  # fmt: skip
    tensors = [(f"{prefix}.{name}.weight", random(*shape)) for name, shape in shapes.items()]
    biases = {"q_proj": HIDDEN, "k_proj": keys, "v_proj": keys}
    tensors += [(f"{prefix}.self_attn.{name}.bias", random(size)) for name, size in biases.items()]
    norms = ("input_layernorm", "post_attention_layernorm")
    return [*tensors, *[(f"{prefix}.{name}.weight", ones(HIDDEN)) for name in norms]]


def random(*shape: int) -> torch.Tensor:
    """Normal numbers of SCALE; on the GPU where there is one, as a billion of them take a while."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return (torch.randn(*shape, device=device) * SCALE).to(torch.bfloat16).cpu()


def ones(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bfloat16)


def save(folder: Path, name: str, tensors: dict[str, torch.Tensor]) -> dict[str, str]:
    """Write one file; its part of the index."""
    save_file(tensors, folder / name, metadata={"format": "pt"})
    return dict.fromkeys(tensors, name)


def config(vocabulary: int) -> dict[str, object]:
    """As transformers and SGLang read it."""
    tiny = json.loads((TINY / "config.json").read_text())
    return {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "dtype": "bfloat16", "vocab_size": vocabulary,
        "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "hidden_act": "silu",
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "use_sliding_window": False,
        "tie_word_embeddings": True, "use_cache": True, "attention_dropout": 0.0, "initializer_range": SCALE,
        "bos_token_id": tiny["bos_token_id"], "eos_token_id": tiny["eos_token_id"],
    }  # fmt: skip


def dump(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
