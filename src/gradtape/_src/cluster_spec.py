"""The jobs of a cluster and the addresses of their tasks: `tf.train.ClusterSpec`, and TF_CONFIG."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any


def tf_config() -> dict[str, Any]:
    """The content of the environment variable TF_CONFIG: the cluster, and the task of this process."""
    text = os.environ.get("TF_CONFIG") or "{}"
    form = '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG is not JSON: {error}. It looks like this: {form}. Received: {text}") from None
    if not isinstance(found, dict) or not all(isinstance(found.get(key, {}), dict) for key in ("cluster", "task")):
        raise TypeError(f"TF_CONFIG is a dictionary of dictionaries, such as {form}. Received: {text}")
    return found


class ClusterSpec:
    """The jobs of a cluster: for each a list of addresses, or a dict of addresses by task number.

    >>> import gradtape as tf
    >>> spec = tf.train.ClusterSpec({"worker": ["localhost:2222", "localhost:2223"]})
    >>> spec.num_tasks("worker"), spec.task_address("worker", 1)
    (2, 'localhost:2223')

    >>> spec = tf.train.ClusterSpec({"ps": ["host0:2222"], "worker": {1: "host1:2222", 3: "host3:2222"}})
    >>> spec.jobs, spec.as_dict()
    (['ps', 'worker'], {'ps': ['host0:2222'], 'worker': {1: 'host1:2222', 3: 'host3:2222'}})
    >>> spec.task_indices("worker"), spec.job_tasks("worker")
    ([1, 3], [None, 'host1:2222', None, 'host3:2222'])
    """

    def __init__(self, cluster: Any) -> None:
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_dict()
        if not isinstance(cluster, Mapping):
            raise TypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a "
                f"`ClusterDef` protocol buffer. Received: {cluster!r}"
            )
        self._jobs = {name: _tasks(name, tasks) for name, tasks in sorted(cluster.items())}

    def as_dict(self) -> dict[str, Any]:
        """Return the jobs: lists of addresses, or dicts if the task numbers have gaps."""
        return {
            name: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
            for name, tasks in self._jobs.items()
        }

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """Return the number of tasks of a job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the numbers of the tasks of a job."""
        return list(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of a task."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Return the addresses of a job's tasks, with None for missing numbers."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks, default=-1) + 1)]

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._jobs:
            raise ValueError(f"No such job in cluster: {name!r}")
        return self._jobs[name]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = ", ".join(f"{name!r}: {tasks!r}" for name, tasks in self.as_dict().items())
        return f"ClusterSpec({{{parts}}})"


def _tasks(name: Any, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, (list, tuple)):
        numbered = dict(enumerate(tasks))
    elif isinstance(tasks, Mapping):
        numbered = dict(sorted(tasks.items()))
    else:
        raise TypeError(
            f"The tasks for job {name!r} must be a list or a dictionary from integers to strings. Received: {tasks!r}"
        )
    for number, address in numbered.items():
        if not isinstance(number, int) or not isinstance(address, str):
            raise TypeError(f"Task address {address!r} of job {name!r} must be a string, its number an integer.")
    return numbered
