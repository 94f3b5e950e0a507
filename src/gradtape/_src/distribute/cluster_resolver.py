"""`tf.distribute.cluster_resolver`: classes that find out the cluster of a process, and its task."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

from gradtape._src.cluster_spec import ClusterSpec, tf_config
from gradtape._src.devices import logical_devices

__all__ = [
    "ClusterResolver",
    "GCEClusterResolver",
    "KubernetesClusterResolver",
    "KubernetesExecutableLocation",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "TPUClusterResolver",
    "UnionResolver",
]


class ClusterResolver:
    """A description of a cluster and of this process's task.

    >>> spec = tf.train.ClusterSpec({"worker": ["host1:2222", "host2:2222"]})
    >>> resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=1)
    >>> resolver.cluster_spec().as_dict()
    {'worker': ['host1:2222', 'host2:2222']}
    >>> resolver.master("worker", 0, rpc_layer="grpc"), resolver.environment
    ('grpc://host1:2222', '')
    >>> "GPU" in resolver.num_accelerators()
    False
    """

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None

    def cluster_spec(self) -> ClusterSpec:
        """Return the jobs and addresses of the cluster."""
        raise NotImplementedError("cluster_spec is not implemented.")

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Return the address of a task, or of the process to connect to."""
        raise NotImplementedError("master is not implemented.")

    @property
    def environment(self) -> str:
        """Where the process runs: "" or "google"."""
        return ""

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """Return the accelerators of this machine, by kind."""
        found = {kind: len(logical_devices(kind)) for kind in ("GPU", "TPU")}
        return {kind: count for kind, count in found.items() if count}


def _address(address: str, rpc_layer: str | None) -> str:
    return f"{rpc_layer}://{address}" if rpc_layer else address


