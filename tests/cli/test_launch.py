"""`gradtape launch`: processes that start and end together."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from unittest import mock

import pytest

import gradtape as tf
from gradtape._src.cli.launch import Group, free_ports, parsed
from gradtape._src.cli.main import main
from gradtape._src.cli.rendezvous import Server

COMMAND = [sys.executable, "-m", "gradtape", "launch"]


def launched(tmp_path, source, *options, timeout=120):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(source))
    return subprocess.run(
        [*COMMAND, *options, str(script)], capture_output=True, text=True, timeout=timeout, cwd=tmp_path
    )


WHO = """
import json, os, sys, time
config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]
"""


def test_every_process_knows_the_cluster(tmp_path):
    done = launched(tmp_path, WHO + "print(json.dumps(config))\nprint('end', end='')", "--nproc", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [re.fullmatch(r"\[(\d)\] (.*)", line).groups() for line in done.stdout.splitlines()]
    configs = {number: json.loads(text) for number, text in lines if text != "end"}
    assert sorted(lines)[0][0] == "0"
    assert {number: config["task"]["index"] for number, config in configs.items()} == {"0": 0, "1": 1, "2": 2}
    (addresses,) = {tuple(config["cluster"]["worker"]) for config in configs.values()}
    assert len(set(addresses)) == 3


def test_long_lines_are_not_mixed(tmp_path):
    done = launched(tmp_path, WHO + "for _ in range(20):\n    print(str(index) * 300_000)", "--nproc", "3")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert sorted(lines) == sorted(f"[{i}] " + str(i) * 300_000 for i in range(3) for _ in range(20))


def test_a_process_that_fails_ends_the_others(tmp_path):
    began = time.monotonic()
    done = launched(tmp_path, WHO + "sys.exit(7) if index == 1 else time.sleep(100)")
    assert done.returncode == 7
    assert time.monotonic() - began < 60


def test_the_group_is_started_again(tmp_path):
    source = WHO + "number = os.environ['GRADTAPE_RESTART']\nprint('try', number)\nsys.exit(3 if number == '0' else 0)"
    done = launched(tmp_path, source, "--max-restarts", "2")
    assert done.returncode == 0
    assert "exit code 3; restart 1 of 2" in done.stderr
    lines = done.stdout.splitlines()
    assert {"[0] try 1", "[1] try 1"} < set(lines) <= {"[0] try 0", "[1] try 0", "[0] try 1", "[1] try 1"}
    assert launched(tmp_path, source).returncode == 3


def test_signals_are_passed_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WHO + "print('ready', flush=True)\ntime.sleep(100)")
    process = subprocess.Popen([*COMMAND, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert {process.stdout.readline().strip() for _ in range(2)} == {"[0] ready", "[1] ready"}
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_usage(capsys):
    for arguments in (
        ["launch"],
        ["launch", "--nproc", "0", "x.py"],
        ["launch", "--nproc"],
        ["launch", "--what", "x.py"],
        ["launch", "--nnodes", "2", "x.py"],
        ["launch", "--nnodes", "2", "--node-rank", "2", "--rendezvous", "a:1", "x.py"],
    ):
        assert main(arguments) == 2
        assert "launch" in (said := capsys.readouterr().err) or "--n" in said


def test_machines_meet_and_end_together(tmp_path):
    script = tmp_path / "script.py"
    source = """
    print(json.dumps(config), os.environ["GRADTAPE_RESTART"], flush=True)
    if os.environ["GRADTAPE_RESTART"] == "0":
        sys.exit(5) if index == 2 else time.sleep(100)
    """
    script.write_text(WHO + textwrap.dedent(source))
    with free_ports(1) as (port,):
        pass
    options = ["--nnodes", "2", "--nproc", "2", "--max-restarts", "1", "--rendezvous", f"127.0.0.1:{port}"]
    nodes = [
        subprocess.Popen([*COMMAND, *options, "--node-rank", str(node), str(script)], stdout=subprocess.PIPE, text=True)
        for node in (0, 1)
    ]
    outputs = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    for first, output in zip((0, 2), outputs, strict=True):
        again = [line for line in output.splitlines() if line.endswith(" 1")]
        configs = [json.loads(line.split("] ", 1)[1][:-2]) for line in again]
        assert sorted(config["task"]["index"] for config in configs) == [first, first + 1]
        assert all(len(config["cluster"]["worker"]) == 4 for config in configs)


def test_a_machine_that_is_lost_may_come_back(tmp_path):
    source = """
    from pathlib import Path
    here = Path(sys.argv[1])
    (here / f"pid-{index}").write_text(str(os.getpid()))
    if not (here / "lost").exists():
        time.sleep(100)
    print("again", index)
    """
    (tmp_path / "script.py").write_text(WHO + textwrap.dedent(source))
    with free_ports(1) as (port,):
        pass
    options = ["--nnodes", "2", "--nproc", "1", "--max-restarts", "1", "--rendezvous", f"127.0.0.1:{port}"]

    def start(node):
        command = [*COMMAND, *options, "--node-rank", str(node), str(tmp_path / "script.py"), str(tmp_path)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    first, second = start(0), start(1)
    limit = time.monotonic() + 60
    while not all((tmp_path / f"pid-{i}").exists() for i in (0, 1)) and time.monotonic() < limit:
        time.sleep(0.05)
    (tmp_path / "lost").write_text("")
    second.kill()  # with its process, as a machine is
    os.kill(int((tmp_path / "pid-1").read_text()), signal.SIGKILL)
    second.communicate(timeout=60)
    third = start(1)
    assert [node.communicate(timeout=60)[0] for node in (first, third)] == ["[0] again 0\n", "[1] again 1\n"]
    assert [first.returncode, third.returncode] == [0, 0]


CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"


def test_examples_of_clusters_say_what_is_understood():
    """The job for Kubernetes sets the variables that the launcher reads, and the script for SLURM its options."""
    job = (CLUSTER / "kubernetes.yaml").read_text()
    pods = dict(re.findall(r'name: (\w+), value: "?([\w.-]+)"?', job))
    assert parsed(["t.py"], {"JOB_COMPLETION_INDEX": "3", **pods})[3:7] == (4, 3, "digits-0.digits", 29400)
    assert "completionMode: Indexed" in job
    (command,) = re.findall(r"srun gradtape launch (.*?) \\\n", (CLUSTER / "slurm.sh").read_text())
    assert parsed([*command.split(), "t.py"], {})[1:3] == (1, 3)


@pytest.mark.slow
def test_the_example_for_a_cluster_continues_after_a_failure(tmp_path):
    pytest.importorskip("jax")
    command = [*COMMAND, "--nproc", "2", "--max-restarts", "1", str(CLUSTER / "train.py"), "--steps", "40"]
    found = []
    for name, options in (("a", []), ("b", ["--fail-at", "25"])):
        done = subprocess.run(
            [*command, "--checkpoints", str(tmp_path / name), *options], capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr
        found.append(re.findall(r"step (\d+): loss (\S+)", done.stdout))
    assert "from step 20" in done.stdout
    assert found[0] == found[1]


def test_clusters_describe_the_machines():
    slurm = {"SLURM_NNODES": "3", "SLURM_NODEID": "1", "SLURM_JOB_NODELIST": "n[07-09]", "SLURM_JOB_ID": "12"}
    assert parsed(["--nproc", "4", "t.py"], slurm)[1:7] == (4, 0, 3, 1, "n07", 20012)
    pods = {"JOB_COMPLETION_INDEX": "2", "NNODES": "4", "MASTER_ADDR": "job-0.svc", "MASTER_PORT": "5000"}
    assert parsed(["t.py"], pods)[3:7] == (4, 2, "job-0.svc", 5000)
    assert parsed(["--nnodes", "1", "t.py"], slurm)[3:5] == (1, 0)
    assert parsed(["t.py"], {})[1:5] == (2, 0, 1, 0)


def test_output_goes_to_files(tmp_path):
    done = launched(tmp_path, WHO + "print('I am', index)", "--logs", str(tmp_path / "logs"))
    assert (done.returncode, done.stdout) == (0, "[0] I am 0\n")
    assert [(tmp_path / "logs" / f"worker-{i}.log").read_text() for i in (0, 1)] == ["I am 0\n", "I am 1\n"]


def test_files_that_cannot_be_written(tmp_path, capfd):
    """Nothing starts where there is no folder, and where one process cannot start, the others end."""
    (tmp_path / "file").write_text("")
    assert main(["launch", "--logs", str(tmp_path / "file"), "x.py"]) == 2
    assert "--logs needs a folder" in capfd.readouterr().err
    script = tmp_path / "script.py"
    script.write_text("import time\ntime.sleep(100)")
    (tmp_path / "logs" / "worker-1.log").mkdir(parents=True)
    plan = parsed(["--logs", str(tmp_path / "logs"), str(script)], {})
    started = []
    with mock.patch.object(subprocess, "Popen", side_effect=recording(started)), pytest.raises(IsADirectoryError):
        Group(plan, [["127.0.0.1:1", "127.0.0.1:2"]], 0)
    assert [process.poll() is not None for process in started] == [True]


def recording(started):
    """`subprocess.Popen`, which adds its processes to a list."""
    popen = subprocess.Popen

    def start(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        return started[-1]

    return start


def test_messages_that_come_together_are_all_read():
    """A launcher whose processes have failed may join the next round at once."""
    server = Server(0, 1)
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(b'{"node": 0, "code": 1}\n{"node": 0, "join": ["a:1"]}\n')
            lines = connection.makefile("r", encoding="utf-8")
            assert [json.loads(lines.readline()) for _ in range(2)] == [{"stop": 1}, {"begin": [["a:1"]]}]
    finally:
        server.close()


def test_other_signals_do_not_end_the_group(tmp_path):
    source = "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\n"
    script = tmp_path / "script.py"
    script.write_text(WHO + source + "print('ready', flush=True)\ntime.sleep(100)")
    process = subprocess.Popen([*COMMAND, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert {process.stdout.readline().strip() for _ in range(2)} == {"[0] ready", "[1] ready"}
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert process.returncode == 0


TRAINING = """
import json, tensorflow as tf, numpy as np
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    w = tf.Variable([[0.5], [-1.0]])
    total = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)
    random = tf.Variable(tf.random.normal([2]))  # the same in all processes
