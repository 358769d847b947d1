"""Writes docs/checkpoints.md: which checkpoints load, tried on shrunken ones with random weights.

PYTHONPATH=.:tests .venv-reference/bin/python tests/reference/checkpoint_forms.py

Each form has the `model_type` and the particular keys of a known checkpoint's config.json, its
sizes made small. The network of transformers is saved, loaded here where there is a network of
ours, and both score the same prompts; otherwise transformers scores them.
"""

import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from tiny import CORPUS, byte_level
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from batch_calibration.errors import InputError
from batch_calibration.scoring.causal_lm import CausalLM
from batch_calibration.scoring.models import FAMILIES
from batch_calibration.scoring.models.files.checkpoint import load_checkpoint
from batch_calibration.scoring.models.files.transformers_files import TransformersFiles
from batch_calibration.scoring.transformers_lm import TransformersLM

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md"
VOCABULARY, WIDTH, LAYERS, HEADS, POSITIONS = 400, 32, 4, 4, 256
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 48,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
}  # fmt: skip
NO_GROUPS = {key: size for key, size in SIZES.items() if key != "num_key_value_heads"}
FALCON = {key: size for key, size in NO_GROUPS.items() if key != "intermediate_size"}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
LONGROPE = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
MOE = {"num_experts_per_tok": 2}
# Name, model type, sizes, keys of the file beside them (a name that begins with + is written into
# the file alone: transformers reads no such key).
FORMS = [
    ("Qwen/Qwen3-0.6B", "qwen3", SIZES | {"head_dim": 8, "tie_word_embeddings": True}, {
        "max_window_layers": 28, "use_sliding_window": False, "rope_theta": 1e6}),
    ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2", SIZES | {"tie_word_embeddings": True}, {
        "max_window_layers": 24, "use_sliding_window": False, "+use_mrope": False}),
    ("Qwen/Qwen2.5-7B-Instruct", "qwen2", SIZES, {"max_window_layers": 28}),
    ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "qwen3", SIZES | {"head_dim": 8}, {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.8782488562869419,
                         "original_max_position_embeddings": 64}}),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "qwen2", SIZES, {"max_window_layers": 21}),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama", SIZES, {
        "rope_scaling": LLAMA3, "rope_theta": 500000.0}),
    ("meta-llama/Llama-3.1-8B-Instruct", "llama", SIZES, {
        "rope_scaling": LLAMA3, "rope_theta": 500000.0, "mlp_bias": False, "pretraining_tp": 1}),
    ("meta-llama/Llama-3.2-1B", "llama", SIZES | {"tie_word_embeddings": True, "head_dim": 8}, {
        "rope_scaling": LLAMA3 | {"factor": 32.0}}),
    ("meta-llama/Llama-2-7b-hf", "llama", NO_GROUPS, {"pretraining_tp": 1, "rope_scaling": None}),
    ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "llama", SIZES, {"pretraining_tp": 1}),
    ("huggyllama/llama-7b", "llama", NO_GROUPS, {"+max_sequence_length": 2048}),
    ("codellama/CodeLlama-7b-hf", "llama", NO_GROUPS, {"rope_theta": 1e6}),
    ("lmsys/vicuna-7b-v1.5", "llama", NO_GROUPS, {"rope_scaling": None, "pretraining_tp": 1}),
    ("HuggingFaceTB/SmolLM2-360M", "llama", SIZES | {"tie_word_embeddings": True}, {
        "+is_llama_config": True, "+rope_interleaved": False, "+transformers.js_config": {}}),
    ("HuggingFaceTB/SmolLM3-3B", "smollm3", SIZES, {"no_rope_layer_interval": 4}),
    ("01-ai/Yi-1.5-6B", "llama", SIZES, {"rope_theta": 5e6}),
    ("nvidia/Llama-3.1-Nemotron-Nano-8B-v1", "llama", SIZES, {"rope_scaling": LLAMA3}),
    ("tiiuae/Falcon3-1B-Base", "llama", SIZES | {"head_dim": 8}, {"+activation": "swiglu"}),
    ("mistralai/Mistral-7B-v0.1", "mistral", SIZES, {"sliding_window": 64}),
    ("mistralai/Mistral-7B-Instruct-v0.3", "mistral", SIZES, {"sliding_window": None}),
    ("mistralai/Ministral-8B-Instruct-2410", "mistral", SIZES | {"head_dim": 8}, {
        "sliding_window": 64}),
    ("microsoft/Phi-3-mini-4k-instruct", "phi3", SIZES, {
        "sliding_window": 64, "original_max_position_embeddings": POSITIONS}),
    ("microsoft/Phi-3.5-mini-instruct", "phi3", SIZES, {
        "rope_scaling": LONGROPE, "original_max_position_embeddings": 20}),
    ("microsoft/Phi-4-mini-instruct", "phi3", SIZES | {"tie_word_embeddings": True}, {
        "+full_attn_mod": 1, "+interpolate_factor": 1, "+lm_head_bias": False, "+mlp_bias": False,
        "partial_rotary_factor": 0.75, "rope_scaling": {
            "type": "longrope", "short_factor": [1.0] * 3, "long_factor": [2.0] * 3},
        "original_max_position_embeddings": 200}),
    ("microsoft/phi-2", "phi", NO_GROUPS, {"partial_rotary_factor": 0.5, "qk_layernorm": False}),
    ("openai-community/gpt2", "gpt2", {
        "vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
        "n_positions": POSITIONS}, {"+n_ctx": 1024, "+task_specific_params": {}}),
    ("EleutherAI/gpt-neo-125m", "gpt_neo", {
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_layers": 2, "num_heads": HEADS,
        "attention_types": [[["global", "local"], 1]], "window_size": 16,
        "max_position_embeddings": POSITIONS}, {}),
    ("EleutherAI/gpt-j-6b", "gptj", {
        "vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
        "n_positions": POSITIONS, "rotary_dim": 4}, {}),
    ("EleutherAI/pythia-160m", "gpt_neox", NO_GROUPS, {
        "rotary_pct": 0.25, "rotary_emb_base": 10000, "use_parallel_residual": True}),
    ("EleutherAI/gpt-neox-20b", "gpt_neox", NO_GROUPS, {
        "rotary_pct": 0.25, "+attention_probs_dropout_prob": 0}),
    ("EleutherAI/polyglot-ko-1.3b", "gpt_neox", NO_GROUPS, {
        "rotary_pct": 0.5, "+num_steps": "global_step320000"}),
    ("facebook/opt-125m", "opt", {
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "ffn_dim": 48, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS,
        "word_embed_proj_dim": WIDTH}, {"+prefix": "</s>"}),
    ("facebook/opt-350m", "opt", {
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "ffn_dim": 48, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS,
        "word_embed_proj_dim": 16, "do_layer_norm_before": False}, {
        "+output_projection": True, "+share_decoder_input_output_embed": True}),
    ("bigscience/bloom-560m", "bloom", {
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS}, {
        "+offset_alibi": 100, "+masked_softmax_fusion": True, "+seq_length": 2048}),
    ("tiiuae/falcon-7b", "falcon", FALCON | {
        "multi_query": True, "parallel_attn": True, "bias": False,
        "new_decoder_architecture": False}, {"alibi": False}),
    ("tiiuae/falcon-11B", "falcon", FALCON | {
        "new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 128,
        "num_ln_in_parallel_attn": 1}, {"+ff_factor": 4, "activation": "gelu"}),
    ("tiiuae/falcon-rw-1b", "falcon", FALCON | {
        "alibi": True, "multi_query": False, "parallel_attn": False,
        "new_decoder_architecture": False}, {}),
    ("google/gemma-2-2b", "gemma2", SIZES | {"head_dim": 8}, {"sliding_window": 64}),
    ("google/gemma-3-1b-pt", "gemma3_text", SIZES | {"head_dim": 8}, {
        "sliding_window": 64, "+cache_implementation": "hybrid"}),
    ("google/gemma-3-270m", "gemma3_text", SIZES | {"head_dim": 8}, {
        "sliding_window": 64, "+_sliding_window_pattern": 6}),
    ("google/gemma-2b", "gemma", SIZES | {"head_dim": 8}, {}),
    ("allenai/OLMo-2-1124-7B", "olmo2", SIZES, {}),
    ("allenai/OLMo-1B-hf", "olmo", SIZES, {"clip_qkv": None}),
    ("allenai/OLMoE-1B-7B-0924", "olmoe", SIZES | MOE | {"num_experts": 4}, {}),
    ("allenai/Olmo-3-7B", "olmo3", SIZES, {"sliding_window": 64}),
    ("CohereLabs/c4ai-command-r7b-12-2024", "cohere2", SIZES, {
        "sliding_window": 64, "+_sliding_window_pattern": 4, "+rotary_pct": 1.0,
        "+use_gated_activation": True}),
    ("CohereLabs/c4ai-command-r-v01", "cohere", SIZES, {}),
    ("ibm-granite/granite-3.3-2b-instruct", "granite", SIZES, {
        "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22,
        "attention_multiplier": 0.015625}),
    ("ibm-granite/granite-3.1-1b-a400m", "granitemoe", SIZES | MOE | {"num_local_experts": 4}, {}),
    ("mistralai/Mixtral-8x7B-v0.1", "mixtral", SIZES | MOE | {"num_local_experts": 4}, {}),
    ("Qwen/Qwen3-30B-A3B", "qwen3_moe", SIZES | MOE | {
        "num_experts": 4, "moe_intermediate_size": 24, "head_dim": 8}, {}),
    ("openai/gpt-oss-20b", "gpt_oss", SIZES | MOE | {
        "num_local_experts": 4, "head_dim": 8, "sliding_window": 64}, {}),
    ("stabilityai/stablelm-2-1_6b", "stablelm", SIZES, {"partial_rotary_factor": 0.25}),
    ("stabilityai/stablelm-2-12b", "stablelm", SIZES, {
        "qk_layernorm": True, "use_parallel_residual": True}),
    ("bigcode/starcoder2-3b", "starcoder2", SIZES, {"sliding_window": 64}),
    ("state-spaces/mamba-130m-hf", "mamba", {
        "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "state_size": 8},
        {}),
    ("LiquidAI/LFM2-350M", "lfm2", SIZES | {
        "layer_types": ["conv", "full_attention", "conv", "full_attention"]}, {}),
    ("zai-org/GLM-4-9B-0414", "glm4", SIZES | {"head_dim": 8}, {}),
    ("LGAI-EXAONE/EXAONE-4.0-1.2B", "exaone4", SIZES, {}),
    ("tencent/Hunyuan-0.5B-Pretrain", "hunyuan_v1_dense", SIZES | {"head_dim": 8}, {}),
    ("baidu/ERNIE-4.5-0.3B-PT", "ernie4_5", SIZES | {"head_dim": 8}, {}),
    ("Qwen/Qwen3.5-0.8B", "qwen3_5_text", SIZES | {"head_dim": 8}, {}),
    ("google-t5/t5-small", "t5", {
        "vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_layers": 2,
        "num_heads": HEADS, "decoder_start_token_id": 0}, {"+n_positions": 512}),
    ("google/flan-t5-base", "t5", {
        "vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_layers": 2,
        "num_heads": HEADS, "decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False}, {}),
]  # fmt: skip
TEXTS = [
    f"{''.join(CORPUS)[:120]}Review: {text}\nSentiment:" for text in ("slow", "fine", "so so é")
]
LABELS = [" positive", " negative", " so"]
HEAD = """# Which checkpoints load

*Is there a network here for your checkpoint, or does transformers run it?* Tried on known checkpoints by the form of their `config.json`: its particular keys, small sizes, random weights (`PYTHONPATH=.:tests .venv-reference/bin/python tests/reference/checkpoint_forms.py`, transformers {version}; `make reference` compares). Not tried with shrunken files: the tokenizer of each ([decision 11](decisions.md#11-token-ids-are-those-of-transformers-5)) and the memory of its weights.

Mixtures run every expert on every token, 4 times the products of the chosen ones for Mixtral, 8 for gpt-oss-20b, 16 for Qwen3-30B-A3B. `--config.scorer=transformers` runs these checkpoints, too; differences are of the scores of three prompts and three labels.
"""  # noqa: E501

ALONE = "transformers alone"


def write(directory: Path, model_type: str, sizes: dict, keys: dict) -> None:
    """A checkpoint of this form with random weights."""
    read = {key: setting for key, setting in keys.items() if not key.startswith("+")}
    torch.manual_seed(0)
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model(model_type, **(tokens | sizes | read))
    is_pair = config.is_encoder_decoder
    make = AutoModelForSeq2SeqLM if is_pair else AutoModelForCausalLM
    model = make.from_config(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.15 * torch.randn_like(weights))  # as they come, all labels are alike
    model.save_pretrained(directory)
    path = directory / "config.json"
    raw = json.loads(path.read_text())
    raw |= {key.removeprefix("+"): setting for key, setting in keys.items()}
    path.write_text(json.dumps(raw))
    byte_level().save(str(directory / "tokenizer.json"))
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(options))


def outcome(model_type: str, sizes: dict, keys: dict) -> str:
    """The scorer that runs a checkpoint of this form, and the largest difference of scores."""
    directory = Path(tempfile.mkdtemp())
    try:
        try:
            write(directory, model_type, sizes, keys)
        except (
            ValueError,
            KeyError,
            ImportError,
            AttributeError,
            TypeError,
            AssertionError,
        ) as error:
            return f"not tried: {str(error).splitlines()[0][:100]}"
        theirs = TransformersLM(TransformersFiles(directory).load()).score(TEXTS, LABELS).log_probs
        if model_type not in FAMILIES:
            return ALONE
        try:
            ours = CausalLM(load_checkpoint(directory)).score(TEXTS, LABELS).log_probs
        except InputError as error:
            reason = str(error).replace(f"{directory}: ", "").replace("|", "/")[:160]
            return f"{ALONE}: {reason}"
        distance = float(np.abs(ours - theirs).max())
        # What rounding differs by on another machine is not written down.
        shown = "less than 0.0001" if distance < 1e-4 else f"{distance:.4f}"
        return f"A network here, {shown} nats from transformers"
    finally:
        shutil.rmtree(directory)


def page() -> str:
    """The whole page: under each outcome the model types, and the checkpoints of each."""
    outcomes: dict[str, dict[str, list[str]]] = {}
    for name, model_type, sizes, keys in FORMS:
        by_type = outcomes.setdefault(outcome(model_type, sizes, keys), {})
        by_type.setdefault(model_type, []).append(name)
    text = HEAD.format(version=transformers.__version__)
    for heading, by_type in outcomes.items():
        lines = [f"* `{kind}`: {', '.join(names)}" for kind, names in by_type.items()]
        text += "\n".join([f"\n**{heading}**\n", *lines, ""])
    return text


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    text = page()
    PAGE.write_text(text)
    sys.stdout.write(text)
