"""NumPy, with the derivatives written by hand: what an eager tape on NumPy can approach and not beat."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.workloads import Work


class Workloads:
    def __init__(self, library: str) -> None:
        del library

    def chain(self) -> Work:
        x, factor = np.ones(8, np.float32), np.float32(data.CHAIN_FACTOR)

        def step() -> list[Any]:
            y, saved = x, []
            for _ in range(data.CHAIN_LENGTH):
                y = np.tanh(y * factor)
                saved.append(y)
            g = np.ones(8, np.float32)
            for y in reversed(saved):
                g = g * (1 - y * y) * factor
            return [g]

        return Work(step, step)

    def _training(self, batch: int) -> Work:
        images, labels, parameters = data.mlp(batch)
        rows, rate = np.arange(batch), np.float32(data.RATE)

        def slopes() -> tuple[Any, list[Any]]:
            h, saved = images, [images]
            for i in range(3):
                h = h @ parameters[i]
                h += parameters[3 + i]
                if i < 2:
                    np.maximum(h, 0, out=h)
                saved.append(h)
            shifted = h - h.max(1, keepdims=True)
            e = np.exp(shifted)
            s = e.sum(1, keepdims=True)
            loss = -np.mean((shifted - np.log(s))[rows, labels])
            g = e / s
            g[rows, labels] -= 1
            g /= batch
            gradients = [g] * 6
            for i in (2, 1, 0):
                gradients[i], gradients[3 + i] = saved[i].T @ g, g.sum(0)
                if i:
                    g = (g @ parameters[i].T) * (saved[i] > 0)
            return loss, gradients

        def step() -> float:
            loss, gradients = slopes()
            for p, g in zip(parameters, gradients, strict=True):
                p -= rate * g
            return float(loss)

        return Work(step, lambda: slopes()[1])

    def mlp32(self) -> Work:
        return self._training(32)

    def mlp512(self) -> Work:
        return self._training(512)

    def rnn(self) -> Work:
        inputs, (w, u, b) = data.rnn()

        def step() -> list[Any]:
            h = np.zeros((16, 64), np.float32)
            saved = [h]
            for x in inputs:
                h = np.tanh(x @ w + h @ u + b)
                saved.append(h)
            g = 2 * h
            gw, gu, gb = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b)
            for i in range(len(inputs) - 1, -1, -1):
                g = g * (1 - saved[i + 1] * saved[i + 1])
                gw += inputs[i].T @ g
                gu += saved[i].T @ g
                gb += g.sum(0)
                g = g @ u.T
            return [gw, gu, gb]

        return Work(step, step)