x = np.array([[1, 2], [3, 4], [-1, 0.5], [0, 1]], np.float32)
y = x @ np.array([[1.0], [-1.0]], np.float32)
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(4))

def replica(x, y):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.reduce_sum((x @ w - y) ** 2, axis=1), global_batch_size=4)
    context = tf.distribute.get_replica_context()
    w.assign_sub(0.1 * context.all_reduce("SUM", tape.gradient(loss, w)))
    total.assign_add(1.0)
    number = tf.reshape(tf.cast(context.replica_id_in_sync_group, tf.float32), [1])
    return loss, context.all_gather(number, axis=0)

@tf.function
def step(batch):
    return strategy.run(replica, args=batch)

for _ in range(3):
    for batch in data:
        loss, numbers = step(batch)
if strategy.num_replicas_in_sync > 1:
    assert step.get_concrete_function(batch).traced.plain.device_count == 2
loss = strategy.reduce("SUM", loss, axis=None)
rows = strategy.reduce("MEAN", strategy.run(lambda: tf.constant([1.0, 2.0])), axis=0)
mean = strategy.reduce("MEAN", strategy.run(lambda: random[0]), axis=None)
result = [float(loss), *w.numpy().ravel().tolist(), float(rows), float(mean) == float(random[0])]
numbers = strategy.experimental_local_results(numbers)[0].numpy().tolist()
print(json.dumps([strategy.num_replicas_in_sync, float(total), numbers, result]))
"""


def test_two_processes_train_as_one(tmp_path):
    pytest.importorskip("jax")
    done = launched(tmp_path, TRAINING)
    alone = launched(tmp_path, TRAINING, "--nproc", "1")
    assert done.returncode == alone.returncode == 0, done.stderr + alone.stderr
    lines = [line.split("] ", 1)[1] for line in done.stdout.splitlines() if "Gloo" not in line]
    assert len(lines) == 2
    assert lines[0] == lines[1]
    replicas, total, numbers, result = json.loads(lines[0])
    assert (replicas, total, numbers) == (2, 6.0, [0.0, 1.0])
    replicas, total, numbers, expected = json.loads(alone.stdout.split("] ", 1)[1])
    assert (replicas, total, numbers) == (1, 3.0, [0.0])
    assert result == pytest.approx(expected, rel=1e-6)
    assert result[-1] is True


END = """
import time, gradtape as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
time.sleep(strategy.cluster_resolver.task_id)
print(time.time())
"""


def test_the_group_ends_with_its_last_process(tmp_path):
    """Not with the coordination service, which waits for a heartbeat: a restart would wait, too."""
    pytest.importorskip("jax")
    done = launched(tmp_path, END)
    now = time.time()
    assert done.returncode == 0, done.stderr
    ends = [float(line.split()[1]) for line in done.stdout.splitlines() if "Gloo" not in line]
    assert len(ends) == 2
    assert now - max(ends) < 8.0


HANG = """
import json, os, signal, sys, gradtape as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    w = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

