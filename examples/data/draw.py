"""Draw `lighthouse.jpg` and `swirls.jpg`, the images of the DeepDream and style transfer examples, with NumPy.

python examples/data/draw.py      (needs Pillow; the files are already in this directory)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
HEIGHT, WIDTH = 192, 256
WHIRLS = (  # x, y, size, and which way they turn
    (0.32, 0.30, 0.17, 1),
    (0.86, 0.58, 0.20, -1),
    (1.16, 0.18, 0.10, 1),
    (0.24, 0.80, 0.12, -1),
    (0.62, 0.12, 0.07, -1),
    (1.22, 0.88, 0.10, 1),
)
FINER = 3  # draw at 3 times the size, then average, for smooth edges


def smooth_noise(rng: np.random.Generator, shape: tuple[int, int], cells: int, octaves: int) -> Any:
    """Return clouds from 0 to 1: random numbers on grids of increasing resolution, interpolated smoothly."""
    total = np.zeros(shape)
    for octave in range(octaves):
        count = cells * 2**octave
        grid = rng.random((count + 2, count + 2))
        y, x = (np.linspace(0, count, size, endpoint=False) for size in shape)
        (i, v), (j, u) = ((at.astype(int), at % 1) for at in (y, x))
        v, u = (3 * v**2 - 2 * v**3)[:, None], 3 * u**2 - 2 * u**3
        top = grid[i][:, j] * (1 - u) + grid[i][:, j + 1] * u
        bottom = grid[i + 1][:, j] * (1 - u) + grid[i + 1][:, j + 1] * u
        total += (top * (1 - v) + bottom * v) / 2**octave
    return (total - total.min()) / (total.max() - total.min())


def mix(canvas: Any, color: Any, amount: Any) -> None:
    """Paint a color over the canvas: fully where `amount` is 1, not at all where it is 0."""
    canvas += (np.asarray(color) / 255 - canvas) * np.clip(amount, 0, 1)[..., None]


def lighthouse() -> Any:
    """Draw a lighthouse on a rock by the sea. Coordinates: x from 0 to 4/3, y from 0 at the top to 1."""
    rng = np.random.default_rng(1)
    height, width = HEIGHT * FINER, WIDTH * FINER
    y, x = np.mgrid[0:height, 0:width] / height
    canvas = np.zeros((height, width, 3))

    mix(canvas, (66, 120, 180), np.ones_like(y))
    mix(canvas, (250, 205, 150), (y / 0.66) ** 2)
    sun = np.hypot(x - 0.32, y - 0.5)
    mix(canvas, (255, 225, 160), 0.8 * np.exp(-((sun / 0.16) ** 2)))
    mix(canvas, (255, 244, 214), sun < 0.075)
    clouds = smooth_noise(rng, (height, width), 3, 6)
    mix(canvas, (252, 236, 226), (clouds - 0.52) * 3.2 * np.clip(1.15 - y / 0.55, 0, 1))

    hills = 0.65 - 0.19 * np.exp(-(((x - 0.12) / 0.18) ** 2)) - 0.06 * np.exp(-(((x - 0.55) / 0.12) ** 2))
    mix(canvas, (108, 116, 150), y > hills)
    sea = y > 0.64
    waves = smooth_noise(rng, (height, width), 5, 5)[:, ::-1]
    ripples = np.sin(90 * np.sqrt(np.maximum(y - 0.62, 0)) + 12 * waves)
    mix(canvas, (38, 86, 122), sea)
    mix(canvas, (120, 170, 190), sea * np.clip(ripples, 0, 1) * 0.55)
    glitter = np.exp(-(((x - 0.32) / (0.03 + 0.22 * (y - 0.6))) ** 2))
    mix(canvas, (255, 226, 170), sea * glitter * np.clip(0.35 + ripples, 0, 1))

    rock = 0.80 - 0.17 * np.exp(-(((x - 1.05) / 0.22) ** 4)) + 0.05 * (clouds - 0.5) + 1.5 * np.maximum(0.72 - x, 0)
    on_rock = y > rock
    mix(canvas, (84, 70, 62), on_rock)
    mix(canvas, (136, 112, 90), on_rock * np.clip((waves - 0.45) * 4, 0, 1) * 0.8)
    mix(canvas, (104, 132, 70), on_rock * np.clip(1 - (y - rock) / 0.045, 0, 1))

    middle, top, foot = 1.02, 0.20, 0.66
    half = 0.042 + 0.035 * (y - top) / (foot - top)
    tower = (np.abs(x - middle) < half) & (y > top) & (y < foot)
    mix(canvas, (240, 236, 228), tower)
    mix(canvas, (196, 52, 44), tower & (np.floor((y - top) / 0.092) % 2 == 1))
    mix(canvas, (40, 30, 50), tower * np.clip((x - middle) / half, 0, 1) * 0.5)
    mix(canvas, (50, 44, 56), tower & (np.abs(x - middle) < 0.012) & (np.abs(y - 0.43) < 0.02))
    mix(canvas, (50, 44, 56), (np.abs(x - middle) < 0.062) & (np.abs(y - top) < 0.010))
    mix(canvas, (255, 232, 140), (np.abs(x - middle) < 0.034) & (y > 0.135) & (y < top - 0.008))
    mix(canvas, (50, 44, 56), (np.abs(np.abs(x - middle) - 0.034) < 0.005) & (y > 0.135) & (y < top))
    mix(canvas, (170, 44, 40), (np.abs(x - middle) < (y - 0.075) * 0.8) & (y > 0.075) & (y < 0.135))
    beam = np.abs(y - 0.165 - 0.12 * (middle - x)) < 0.05 * (middle - x)
    mix(canvas, (255, 246, 200), beam * 0.30 * np.exp(-(middle - x) / 0.5) * (x < middle - 0.03))
    return canvas


def swirls() -> Any:
    """Draw brush strokes that follow a field of whirls: noise, smeared along the lines of the field."""
    rng = np.random.default_rng(5)
    height, width = HEIGHT * 2, WIDTH * 2
    y, x = np.mgrid[0:height, 0:width] / height
    across, down = np.full_like(x, 0.35), 0.25 * np.sin(5 * x)
    light = np.zeros_like(x)
    for cx, cy, size, turn in WHIRLS:
        near = 3.2 * turn * np.exp(-(((x - cx) ** 2 + (y - cy) ** 2) / size**2))
        across, down = across - near * (y - cy) / size, down + near * (x - cx) / size
        light += np.exp(-(((x - cx) ** 2 + (y - cy) ** 2) / (0.45 * size) ** 2))
    length = np.hypot(across, down)
    across, down = across / length, down / length

    # Each stroke: start at a pixel, walk along the field in both directions, and average the noise on the way.
    grain = smooth_noise(rng, (height, width), 104, 1)
    hue = smooth_noise(rng, (height, width), 7, 3)
    shade, tint, count = np.zeros_like(x), np.zeros_like(x), 0
    for way in (1, -1):
        row, column = np.mgrid[0:height, 0:width].astype(float)
        for _ in range(36):
            i, j = row.astype(int) % height, column.astype(int) % width
            shade, tint, count = shade + grain[i, j], tint + hue[i, j], count + 1
            row, column = row + way * down[i, j], column + way * across[i, j]
    shade = (shade - shade.mean()) / shade.std()
    tint = tint / count + 0.07 * shade

    stops = np.array([0.1, 0.3, 0.42, 0.54, 0.66, 0.8])
    palette = np.array([(14, 24, 70), (26, 62, 140), (44, 110, 178), (112, 168, 196), (206, 204, 150), (244, 226, 150)])
    at = np.clip(0.42 + 1.1 * (tint - np.mean(tint)) + 0.45 * light, 0.1, 0.8)
    canvas = np.stack([np.interp(at, stops, channel) for channel in palette.T], -1) / 255
    mix(canvas, (246, 178, 40), 0.9 * light**2 * (shade > -0.6))
    return canvas * (1 + 0.13 * shade[..., None])


def save(picture: Any, name: str) -> None:
    factor = len(picture) // HEIGHT
    picture = np.clip(picture, 0, 1).reshape(HEIGHT, factor, WIDTH, factor, 3).mean(axis=(1, 3))
    Image.fromarray(np.round(255 * picture).astype(np.uint8)).save(HERE / name, quality=90)


if __name__ == "__main__":
    save(lighthouse(), "lighthouse.jpg")
    save(swirls(), "swirls.jpg")
