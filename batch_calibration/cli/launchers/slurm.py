"""Starts workers as a job array of Slurm, by submitit."""

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
"""Times that a job that ran out of time is started again."""


@dataclass(frozen=True)
class Slurm:
    """Workers as the jobs of a Slurm array; a job that is preempted or out of time starts again.

    The jobs outlive the launcher, also one that is stopped.

    Attributes:
        workers: how many jobs.
        minutes: of each job, before it is started again.
        partition: of the cluster; "" is its default.
        cpus: for each node of a worker.
        gpus: for each node of a worker.
        memory: gigabytes for each node of a worker; 0 is the cluster's default.
        hosts: nodes of each worker, joined by `jax.distributed`; more than 1 need `config.mesh`.
        at_once: most jobs that run at a time.
        options: others of sbatch, by name, such as account.
        grace: seconds before the end of its time at which a job is asked to stop.
        cluster: "slurm"; "local" runs the jobs here, for a try.
        poll: seconds between looks at the jobs.
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
        """The report of each worker, or a sentence on its end."""
        import submitit

        work.check()
        jobs = self._submit(work)
        names = ", ".join(job.job_id for job in jobs)
        notify(
            f"jobs {names}; they go on without this program, and `scancel` stops them; what they "
            f"say is in {work.logs}"
        )
        # Only to wait: results are returned in the order of the jobs.
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
                # None leaves the option of sbatch out, so that the cluster's default holds.
                mem_gb=self.memory or None, slurm_partition=self.partition or None,
                slurm_additional_parameters=dict(self.options) or None,
            )  # fmt: skip
            with executor.batch():  # one array
                return [executor.submit(Job(work, self.hosts)) for _ in range(self.workers)]


@dataclass(frozen=True)
class Job:
    """A worker. Slurm starts it again after a preemption, and it goes on with what is left."""

    work: Work
    hosts: int = 1

    def __call__(self) -> ScoringReport | str:
        """Work; the sentence, where a setting is wrong."""
        use_few_arenas()  # before JAX starts its threads
        import jax

        # What is claimed is given back before Slurm kills the job.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        keep_programs()
        if self.hosts > 1:
            jax.distributed.initialize()  # JAX reads address and rank from Slurm's variables
        try:
            return self.work(print)
        except InputError as error:
            return str(error)

    def checkpoint(self) -> "submitit.helpers.DelayedSubmission":
        """The job that submitit starts again: this one, as the store holds what it finished."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def _read_report(job: "submitit.Job[ScoringReport | str]") -> ScoringReport | str:
    """A worker's report, or a sentence on how it ended."""
    import submitit

    try:
        return job.result()
    except submitit.core.utils.UncompletedJobError as error:
        return ended_early(f"job {job.job_id}", str(error).splitlines()[0], job.paths.stderr)
