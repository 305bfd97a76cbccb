"""Small sets of images as a user would have them: some of MNIST and FashionMNIST, and letters that are drawn here."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import numpy as np

from bitspike import data
from bitspike.data import Images
from sensor_events import Array, TwoFiles, generator

TRAINING, TEST = 2500, 1000
GLYPHS = (  # strokes in a unit square, y down: A C E F G H K N R Y
    (((0.1, 1), (0.5, 0), (0.9, 1)), ((0.27, 0.6), (0.73, 0.6))),
    (((0.9, 0.15), (0.5, 0), (0.12, 0.3), (0.12, 0.7), (0.5, 1), (0.9, 0.85)),),
    (((0.9, 0), (0.15, 0), (0.15, 1), (0.9, 1)), ((0.15, 0.5), (0.75, 0.5))),
    (((0.9, 0), (0.15, 0), (0.15, 1)), ((0.15, 0.5), (0.75, 0.5))),
    (((0.9, 0.15), (0.5, 0), (0.12, 0.3), (0.12, 0.7), (0.5, 1), (0.9, 0.8), (0.9, 0.55), (0.55, 0.55)),),
    (((0.15, 0), (0.15, 1)), ((0.85, 0), (0.85, 1)), ((0.15, 0.5), (0.85, 0.5))),
    (((0.15, 0), (0.15, 1)), ((0.85, 0), (0.15, 0.55), (0.85, 1))),
    (((0.15, 1), (0.15, 0), (0.85, 1), (0.85, 0)),),
    (((0.15, 1), (0.15, 0), (0.7, 0), (0.85, 0.25), (0.7, 0.5), (0.15, 0.5), (0.85, 1)),),
    (((0.1, 0), (0.5, 0.5), (0.9, 0)), ((0.5, 0.5), (0.5, 1))),
)


def some_images(name: str, built_in: str, seed: int) -> TwoFiles:
    """Draw 2,500 training and 1,000 test images of a built-in data set."""
    rng = generator(name, seed)
    whole = data.load(built_in)

    def some(part: Images, count: int) -> dict[str, Array]:
        chosen = rng.choice(len(part), count, replace=False)
        return {"images": part.values[chosen, 0].numpy(), "labels": part.labels[chosen].numpy()}

    return TwoFiles(some(cast(Images, whole.train), TRAINING), some(cast(Images, whole.test), TEST))


def digits(seed: int) -> TwoFiles:
    """Some of MNIST."""
    return some_images("digits-npz", "mnist", seed)


def clothes(seed: int) -> TwoFiles:
    """Some of FashionMNIST."""
    return some_images("clothes-npz", "fashion", seed)


def letters(seed: int) -> TwoFiles:
    """Ten letters of 16 x 16 pixels, bent and sheared, with pens of several widths, on uneven grounds."""
    rng = generator("letters-16", seed)
    labels = rng.permutation(np.arange(2000) % 10)
    images = np.stack([_letter(rng, label) for label in labels])
    labels = labels.astype(np.int64)
    return TwoFiles(
        {"images": images[:1500], "labels": labels[:1500]}, {"images": images[1500:], "labels": labels[1500:]}
    )


def _letter(rng: np.random.Generator, label: int) -> Array:
    """Draw one image."""
    grid_y, grid_x = np.mgrid[0:16, 0:16] + 0.5
    turn, shear = 0.13 * rng.standard_normal(), 0.15 * rng.standard_normal()
    size, shift = rng.uniform(7.5, 11, 2), 8 + 0.8 * rng.standard_normal(2)
    waves, phases = rng.standard_normal((2, 2)) * 0.06, rng.uniform(0, 6.28, (2, 2))
    parts, pens = [], []
    for stroke in GLYPHS[label]:
        corners = np.array(stroke) + 0.05 * rng.standard_normal((len(stroke), 2))
        parts += [np.linspace(a, b, 9) for a, b in pairwise(corners)]
        pens.append(np.full(9 * (len(stroke) - 1), rng.uniform(0.6, 1.0)))
    points, pen = np.concatenate(parts) - 0.5, np.concatenate(pens)
    points = (
        points + waves[0] * np.sin(4 * points[:, ::-1] + phases[0]) + waves[1] * np.sin(7 * points[:, ::-1] + phases[1])
    ) * size
    x, y = points[:, 0] + shear * points[:, 1], points[:, 1]
    cos, sin = np.cos(turn), np.sin(turn)
    points = np.stack([cos * x - sin * y, sin * x + cos * y], 1) + shift
    width = rng.uniform(0.45, 0.95)
    pixels = np.stack([grid_x.ravel(), grid_y.ravel()], 1)
    distance = ((pixels[:, None] - points[None]) ** 2).sum(-1)
    ink = (pen * np.exp(-distance / (2 * width**2))).max(1).reshape(16, 16)
    ground = rng.uniform(0, 0.2) + rng.normal(0, 0.012) * (grid_x - 8) + rng.normal(0, 0.012) * (grid_y - 8)
    picture = ground + rng.uniform(0.5, 0.85) * ink + 0.06 * rng.standard_normal((16, 16))
    if rng.random() < 0.35:  # a smear
        picture[rng.integers(16)] += rng.uniform(0.1, 0.35)
    return np.asarray(np.clip(255 * picture, 0, 255).astype(np.uint8))
