"""A mini language model from a training config: what the programs that train one share."""

from itertools import accumulate
from pathlib import Path
from typing import Any

import jax
from ml_collections import ConfigDict

from batch_calibration.errors import InputError
from batch_calibration.models import gpt2, weights
from batch_calibration.tasks import get_task
from experiments.pretrain import documents, prose, training, vocabulary
from experiments.pretrain.progress import Progress


def fit(config: ConfigDict, out: Path, workdir: Path) -> list[int]:
    """Train, with a line of progress every few steps; a stopped run goes on where it was.

    The checkpoint is a Hugging Face directory in `out`; state and loss curve are in `workdir`.

    Returns:
        After which step each phase was over.
    """
    # Must come before anything asks for a device.
    jax.config.update("jax_num_cpu_devices", config.cpu_devices)
    known = {*documents.Recipe._fields, *training.Phase._fields}
    for phase in config.phases:
        for key in phase:
            if key not in known:
                raise InputError.unknown("key of a phase", key, sorted(known - {"recipe"}))
    phases = tuple(_phase({**config, **phase}) for phase in config.phases)
    training.check(phases, config.positions, jax.device_count())
    workdir.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(name for phase in phases for name, _ in phase.recipe.mix)
    tasks = {name: get_task(name) for name in names if name not in prose.KINDS}
    tokenizer = vocabulary.learn(
        tasks, phases[-1].recipe, config.vocabulary, config.vocabulary_texts, config.seed
    )
    end = tokenizer.token_to_id(documents.END)
    raw = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": tokenizer.get_vocab_size(),
        "n_positions": config.positions,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": end,
        "eos_token_id": end,
        "tie_word_embeddings": True,
    }
    state = workdir / "state.safetensors"
    if not state.is_file():
        (workdir / "curve.jsonl").unlink(missing_ok=True)
    progress = Progress(workdir, config.log_every, "tokens")

    def report(now: training.Told) -> None:
        here, after = phases[len(now.steps) - 1], phases[len(now.steps) :]
        left = (max(0, here.steps - now.steps[-1]) * here.rows * here.length) + sum(
            phase.steps * phase.rows * phase.length for phase in after
        )
        progress.step(sum(now.steps), now.tokens, {"loss": now.loss, **now.labels}, left)

    learning = training.Learning(**{key: config[key] for key in training.Learning._fields})
    model, steps = training.train(
        raw, tasks, tokenizer, phases, learning, config.seed,
        state, config.save_every, report,
    )  # fmt: skip
    weights.save(out, model, gpt2.FAMILY, raw)
    tokenizer.save(str(out / "tokenizer.json"))
    progress.close()
    return list(accumulate(steps))


def _phase(settings: dict[str, Any]) -> training.Phase:
    """A phase of the config, which may set knobs of the text for itself."""
    recipe = {key: settings[key] for key in documents.Recipe._fields}
    recipe["mix"] = tuple(settings["mix"].items())
    fields = {key: settings[key] for key in training.Phase._fields if key != "recipe"}
    return training.Phase(**fields, recipe=documents.Recipe(**recipe))
