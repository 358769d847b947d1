"""Scores of checkpoints on meshes, in a process of its own: devices are forced before JAX starts.

python mesh_scores.py OUT DEVICES DIRECTORIES MESHES [COORDINATOR PROCESSES PROCESS]
"""

import json
import os
import sys

out, devices, directories, meshes, *hosts = sys.argv[1:]
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"

import jax  # noqa: E402
import numpy as np  # noqa: E402

if hosts:
    jax.distributed.initialize(hosts[0], int(hosts[1]), int(hosts[2]))

from test_causal_lm import SHOTS, queries  # noqa: E402

from batch_calibration.models.checkpoint import load_checkpoint  # noqa: E402
from batch_calibration.scoring.causal_lm import CausalLM  # noqa: E402
from batch_calibration.scoring.sharding import make_mesh  # noqa: E402

LABELS = [" positive", " negative", " a", " ab"]
found, spread = {}, {}
for directory in json.loads(directories):
    for text in json.loads(meshes):
        checkpoint = load_checkpoint(directory, mesh=make_mesh(text))
        texts = [SHOTS + query for query in queries(21)]
        found[f"{directory}|{text}"] = CausalLM(checkpoint).score(texts, LABELS).log_probs
        state = jax.tree.leaves(CausalLM(checkpoint)._state)
        parts = sum(leaf.addressable_shards[0].data.size for leaf in state)
        spread[f"{directory}|{text}|part"] = np.float64(parts / sum(leaf.size for leaf in state))
np.savez(out, **found, **spread)
