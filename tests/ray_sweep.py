"""A sweep on a Ray cluster of two nodes, one of which is removed while both score.

python ray_sweep.py WORKDIR
"""

import json
import sys
import threading
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from batch_calibration.grids import grid
from batch_calibration.settings import Settings
from batch_calibration.study import sweep
from experiments.launchers.ray import Ray


def main(workdir: str) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    settings = Settings.of(model="mini", data="mini", tasks="sst2", labeled_per_class=0, limit=100)
    studies = grid(settings.replace(seeds=6), shots=(1, 2))

    def remove() -> None:
        while len(list(Path(workdir).glob("scores/*.safetensors"))) < 2:
            time.sleep(0.02)
        cluster.remove_node(second, allow_graceful=False)

    threading.Thread(target=remove).start()
    report = sweep(studies, workdir, launch=Ray(workers=2, address=cluster.address))
    print(json.dumps({"contexts": report.contexts, "lost": report.lost,
                      "scored": [one.scored for one in report.workers]}))  # fmt: skip
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
