"""Train the mini language model from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import jax
from absl import flags
from ml_collections import config_flags

from batch_calibration.artifacts.style import save
from batch_calibration.artifacts.training import curve as draw_curve
from batch_calibration.mini import documents, prose, training, vocabulary
from batch_calibration.models import gpt2, weights
from batch_calibration.tasks import get_task
from batch_calibration.typing import InputError
from experiments.door import enter
from experiments.progress import Progress, read_curve

CONFIG = config_flags.DEFINE_config_file("config", None, "the training run", lock_config=True)
OUT = flags.DEFINE_string("out", None, "directory for the finished checkpoint", required=True)
WORKDIR = flags.DEFINE_string("workdir", None, "directory for state and loss curve", required=True)
flags.mark_flag_as_required("config")


def main() -> None:
    """Train, with a line of progress every few steps; a stopped run goes on where it was."""
    config = CONFIG.value
    if "phases" not in config:
        raise InputError(
            "--config: expected a training run with phases, found none; give "
            "--config=configs/train_mini.py."
        )
    out, workdir = Path(OUT.value), Path(WORKDIR.value)
    workdir.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    # Must come before anything asks for a device.
    jax.config.update("jax_num_cpu_devices", config.cpu_devices)
    phases = tuple(_phase({**config, **phase}) for phase in config.phases)
    names = dict.fromkeys(name for phase in phases for name, _ in phase.recipe.mix)
    tasks = {name: get_task(name) for name in names if name != prose.NAME}
    if any(phase.length > config.positions for phase in phases):
        raise InputError(f"a phase is longer than config.positions = {config.positions}.")
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
    progress = Progress(workdir, config.log_every, "tokens")

    def report(now: training.Progress) -> None:
        here, after = phases[len(now.steps) - 1], phases[len(now.steps) :]
        left = (max(0, here.steps - now.steps[-1]) * here.rows * here.length) + sum(
            phase.steps * phase.rows * phase.length for phase in after
        )
        progress.step(sum(now.steps), now.tokens, {"loss": now.loss, **now.labels}, left)

    learning = training.Learning(**{key: config[key] for key in training.Learning._fields})
    model, steps = training.train(
        raw, tasks, tokenizer, phases, learning, config.seed,
        workdir / "state.safetensors", config.save_every, report,
    )  # fmt: skip
    weights.save(out, model, gpt2, raw)
    tokenizer.save(str(out / "tokenizer.json"))
    progress.close()
    rows, ends = read_curve(progress.path), list(accumulate(steps))
    save(draw_curve(rows, ends, tasks=list(tasks)), workdir / "curve")
    for number, (start, stop) in enumerate(pairwise([0, *ends]), 1):
        spent = sum(row["seconds"] for row in rows if start < row["step"] <= stop)
        print(f"phase {number}: {stop - start} steps, {spent / 60:.1f} minutes")
    print(f"the checkpoint is in {out}, the curve in {workdir}")


def _phase(settings: dict[str, Any]) -> training.Phase:
    """A phase of the config, which may set knobs of the text for itself."""
    recipe = {key: settings[key] for key in documents.Recipe._fields}
    recipe["mix"] = tuple(settings["mix"].items())
    fields = {key: settings[key] for key in training.Phase._fields if key != "recipe"}
    return training.Phase(**fields, recipe=documents.Recipe(**recipe))


if __name__ == "__main__":
    enter(main)