class SimpleClusterResolver(ClusterResolver):
    """A cluster resolver for a given `ClusterSpec`.

    >>> import gradtape as tf
    >>> spec = tf.train.ClusterSpec({"worker": ["localhost:2222"]})
    >>> resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=0)
    >>> resolver.master("worker", 0)
    'localhost:2222'

    >>> spec = tf.train.ClusterSpec({"worker": ["host1:2222", "host2:2222"]})
    >>> resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec)
    >>> resolver.cluster_spec().num_tasks("worker"), resolver.environment
    (2, '')
    >>> "GPU" in resolver.num_accelerators()
    False
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError(f"cluster_spec must be a `tf.train.ClusterSpec`. Received: {cluster_spec!r}")
        if not isinstance(master, str):
            raise TypeError(f"master must be a string. Received: {master!r}")
        self._spec, self._master, self._environment = cluster_spec, master, environment
        self.task_type, self.task_id, self.rpc_layer = task_type, task_id, rpc_layer
        self._accelerators = num_accelerators

    def cluster_spec(self) -> ClusterSpec:
        return self._spec

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        if task_type is not None and task_id is not None:
            return _address(self._spec.task_address(task_type, task_id), rpc_layer or self.rpc_layer)
        return _address(self._master, rpc_layer or self.rpc_layer)

    @property
    def environment(self) -> str:
        return self._environment

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        if self._accelerators is None:
            return super().num_accelerators(task_type, task_id, config_proto)
        return self._accelerators


class TFConfigClusterResolver(ClusterResolver):
    """The cluster that the environment variable TF_CONFIG describes, as `gradtape launch` sets it.

    >>> import json, os
    >>> import gradtape as tf
    >>> os.environ["TF_CONFIG"] = json.dumps(
    ...     {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    ... )
    >>> resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    >>> resolver.task_type, resolver.task_id, resolver.master()
    ('worker', 1, 'b:2')
    >>> del os.environ["TF_CONFIG"]
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._given = {"type": task_type, "index": task_id, "rpc_layer": rpc_layer, "environment": environment}

    def _of_task(self, name: str) -> Any:
        given = self._given[name]
        return tf_config().get("task", {}).get(name) if given is None else given

    @property
    def task_type(self) -> Any:
        """The job of this process; None outside a cluster."""
        found = self._of_task("type")
        return None if found is None else str(found)

    @task_type.setter
    def task_type(self, value: Any) -> None:
        self._given["type"] = value

    @property
    def task_id(self) -> Any:
        """The number of this process in its job; None outside a cluster."""
        found = self._of_task("index")
        if found is not None and not str(found).isdecimal():
            raise ValueError(f"The index of the task in TF_CONFIG is a number. Received: {found!r}")
        return None if found is None else int(found)

    @task_id.setter
    def task_id(self, value: Any) -> None:
        self._given["index"] = value

    @property
    def rpc_layer(self) -> Any:
        """The protocol that prefixes addresses."""
        given = self._given["rpc_layer"]
        return tf_config().get("rpc_layer") if given is None else given

    @rpc_layer.setter
    def rpc_layer(self, value: Any) -> None:
        self._given["rpc_layer"] = value

    @property
    def environment(self) -> Any:
        return self._given["environment"]

    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec(tf_config().get("cluster", {}))

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        spec = self.cluster_spec()
        if not spec.jobs or (len(spec.jobs) == 1 and spec.num_tasks(spec.jobs[0]) == 1):
            return ""
        kind = self.task_type if task_type is None else task_type
        number = self.task_id if task_id is None else task_id
        return _address(spec.task_address(kind, number), self.rpc_layer if rpc_layer is None else rpc_layer)


class UnionResolver(ClusterResolver):
    """Several clusters combined: the tasks of jobs with the same name are concatenated.

    >>> a, b = (
    ...     tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({"worker": [host]}))
    ...     for host in ("host1:2222", "host2:2222")
    ... )
    >>> both = tf.distribute.cluster_resolver.UnionResolver(a, b)
    >>> both.cluster_spec().as_dict(), both.environment
    ({'worker': ['host1:2222', 'host2:2222']}, '')
    >>> both.master("worker", 1)
    'host2:2222'
    """

    def __init__(self, *args: ClusterResolver, **kwargs: Any) -> None:
        if not args:
            raise ValueError("At least one ClusterResolver is required.")
        for resolver in args:
            if not isinstance(resolver, ClusterResolver):
                raise TypeError(f"All arguments must be a sub-class of `ClusterResolver.` Received: {resolver!r}")
        self._resolvers = args
        self.task_type, self.task_id = kwargs.pop("task_type", None), kwargs.pop("task_id", None)
        self.rpc_layer = kwargs.pop("rpc_layer", None)
        if kwargs:
            raise ValueError(f"Unexpected kwargs provided {kwargs!r}")

    def cluster_spec(self) -> ClusterSpec:
        jobs: dict[str, list[Any]] = {}
        for resolver in self._resolvers:
            spec = resolver.cluster_spec()
            for name in spec.jobs:
                jobs.setdefault(name, []).extend(spec.job_tasks(name))
        return ClusterSpec(jobs)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        if task_type is not None and task_id is not None:
            return _address(self.cluster_spec().task_address(task_type, task_id), rpc_layer or self.rpc_layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer)

    @property
    def environment(self) -> str:
        return self._resolvers[0].environment


class SlurmClusterResolver(ClusterResolver):
    """The tasks of a SLURM job step, from the variables that `srun` sets.

    >>> import os
    >>> os.environ.update(SLURM_PROCID="1", SLURM_STEP_NODELIST="n[1-2]", SLURM_STEP_NUM_TASKS="2")
    >>> os.environ.update(SLURM_STEP_TASKS_PER_NODE="1(x2)")
    >>> resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(gpus_per_node=0, gpus_per_task=0)
    >>> resolver.cluster_spec().as_dict(), resolver.get_task_info()
    ({'worker': ['n1:8888', 'n2:8888']}, ('worker', 1))
    >>> resolver.master()
    'grpc://n2:8888'
    """

    def __init__(
        self,
        jobs: dict[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: Any = None,
        auto_set_gpu: bool = True,
        rpc_layer: str = "grpc",
    ) -> None:
        self._rank = int(_slurm("SLURM_PROCID"))
        total = int(os.environ.get("SLURM_STEP_NUM_TASKS") or _slurm("SLURM_NTASKS"))
        self._jobs = {"worker": total} if jobs is None else dict(jobs)
        hosts = expand_hostlist(os.environ.get("SLURM_STEP_NODELIST") or _slurm("SLURM_NODELIST"))
        counts = _tasks_per_node(tasks_per_node, len(hosts))
        if sum(self._jobs.values()) > sum(counts):
            raise ValueError(
                f"There are more tasks in jobs ({sum(self._jobs.values())}) than SLURM has started ({sum(counts)})."
            )
        self._addresses = [
            f"{host}:{port_base + i}" for host, count in zip(hosts, counts, strict=True) for i in range(count)
        ]
        self.rpc_layer = rpc_layer or None
        self.task_type, self.task_id = self.get_task_info()

    def get_task_info(self) -> Any:
        """Return the job of this process, and its number in the job."""
        first = 0
        for name, count in self._jobs.items():
            if self._rank < first + count:
                return name, self._rank - first
            first += count
        return None, None

    def cluster_spec(self) -> ClusterSpec:
        jobs, first = {}, 0
        for name, count in self._jobs.items():
            jobs[name] = self._addresses[first : first + count]
            first += count
        return ClusterSpec(jobs)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        kind = self.task_type if task_type is None else task_type
        number = self.task_id if task_id is None else task_id
        if kind is None or number is None:
            return ""
        return _address(self.cluster_spec().task_address(kind, number), rpc_layer or self.rpc_layer)


def _slurm(name: str) -> str:
    """A variable that SLURM sets."""
    if name not in os.environ:
        raise RuntimeError(f"{name} not found in environment. Not running inside a SLURM step?")
    return os.environ[name]


def _tasks_per_node(given: Any, nodes: int) -> Sequence[int]:
    if isinstance(given, int):
        return [given] * nodes
    if given is not None:
        return list(given)
    text = os.environ.get("SLURM_STEP_TASKS_PER_NODE") or os.environ.get("SLURM_TASKS_PER_NODE", "1")
    counts: list[int] = []
    for part in text.split(","):  # 2(x3),1: three nodes with two tasks, one with one
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if found is None:
            raise ValueError(f"SLURM_TASKS_PER_NODE cannot be read: {text!r}.")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def expand_hostlist(text: str) -> list[str]:
    """Expand SLURM's abbreviated list of hosts.

    >>> expand_hostlist("n[1-2,05],login")
    ['n1', 'n2', 'n05', 'login']
    """
    hosts: list[str] = []
    for prefix, inside, suffix in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?([^,\[\]]*)", text):
        for part in inside.split(",") if inside else [""]:
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last) + 1) if last else [first]
            hosts += [f"{prefix}{str(n).zfill(len(first))}{suffix}" for n in numbers]
    return hosts


