"""Scores of checkpoints on meshes, in a process of its own: devices are forced before JAX starts.

With AS_ON_TPU in the environment, layers are scanned and attention is TPUs' kernel, interpreted.

python mesh_scores.py OUT DEVICES DIRECTORIES MESHES [COORDINATOR PROCESSES PROCESS]
"""

import json
import os
import sys


def main(out: str, devices: str, directories: str, meshes: str, *hosts: str) -> None:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import jax
    import numpy as np

    if hosts:
        jax.distributed.initialize(hosts[0], int(hosts[1]), int(hosts[2]))
    from naive_scoring import SHOTS, queries

    from batch_calibration.scoring.causal_lm import CausalLM
    from batch_calibration.scoring.engine.sharding import make_mesh
    from batch_calibration.scoring.models.files.checkpoint import load_checkpoint

    if "AS_ON_TPU" in os.environ:
        as_on_tpu()
    saved = {}
    for directory in json.loads(directories):
        for text in json.loads(meshes):
            scorer = CausalLM(load_checkpoint(directory, mesh=make_mesh(text)))
            texts = [SHOTS + query for query in queries(21)]
            scores = scorer.score(texts, [" positive", " negative", " a", " ab"])
            saved[f"{directory}|{text}"] = scores.log_probs
            state = jax.tree.leaves(scorer._forward._state)
            size = sum(leaf.addressable_shards[0].data.size for leaf in state)
            saved[f"{directory}|{text}|part"] = np.float64(size / sum(x.size for x in state))
    np.savez(out, **saved)


def as_on_tpu():
    from functools import partial

    from batch_calibration.scoring.engine import programs
    from batch_calibration.scoring.models import packed_attention
    from batch_calibration.scoring.models.files import weights

    programs.attention_kind = lambda *_: "packed"
    packed_attention.packed_attention = partial(packed_attention.packed_attention, interpret=True)
    weights.SCANNED = ("cpu",)


if __name__ == "__main__":
    main(*sys.argv[1:])
