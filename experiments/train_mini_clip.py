"""Train the tiny CLIP from scratch and write it as a Hugging Face directory.

python -m experiments.train_mini_clip --config=configs/train_mini_clip.py --out=DIR --workdir=W
"""

from itertools import accumulate
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from batch_calibration.artifacts.style import save
from batch_calibration.embedded import drawing
from batch_calibration.errors import InputError
from batch_calibration.models import clip
from experiments.cli import enter
from experiments.pretrain import clip_training as training
from experiments.pretrain import vocabulary
from experiments.pretrain.loss_curve import curve as draw_curve
from experiments.pretrain.optimization import Optimizer
from experiments.pretrain.progress import Progress, read_curve

CONFIG = config_flags.DEFINE_config_file("config", None, "the training run", lock_config=True)
OUT = flags.DEFINE_string("out", None, "directory for the finished checkpoint", required=True)
WORKDIR = flags.DEFINE_string("workdir", None, "directory for state and loss curve", required=True)
flags.mark_flag_as_required("config")


def main() -> None:
    """Train, with a line of progress every few steps; a stopped run goes on where it was."""
    config = CONFIG.value
    if "phases" not in config or "patch" not in config:
        raise InputError(
            "--config: expected a training run with phases of pictures, found none; give "
            "--config=configs/train_mini_clip.py."
        )
    out, workdir = Path(OUT.value), Path(WORKDIR.value)
    workdir.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    phases = tuple(
        training.Phase(steps, pairs, tuple(tasks)) for steps, pairs, tasks in config.phases
    )
    tokenizer = vocabulary.learn_captions(config.vocabulary, config.vocabulary_texts, config.seed)
    shape = clip.Config(
        projection_dim=config.embedding,
        text_vocab_size=tokenizer.get_vocab_size(),
        text_hidden_size=config.text_width,
        text_intermediate_size=4 * config.text_width,
        text_num_hidden_layers=config.text_layers,
        text_num_attention_heads=config.text_heads,
        text_max_position_embeddings=config.positions,
        text_eos_token_id=tokenizer.get_vocab_size() - 1,
        vision_hidden_size=config.width,
        vision_intermediate_size=4 * config.width,
        vision_num_hidden_layers=config.layers,
        vision_num_attention_heads=config.heads,
        vision_image_size=drawing.SIZE,
        vision_patch_size=config.patch,
    )
    ends = list(accumulate(phase.steps for phase in phases))
    progress = Progress(workdir, config.log_every, "pairs")

    def report(now: training.Progress) -> None:
        left = sum(
            min(phase.steps, max(0, end - now.step)) * phase.pairs
            for phase, end in zip(phases, ends, strict=True)
        )
        progress.step(now.step, now.pairs, {"loss": now.loss, "right": now.right}, left)

    optimizer = Optimizer(**{key: config[key] for key in Optimizer._fields})
    model = training.train(
        shape, tokenizer, phases, optimizer, config.seed,
        workdir / "state.safetensors", config.save_every, report,
    )  # fmt: skip
    training.write(out, model, shape, tokenizer)
    minutes = progress.close()
    losses = {"loss": "picture to caption and back"}
    save(draw_curve(read_curve(progress.path), ends, losses, "pair"), workdir / "curve")
    print(f"trained in {minutes:.1f} minutes; the checkpoint is in {out}, the curve in {workdir}")


if __name__ == "__main__":
    enter(main)