# -- clusters that services describe ---------------------------------------------------------------------------------
class KubernetesExecutableLocation(Enum):
    """Where the program runs: in a pod of the cluster, or outside, with a `kubeconfig`.

    >>> tf.distribute.cluster_resolver.KubernetesExecutableLocation.WITHIN_CLUSTER.name
    'WITHIN_CLUSTER'
    """

    WITHIN_CLUSTER = 0
    OFF_CLUSTER = 1


class KubernetesClusterResolver(ClusterResolver):
    """The pods of a Kubernetes cluster whose labels name a job. It needs the package `kubernetes`, or a client.

    >>> import gradtape as tf
    >>> tf.distribute.cluster_resolver.KubernetesExecutableLocation.OFF_CLUSTER.value
    1
    """

    def __init__(
        self,
        job_to_label_mapping: dict[str, Sequence[str]] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str | None = "grpc",
        override_client: Any = None,
        executable_location: KubernetesExecutableLocation = KubernetesExecutableLocation.WITHIN_CLUSTER,
    ) -> None:
        if not isinstance(executable_location, KubernetesExecutableLocation):
            raise ValueError("The executable location provided is invalid.")
        self._labels = job_to_label_mapping or {"worker": ["job-name=tensorflow"]}
        self._port, self.rpc_layer = tf_server_port, rpc_layer
        self._client = override_client or _kubernetes_client(executable_location)

    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec({job: self._addresses(labels) for job, labels in self._labels.items()})

    def _addresses(self, labels: Sequence[str]) -> list[str]:
        pods = [
            pod
            for label in labels
            for pod in sorted(
                self._client.list_pod_for_all_namespaces(label_selector=label).items, key=lambda pod: pod.metadata.name
            )
        ]
        for pod in pods:
            if pod.status.phase != "Running":
                raise RuntimeError(f'Pod "{pod.metadata.name}" is not running; phase: "{pod.status.phase}"')
        return [f"{pod.status.host_ip}:{self._port}" for pod in pods]

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        kind, number = task_type or self.task_type, self.task_id if task_id is None else task_id
        if kind is None or number is None:
            return ""
        return _address(self.cluster_spec().task_address(kind, number), rpc_layer or self.rpc_layer)