@tf.function
def step():
    return strategy.reduce("SUM", strategy.run(lambda: w.assign_add(tf.constant(1.0))), axis=None)

for _ in range(3):
    step()
before = w.numpy()
if strategy.cluster_resolver.task_id == 1 and os.environ["GRADTAPE_RESTART"] == "0":
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    for _ in range(20):  # of a process that does not wait for one the results come later
        step()
    print("sum", before, float(step()))
except tf.errors.UnavailableError as error:
    print(error)
    print("before", before, "after", w.numpy())
    sys.exit(3)
"""


@pytest.mark.slow
def test_a_process_that_hangs_is_lost(tmp_path):
    """No connection is closed, as where a machine has no power: the heartbeats are missing. Variables do not change."""
    pytest.importorskip("jax")
    done = launched(tmp_path, HANG, "--max-restarts", "1")
    assert done.returncode == 0, done.stderr
    assert "Another worker cannot be reached: process 1 of 2 has not been heard of for 10 seconds" in done.stdout
    assert "[0] before 6.0 after 6.0" in done.stdout
    assert "[0] sum 6.0 96.0" in done.stdout


HANG_ON_A_MESH = """
import os, signal, sys, time, gradtape as tf
from gradtape.experimental import dtensor
dtensor.initialize_accelerator_system("CPU")
mesh = dtensor.create_distributed_mesh([("x", 2)])
whole, divided = dtensor.Layout.replicated(mesh, 1), dtensor.Layout(["x"], mesh)
x = dtensor.copy_to_mesh(tf.constant([1.0, 2.0]), divided)
v = dtensor.DVariable(x)
optimizer = tf.keras.optimizers.Adam(0.1)

