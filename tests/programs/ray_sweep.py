"""A sweep on a Ray cluster of two nodes; one is removed while a worker runs on each.

python ray_sweep.py WORKDIR
"""

import json
import sys
import threading
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster
from test_sweep import SETTINGS

from batch_calibration.cli.launchers.ray import Ray
from batch_calibration.settings import grid
from batch_calibration.studies import sweep


def main(workdir: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)

    def remove() -> None:
        # Both are at work, and wait for the last context.
        while sum("waiting" in log.read_text() for log in workdir.glob("work/logs/*.log")) < 2:
            time.sleep(0.05)
        cluster.remove_node(second, allow_graceful=False)
        (workdir / "removed").touch()

    threading.Thread(target=remove).start()
    cancelled = []
    ray.cancel = lambda task, **_: cancelled.append(task)
    studies = grid(SETTINGS, shots=(1, 2))
    report = sweep(studies, workdir, launch=Ray(workers=2, address=cluster.address))
    summary = {"contexts": report.contexts, "lost": report.lost, "workers": len(report.workers)}
    print(json.dumps(summary | {"cancelled": len(cancelled)}))
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
