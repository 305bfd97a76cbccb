"""Two sets of images and one of an event camera that chose the default networks for pictures: functions of a seed."""

from __future__ import annotations

import numpy as np

from sensor_events import Array, TwoFiles, generator, joined, planned, spread, two_files

TRAINING, TEST = 2000, 600
SIDES = (3, 4, 5, 6, 30)  # corners of the shapes: the last is a disc
CAMERA = 28  # pixels


def shapes(seed: int) -> TwoFiles:
    """Ten shapes of 20 x 20 pixels at any angle: polygons, a disc, a star and their outlines, among distractors."""
    rng = generator("shapes-20", seed)
    labels = rng.permutation(np.arange(TRAINING + TEST) % 10).astype(np.int64)
    return _image_files(np.stack([_shape(rng, int(label)) for label in labels]), labels)


def _shape(rng: np.random.Generator, label: int) -> Array:
    y, x = np.mgrid[0:20, 0:20] - 9.5 - rng.uniform(-2.5, 2.5, (2, 1, 1))
    radius = rng.uniform(4.5, 7.5)
    turn = rng.uniform(0, 2 * np.pi)
    corners = SIDES[label % 5]
    angle = (np.arctan2(y, x) + turn) % (2 * np.pi / corners) - np.pi / corners
    size = np.hypot(x, y) * np.cos(angle) / np.cos(np.pi / corners) * (1 if corners > 6 else 1.1)
    inside = 1 / (1 + np.exp((size - radius) / 0.35))
    if label >= 5:  # an outline
        inside = inside - 1 / (1 + np.exp((size - 0.6 * radius) / 0.35))
    strokes = np.zeros((20, 20))
    for _ in range(rng.integers(0, 3)):  # distractors: faint lines
        phase, where = rng.uniform(0, np.pi), rng.uniform(-9, 9)
        strokes += 0.35 * np.exp(-((x * np.cos(phase) + y * np.sin(phase) - where) ** 2))
    ground, contrast = rng.uniform(0.2, 0.5), rng.uniform(0.25, 0.5) * rng.choice([-0.45, 1.0])
    return _bytes(ground + contrast * inside + 0.3 * strokes + 0.07 * rng.standard_normal((20, 20)))


def textures(seed: int) -> TwoFiles:
    """Twelve textures of 28 x 28 pixels: six directions of waves, fine or coarse, bent, in noise."""
    rng = generator("textures-28", seed)
    labels = rng.permutation(np.arange(TRAINING + TEST) % 12).astype(np.int64)
    return _image_files(np.stack([_texture(rng, int(label)) for label in labels]), labels)


def _texture(rng: np.random.Generator, label: int) -> Array:
    y, x = np.mgrid[0:28, 0:28].astype(float)
    angle = np.pi * (label // 2 + 0.28 * rng.standard_normal()) / 6
    length = (4.2, 7.0)[label % 2] * np.exp(0.16 * rng.standard_normal())
    bend = 1.5 * np.sin(2 * np.pi * (x + y) / rng.uniform(20, 40) + rng.uniform(0, 6))
    waves = np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle) + bend) / length + rng.uniform(0, 6))
    lit = rng.uniform(0.35, 0.65) + rng.normal(0, 0.006) * (x - 14) + rng.normal(0, 0.006) * (y - 14)
    return _bytes(lit + rng.uniform(0.1, 0.25) * waves + 0.16 * rng.standard_normal((28, 28)))


def balls(seed: int) -> TwoFiles:
    """An event camera of 28 x 28 pixels with polarity: one or two balls bounce in one of four ways."""
    rng = generator("balls-28", seed)
    scenes, classes = 20, 8
    plan = planned(rng, scenes, 110, classes, 5)
    sizes, speeds = rng.uniform(2.2, 4.0, scenes), spread(rng, 0.2, scenes)
    samples = []
    for number, (who, label) in enumerate(zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)):
        way, pair = label % 4, label // 4
        parts = [_ball(rng, way, sizes[who], speeds[who]) for _ in range(1 + pair)]
        events = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        samples.append({"sample": np.full(len(events["t"]), number), **events})
    return two_files(plan, joined(*samples), "us", 1e6)


def _ball(rng: np.random.Generator, way: int, size: float, speed: float) -> dict[str, Array]:
    """Draw the events of a ball's edge: up and down, left and right, or round one way or the other; and noise."""
    duration, count = 0.6, rng.poisson(500)
    time = np.sort(rng.random(count)) * duration
    phase = rng.uniform(0, 2 * np.pi) + 2 * np.pi * 2.0 * speed * time
    centre, reach = rng.uniform(10, 18, 2), rng.uniform(4, 8)
    along = np.stack(
        [reach * (way != 0) * np.cos(phase), reach * (way != 1) * np.sin(phase if way != 3 else -phase)], 1
    )
    velocity = np.gradient(along, time + 1e-9 * np.arange(count), axis=0)
    around = rng.uniform(0, 2 * np.pi, count)
    edge = np.stack([np.cos(around), np.sin(around)], 1)
    front = (edge * velocity).sum(1)
    shown = np.abs(front) > 0.35 * np.abs(front).max() * rng.random(count)
    place = centre + along + size * edge + 0.4 * rng.standard_normal((count, 2))
    noise = rng.poisson(60)
    x, y = np.floor(np.concatenate([place[shown], rng.uniform(0, CAMERA, (noise, 2))])).astype(int).T
    events = {
        "t": np.concatenate([time[shown], rng.random(noise) * duration]),
        "x": x,
        "y": y,
        "p": np.concatenate([front[shown] > 0, rng.random(noise) < 0.5]),
    }
    seen = (x >= 0) & (x < CAMERA) & (y >= 0) & (y < CAMERA)
    return {key: values[seen] for key, values in events.items()}


def _bytes(picture: Array) -> Array:
    return np.asarray(np.clip(255 * picture, 0, 255).astype(np.uint8))


def _image_files(images: Array, labels: Array) -> TwoFiles:
    return TwoFiles(
        {"images": images[:TRAINING], "labels": labels[:TRAINING]},
        {"images": images[TRAINING:], "labels": labels[TRAINING:]},
    )