def gradient():
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v)
    return y, tape.gradient(y, v)

def train():
    y, g = gradient()
    optimizer.apply_gradients([(g, v)])
    return y

programs = {
    "op": lambda: tf.reduce_sum(x),
    "relayout": lambda: dtensor.relayout(x, whole)[0],
    "gradient": lambda: gradient()[0],
    "assign": lambda: tf.reduce_sum(v.assign_add(x * tf.reduce_sum(x))),
    "eager step": train,
    "step": tf.function(train),
    "result of None": tf.function(lambda: print(v.assign_add(x * tf.reduce_sum(v)).shape)),
}
for program in programs.values():
    program()
before = dtensor.unpack(v)[0].numpy()
if dtensor.client_id() == 1 and os.environ["GRADTAPE_RESTART"] == "0":
    os.kill(os.getpid(), signal.SIGSTOP)
lost = 0
for name, program in programs.items():
    began = time.monotonic()
    try:
        for _ in range(5):  # of a process that does not wait for one the results come later
            result = program()
            if result is not None:
                float(result)
    except tf.errors.UnavailableError as error:
        assert "process 1 of 2 has not been heard of for 10 seconds" in str(error), error
        assert time.monotonic() - began < 15
        assert dtensor.unpack(v)[0].numpy() == before, name
        print("lost", name)
        lost += 1
if not lost:
    print("passed")
sys.exit(3 * bool(lost))
"""


@pytest.mark.slow
def test_ops_on_a_mesh_notice_a_process_that_hangs(tmp_path):
    """Also eager ones; variables have their old values afterwards."""
    pytest.importorskip("jax")
    done = launched(tmp_path, HANG_ON_A_MESH, "--max-restarts", "1", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    names = ["op", "relayout", "gradient", "assign", "eager step", "step", "result of None"]
    lost = [line.partition("lost ")[2] for line in done.stdout.splitlines() if line.startswith("[0] lost ")]
    assert lost == names
    assert "[0] passed" in done.stdout
    assert "[1] passed" in done.stdout


WRONG = {
    "[1, 2]": (TypeError, "TF_CONFIG is a dictionary of dictionaries"),
    '{"cluster": {"worker": ["a:1"': (ValueError, "TF_CONFIG is not JSON"),
    '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": "x"}}': (ValueError, "is a number"),
    '{"cluster": {"worker": ["a:1", "b"]}, "task": {"type": "worker", "index": 1}}': (ValueError, "host and a port"),
    '{"cluster": {"worker": ["a:1", "b:99999"]}, "task": {"type": "worker", "index": 1}}': (ValueError, "to 65535"),
    '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 2}}': (ValueError, "exceeds the max"),
    '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "ps", "index": 0}}': (ValueError, "not found in cluster"),
}


@pytest.mark.parametrize("config", WRONG)
def test_a_wrong_description_of_the_cluster(config, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setenv("TF_CONFIG", config)
    kind, sentence = WRONG[config]
    with pytest.raises(kind, match=sentence):
        tf.distribute.MultiWorkerMirroredStrategy()


ALONE = """
import os, sys, gradtape as tf
from gradtape._src.processes import connection
connection.PATIENCE, connection.HEARTBEAT = 2, 1
tf.distribute.MultiWorkerMirroredStrategy()
"""


@pytest.mark.parametrize("is_taken", [False, True])
def test_processes_that_do_not_come_and_ports_in_use(tmp_path, is_taken):
    pytest.importorskip("jax")
    (tmp_path / "script.py").write_text(ALONE)
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        if not is_taken:
            server.close()
        cluster = {"worker": [f"localhost:{port}", "localhost:1"]}
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
        command = [sys.executable, str(tmp_path / "script.py")]
        environment = {**os.environ, "TF_CONFIG": config}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1
    if is_taken:
        assert f"UnknownError: Could not start gRPC server on port {port}" in done.stderr
    else:
        assert "Waiting for all of 2 processes to connect" in done.stderr
        assert "DeadlineExceededError: Not all of 2 processes have connected" in done.stderr