def _kubernetes_client(location: KubernetesExecutableLocation) -> Any:
    try:
        client, config = (importlib.import_module(f"kubernetes.{name}") for name in ("client", "config"))
    except ImportError:
        raise ImportError(
            "The Kubernetes Python client must be installed before using the Kubernetes Cluster Resolver. To install "
            "the Kubernetes Python client, run `pip install kubernetes` on your command line."
        ) from None
    if location is KubernetesExecutableLocation.WITHIN_CLUSTER:
        config.load_incluster_config()
    else:
        config.load_kube_config()
    return client.CoreV1Api()


class GCEClusterResolver(ClusterResolver):
    """The machines of an instance group on Google Compute Engine. It needs `googleapiclient`, or a service.

    >>> tf.distribute.cluster_resolver.GCEClusterResolver("project", "zone", "group", 8470).cluster_spec()
    Traceback (most recent call last):
        ...
    ImportError: googleapiclient must be installed before using the GCE cluster resolver: pip install...
    """

    def __init__(
        self,
        project: str,
        zone: str,
        instance_group: str,
        port: int,
        task_type: str = "worker",
        task_id: int = 0,
        rpc_layer: str | None = "grpc",
        credentials: Any = "default",
        service: Any = None,
    ) -> None:
        self._where = {"project": project, "zone": zone}
        self._group, self._port = instance_group, port
        self.task_type, self.task_id, self.rpc_layer = task_type, task_id, rpc_layer
        self._service = service or _compute_service(credentials)

    def cluster_spec(self) -> ClusterSpec:
        groups, instances = self._service.instanceGroups(), self._service.instances()
        request = groups.listInstances(
            **self._where, instanceGroup=self._group, body={"instanceState": "RUNNING"}, orderBy="name"
        )
        addresses = []
        while request is not None:
            response = request.execute()
            for item in response["items"]:
                details = instances.get(**self._where, instance=item["instance"].split("/")[-1]).execute()
                addresses.append(f"{details['networkInterfaces'][0]['networkIP']}:{self._port}")
            request = groups.listInstances_next(previous_request=request, previous_response=response)
        return ClusterSpec({self.task_type or "worker": sorted(addresses)})

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        kind, number = task_type or self.task_type, self.task_id if task_id is None else task_id
        if kind is None or number is None:
            return ""
        return _address(self.cluster_spec().task_address(kind, number), rpc_layer or self.rpc_layer)


def _compute_service(credentials: Any) -> Any:
    try:
        discovery = importlib.import_module("googleapiclient.discovery")
    except ImportError:
        raise ImportError(
            "googleapiclient must be installed before using the GCE cluster resolver: pip install "
            "google-api-python-client."
        ) from None
    given = {} if credentials == "default" else {"credentials": credentials}
    return discovery.build("compute", "v1", **given)


class TPUClusterResolver(ClusterResolver):
    """The TPU cores of this machine: `tpu="local"`. JAX can use a TPU only from the machine it is attached to.

    >>> import gradtape as tf
    >>> tf.distribute.cluster_resolver.TPUClusterResolver("local").master()
    'local'
    """

    def __init__(
        self,
        tpu: str | None = None,
        zone: str | None = None,
        project: str | None = None,
        job_name: str = "worker",
        coordinator_name: str | None = None,
        coordinator_address: str | None = None,
        credentials: Any = "default",
        service: Any = None,
        discovery_url: str | None = None,
    ) -> None:
        name = tpu if tpu is not None else os.environ.get("TPU_NAME")
        if name is None:
            raise ValueError("Please provide a TPU Name to connect to.")
        if name not in ("", "local"):
            raise ValueError(
                f"Could not lookup TPU metadata from name '{name}'. gradtape can use only the TPU of the machine it "
                "runs on, through JAX: run the program there, with TPUClusterResolver('local')."
            )
        self._name, self._job = name, job_name
        self.task_type, self.task_id = job_name, 0

    @staticmethod
    def connect(tpu: str | None = None, zone: str | None = None, project: str | None = None) -> TPUClusterResolver:
        """Return the resolver; there is nothing to connect to."""
        return TPUClusterResolver(tpu, zone, project)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        return self._name

    get_master = master

    def get_job_name(self) -> str:
        """Return the job of the TPU workers."""
        return self._job

    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec({})

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        return {"TPU": len(logical_devices("TPU"))}
