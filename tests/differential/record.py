"""Ask TensorFlow, and write down what it answers.

    cd tests && python -m differential.record

The Python that runs this needs TensorFlow 2.21 and NumPy. A question that ends TensorFlow's process is written down as
{"t": "crash"}.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from differential import questions


def ask(topic: str, start: int) -> None:
    """Answer the questions of a topic from `start` on, one line of output for each."""
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    names = questions.vocabulary(tf)
    for question in questions.load(topic)[start:]:
        print(json.dumps(questions.answer(question, tf, names)), flush=True)


def record(topic: str) -> None:
    wanted = questions.load(topic)
    answers: dict[str, Any] = {}
    while len(answers) < len(wanted):
        command = [sys.executable, "-m", "differential.record", topic, "--from", str(len(answers))]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        answers.update(zip(wanted[len(answers) :], map(json.loads, lines), strict=False))
        if len(answers) < len(wanted):  # TensorFlow did not live to see the next one
            answers[wanted[len(answers)]] = {"t": "crash"}
    questions.save_answers(topic, answers)
    print(topic, len(answers), "questions", sum(a["t"] == "raises" for a in answers.values()), "refused")


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # its kernels differ from processor to processor
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topics", nargs="*", default=questions.TOPICS, help="which questions, all by default")
    parser.add_argument("--from", dest="start", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    for topic in given.topics:
        record(topic) if given.start is None else ask(topic, given.start)


if __name__ == "__main__":
    main()
