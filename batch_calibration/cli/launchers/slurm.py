"""Starts workers as a job array of Slurm, with submitit."""

import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from batch_calibration.cli.launchers import ended_early
from batch_calibration.cli.machine import keep_programs, use_few_arenas
from batch_calibration.errors import InputError, answering
from batch_calibration.studies.scoring import ScoringReport
from batch_calibration.studies.workers import Work

if TYPE_CHECKING:
    import submitit

MAX_RESTARTS = 100
"""Maximum number of restarts of a job that reaches its time limit."""


@dataclass(frozen=True)
class Slurm:
    """A launcher of workers as jobs of a Slurm array.

    Slurm restarts a job that is preempted or reaches its time limit. The jobs continue if the
    launcher ends or is interrupted.

    Attributes:
        workers: Number of jobs.
        minutes: Time limit of each job, after which it restarts.
        partition: Partition of the cluster; "" is the cluster's default.
        cpus: CPU cores for each node of a worker.
        gpus: GPUs for each node of a worker.
        memory: Gigabytes for each node of a worker; 0 is the cluster's default.
        hosts: Nodes of each worker, joined by `jax.distributed`; more than 1 need `config.mesh`.
        at_once: Maximum number of jobs that run at the same time.
        options: Other options of sbatch by name, such as account.
        grace: Seconds before the time limit at which a job is asked to stop.
        cluster: "slurm", or "local" to run the jobs on this machine as a test.
        poll: Seconds between checks of the jobs.
    """

    workers: int = 2
    minutes: int = 60
    partition: str = ""
    cpus: int = 1
    gpus: int = 0
    memory: int = 0
    hosts: int = 1
    at_once: int = 256
    options: Mapping[str, str] = field(default_factory=dict)
    grace: int = 60
    cluster: str = "slurm"
    poll: float = 10.0

    def __call__(self, work: Work, notify: Callable[[str], None]) -> list[ScoringReport | str]:
        """Returns each worker's report, or a message that explains its early end."""
        import submitit

        work.check()
        jobs = self._submit(work)
        names = ", ".join(job.job_id for job in jobs)
        notify(
            f"jobs {names}; they continue without this program, and `scancel` stops them; their "
            f"output is in {work.logs}"
        )
        # This only waits: results are returned in the order of the jobs.
        for _ in submitit.helpers.as_completed(jobs, poll_frequency=self.poll):
            pass
        return [_read_report(job) for job in jobs]

    def _submit(self, work: Work) -> "list[submitit.Job[ScoringReport | str]]":
        import submitit

        remedy = "run it where sbatch works, or give --launcher=local"
        with answering(RuntimeError, "--launcher=slurm", "jobs to be submitted", remedy):
            logs, restarts = work.logs / "%j", MAX_RESTARTS
            executor = submitit.AutoExecutor(logs, self.cluster, slurm_max_num_timeout=restarts)
            executor.update_parameters(
                name="sweep", timeout_min=self.minutes, nodes=self.hosts, tasks_per_node=1,
                cpus_per_task=self.cpus, gpus_per_node=self.gpus,
                slurm_array_parallelism=self.at_once, slurm_signal_delay_s=self.grace,
                # With None, the option of sbatch is left out and the cluster's default applies.
                mem_gb=self.memory or None, slurm_partition=self.partition or None,
                slurm_additional_parameters=dict(self.options) or None,
            )  # fmt: skip
            with executor.batch():  # submits all jobs as one array
                return [executor.submit(Job(work, self.hosts)) for _ in range(self.workers)]


@dataclass(frozen=True)
class Job:
    """A worker, which Slurm restarts after a preemption to do the remaining work."""

    work: Work
    hosts: int = 1

    def __call__(self) -> ScoringReport | str:
        """Runs the worker; returns its report, or the message of an `InputError`."""
        use_few_arenas()  # before JAX starts its threads
        import jax

        # Exits on SIGTERM, so that claims are released before Slurm kills the job.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        keep_programs()
        if self.hosts > 1:
            jax.distributed.initialize()  # JAX reads address and rank from Slurm's variables
        try:
            return self.work(print)
        except InputError as error:
            return str(error)

    def checkpoint(self) -> "submitit.helpers.DelayedSubmission":
        """Returns the job for submitit to restart: this one, as the store keeps finished work."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def _read_report(job: "submitit.Job[ScoringReport | str]") -> ScoringReport | str:
    """Returns a worker's report, or a message that explains its early end."""
    import submitit

    try:
        return job.result()
    except submitit.core.utils.UncompletedJobError as error:
        return ended_early(f"job {job.job_id}", str(error).splitlines()[0], job.paths.stderr)
