"""Train the mini language model from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini --config=configs/train_mini.py --out=DIR --workdir=W
"""

from itertools import accumulate
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from batch_calibration.artifacts.style import save
from batch_calibration.artifacts.training import curve as draw_curve
from batch_calibration.mini import documents, training, vocabulary
from batch_calibration.mini.optimization import Optimizer
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
    tasks = {name: get_task(name) for name in config.tasks}
    phases = tuple(
        training.Phase(
            steps, rows, length,
            documents.Recipe(
                tuple(mix), dict(zip(tasks, most, strict=True)), hardest, config.own_template,
                config.own_words, config.concentration, config.sticky,
            ),
        )
        for steps, rows, length, mix, most, hardest in config.phases
    )  # fmt: skip
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
    if any(phase.length > config.positions for phase in phases):
        raise InputError(f"a phase is longer than config.positions = {config.positions}.")
    ends = list(accumulate(phase.steps for phase in phases))
    progress = Progress(workdir, ends[-1], config.log_every, "tokens")

    def report(now: training.Progress) -> None:
        progress.step(now.step, now.tokens, {"loss": now.loss, "label": now.label_loss})

    optimizer = Optimizer(**{key: config[key] for key in Optimizer._fields})
    model = training.train(
        raw, tasks, tokenizer, phases, optimizer, config.seed,
        workdir / "state.safetensors", config.save_every, report, config.label_weight,
    )  # fmt: skip
    weights.save(out, model, gpt2, raw)
    tokenizer.save(str(out / "tokenizer.json"))
    minutes = progress.close()
    save(draw_curve(read_curve(progress.path), ends), workdir / "curve")
    print(f"trained in {minutes:.1f} minutes; the checkpoint is in {out}, the curve in {workdir}")


if __name__ == "__main__":
    enter(main)
