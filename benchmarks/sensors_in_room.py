"""Sensor sets of things that stand in a room: a radar, a camera of events, accelerometers on a machine."""

from __future__ import annotations

import numpy as np

from sensor_events import (
    Array,
    Events,
    Plan,
    TwoFiles,
    background,
    events_of,
    generator,
    joined,
    kept,
    planned,
    smooth,
    spread,
    two_files,
)


def radar(seed: int) -> TwoFiles:
    """64 bins of distance; an event is a bin that rises over one of two thresholds; 8 movements of the hands."""
    rng = generator("radar-64", seed)
    persons, step, steps = 12, 8.0, 190  # ms
    plan = planned(rng, persons, 168, 8, 3)
    chosen = np.setdiff1d(np.arange(len(plan)), rng.choice(len(plan), len(plan) - 2000, replace=False))
    plan = Plan(plan.labels[chosen], plan.groups[chosen], plan.tested[chosen])
    count = len(plan)
    onset = rng.uniform(40, 140, count)[:, None]
    length = (850 * spread(rng, 0.1, persons)[plan.groups] * spread(rng, 0.12, count))[:, None]
    power = _echoes(rng, plan, persons, np.clip((np.arange(steps) * step - onset) / length, 0, 1))
    clutter = 0.1 * spread(rng, 0.5, (persons, 64))
    dead = rng.choice(64, 2, replace=False)
    speckle = rng.gamma(4.0, 0.25, power.shape).astype(np.float32)
    power = (power + clutter[plan.groups][:, :, None].astype(np.float32)) * speckle
    power[:, dead] = 0
    crossings = np.zeros(power.shape, np.uint8)
    for level in (0.55, 1.1):
        above = power > level
        crossings[:, :, 1:] += above[:, :, 1:] & ~above[:, :, :-1]
    events = events_of(crossings, rng, step)
    end = (onset + length)[:, 0] + rng.uniform(20, 200, count)
    events = kept(events, events["t"] < end[events["sample"]])
    rate = np.full(64, 0.0004)
    rate[rng.choice(64, 2, replace=False)] = 0.03  # hot channels
    rate[dead] = 0
    return two_files(plan, joined(events, background(rng, np.tile(rate, (count, 1)), end)), "ms")


def _echoes(rng: np.random.Generator, plan: Plan, persons: int, along: Array) -> Array:
    """Return the power of each bin behind a filter that removes what stands; `along` goes from 0 to 1."""
    count, groups = len(plan), plan.groups
    home = rng.uniform(26, 38, persons)[groups] + 1.6 * rng.standard_normal(count)
    reach = 13 * spread(rng, 0.15, persons)[groups] * spread(rng, 0.15, count)

    def ease(v: Array) -> Array:
        return np.asarray(v * v * (3 - 2 * v))

    back = np.where(along < 0.5, ease(2 * along), ease(2 - 2 * along))
    wave = np.sin(np.pi * along)
    paths: tuple[tuple[Array, ...], ...] = (  # of one or two hands, in units of the reach
        (ease(along) - 0.5,),  # away
        (0.5 - ease(along),),  # towards
        (back - 0.5,),  # away and back
        (0.5 - back,),  # towards and back
        (0.35 * wave * np.sin(2 * np.pi * 2 * along),),  # slow wave
        (0.35 * wave * np.sin(2 * np.pi * 4 * along),),  # fast wave
        (ease(along) * 0.7, -ease(along) * 0.7),  # two hands part
        (0.7 - ease(along) * 0.7, ease(along) * 0.7 - 0.7),  # two hands meet
    )
    power = np.zeros((count, 64, along.shape[1]), np.float32)
    bins = np.arange(64)[None, :, None]
    for label, hands in enumerate(paths):
        who = np.flatnonzero(plan.labels == label)
        for path in hands:
            place = home[who][:, None] + reach[who][:, None] * path[who]
            place += 0.4 * smooth(rng.standard_normal(place.shape), 12)
            speed = np.abs(np.gradient(place, axis=1)) / 0.2
            bright = (spread(rng, 0.3, len(who))[:, None] * (speed / (speed + 0.5)))[:, None]
            power[who] += (bright * np.exp(-0.5 * ((bins - place[:, None]) / 1.3) ** 2)).astype(np.float32)
            away = bins - place[:, None] * 0.3 - home[who][:, None, None] * 0.7 - 7
            power[who] += (0.15 * bright * np.exp(-0.5 * (away / 2.5) ** 2)).astype(np.float32)  # the body
    return power


def camera(seed: int) -> TwoFiles:
    """64 x 64 pixels with polarity: a hand turns one way or the other, swipes left or right, comes or goes."""
    rng = generator("cam-64", seed)
    persons, steps = 15, 48
    plan = planned(rng, persons, 100, 6, 4)
    hands = [_outline(rng) for _ in range(persons)]
    sizes, speeds = rng.uniform(9, 15, persons), spread(rng, 0.18, persons)
    tilts, contrasts = 0.3 * rng.standard_normal(persons), rng.uniform(0.6, 1.3, persons)
    bright = rng.random(persons) < 0.5  # the hand is brighter or darker than what is behind it
    samples, durations = [], np.zeros(len(plan))
    for number, (who, label) in enumerate(zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)):
        durations[number] = duration = 0.55 * speeds[who] * np.exp(0.15 * rng.standard_normal())
        place = _hand_movement(rng, label, steps, sizes[who], tilts[who])
        events = _edge_events(rng, hands[who], place, contrasts[who], duration, bright[who])
        samples.append({"sample": np.full(len(events["t"]), number), **events})
    events = joined(*samples)
    hot = rng.integers(0, 64, (6, 2))
    more = background(rng, np.tile(np.full(6, 60.0), (len(plan), 1)), durations)
    pixel = more.pop("x")
    more |= {"x": hot[pixel, 0], "y": hot[pixel, 1], "p": np.ones(len(pixel), bool)}
    events = joined(events, more)
    dead = np.isin(events["x"].astype(int) * 64 + events["y"].astype(int), rng.integers(0, 4096, 12))
    return two_files(plan, kept(events, ~dead), "us", 1e6)


def _outline(rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw a hand about (0, 0), a palm with fingers and an arm: points of its edge, and normals outwards."""
    phi = np.linspace(0, 2 * np.pi, 240, endpoint=False)
    fingers = rng.integers(2, 6)
    where = rng.uniform(-0.2, 0.2) + np.linspace(-1.0, 1.0, fingers) * rng.uniform(0.6, 1.1)
    radius = 0.55 + 0.06 * np.cos(2 * phi + rng.uniform(0, 6))
    for angle, size in zip(where, rng.uniform(0.3, 0.6, fingers), strict=True):
        gap = np.angle(np.exp(1j * (phi - np.pi / 2 - angle)))
        radius = radius + size * np.exp(-0.5 * (gap / 0.13) ** 2)
    arm = np.angle(np.exp(1j * (phi + np.pi / 2)))
    radius = radius + 0.5 * np.exp(-0.5 * (arm / 0.25) ** 2)
    points = np.stack([radius * np.cos(phi), radius * np.sin(phi)], 1)
    edge = np.roll(points, -1, 0) - np.roll(points, 1, 0)
    normal = np.stack([edge[:, 1], -edge[:, 0]], 1)
    return points, normal / (np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9)


def _hand_movement(rng: np.random.Generator, label: int, steps: int, size: float, tilt: float) -> tuple[Array, ...]:
    """Return x, y, angle and size of the hand at each step."""
    along = np.linspace(0, 1, steps)
    path = along + 0.1 * np.sin(2 * np.pi * (along + rng.random())) / np.pi * 2 * rng.random()
    path = (path - path[0]) / (path[-1] - path[0])
    start_x, start_y = 32 + 4.5 * rng.standard_normal(2)
    size, tilt = size * np.exp(0.12 * rng.standard_normal()), tilt + 0.35 * rng.standard_normal()
    x, y, angle, sizes = (np.full(steps, value) for value in (start_x, start_y, tilt, size))
    shake = smooth(rng.standard_normal((2, steps)), 5) * 0.7
    if label < 2:  # a turn
        angle = tilt + (1 if label == 0 else -1) * path * rng.uniform(1.6, 3.2) + rng.uniform(-0.8, 0.8)
    elif label < 4:  # a swipe
        far = rng.uniform(16, 30)
        x = start_x + (1 if label == 2 else -1) * far * (path - 0.5)
        y = start_y + rng.uniform(-7, 7) * (path - 0.5)
        angle = tilt + rng.uniform(-0.5, 0.5) * (path - 0.5)
    else:  # it comes or goes
        growth = rng.uniform(1.5, 2.1)
        sizes = size * growth ** ((path - 0.5) * (1 if label == 4 else -1))
        x = start_x + rng.uniform(-5, 5) * (path - 0.5)
        y = start_y + rng.uniform(-5, 5) * (path - 0.5)
    return x + shake[0], y + shake[1], angle, sizes


def _edge_events(
    rng: np.random.Generator,
    hand: tuple[Array, Array],
    place: tuple[Array, ...],
    contrast: float,
    duration: float,
    bright: bool,
) -> Events:
    """Draw the events of the hand's edge, where it moves, and those of the noise; all inside the picture."""
    (points, normal), (x, y, angle, size) = hand, place
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    edge_x = x[:, None] + size[:, None] * (cos * points[:, 0] - sin * points[:, 1])
    edge_y = y[:, None] - size[:, None] * (sin * points[:, 0] + cos * points[:, 1])
    out_x, out_y = cos * normal[:, 0] - sin * normal[:, 1], -(sin * normal[:, 0] + cos * normal[:, 1])
    flow = np.diff(edge_x, axis=0) * out_x[1:] + np.diff(edge_y, axis=0) * out_y[1:]  # pixels outwards a step
    count = rng.poisson(0.55 * contrast * np.clip(np.abs(flow) - 0.05, 0, 3) * (size[1:, None] / 14))
    step, point = np.nonzero(count)
    number = count[step, point]
    step, point = np.repeat(step, number), np.repeat(point, number)
    back = rng.random(len(step))
    at_x, at_y = (
        edge[step + 1, point]
        - back * (edge[step + 1, point] - edge[step, point])
        + 0.45 * rng.standard_normal(len(step))
        for edge in (edge_x, edge_y)
    )
    polarity = (flow[step, point] > 0) == bright
    polarity ^= rng.random(len(polarity)) < 0.06
    time = (step + 1 - back + 0.3 * rng.random(len(step))) / len(x) * duration
    noise = rng.poisson(250 * duration)
    at_x, at_y = (np.concatenate([at, rng.uniform(0, 64, noise)]) for at in (at_x, at_y))
    polarity = np.concatenate([polarity, rng.random(noise) < 0.5])
    time = np.concatenate([time, rng.random(noise) * duration])
    inside = (at_x >= 0) & (at_x < 64) & (at_y >= 0) & (at_y < 64)
    return kept({"t": time, "x": at_x, "y": at_y, "p": polarity}, inside)


def vibration(seed: int) -> TwoFiles:
    """32 accelerometers on a slow machine for 5 s; its faults are rhythms and lags between channels."""
    rng = generator("vibration-32", seed)
    machines, channels, seconds = 16, 32, 5.0
    plan = planned(rng, machines, 100, 5, 4)
    speeds = rng.uniform(0.85, 1.35, machines)  # turns a second
    gains = np.clip(spread(rng, 0.25, (machines, channels)), 0.3, 1.5)
    gains[rng.random((machines, channels)) < 0.03] = 0
    lags = 0.04 * rng.standard_normal((machines, channels))
    samples = []
    for number, (who, label) in enumerate(zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)):
        events = _knocks(rng, label, speeds[who], gains[who], lags[who], seconds)
        samples.append({"sample": np.full(len(events["t"]), number), **events})
    events = joined(*samples)
    ringing = kept(events, rng.random(len(events["t"])) < 0.15)  # a second event
    ringing["t"] = ringing["t"] + rng.uniform(0.003, 0.02, len(ringing["t"]))
    rate = np.full((machines, channels), 0.35)
    rate[rng.integers(0, machines, 6), rng.integers(0, channels, 6)] = 3  # hot channels
    noise = background(rng, rate[plan.groups], np.full(len(plan), seconds))
    return two_files(plan, joined(events, ringing, noise), "ms", 1000)


def _knocks(rng: np.random.Generator, label: int, speed: float, gain: Array, own_lag: Array, seconds: float) -> Events:
    """Draw the events of one recording, which begins with a tachometer's pulse."""
    channels = len(gain)
    place = np.linspace(0, 1, channels, endpoint=False)  # round the shaft, four bearings of eight
    speed = speed * np.exp(0.06 * rng.standard_normal())
    drift = 0.05 * rng.standard_normal()
    turns = speed * seconds
    start = 0.3 * rng.random()
    lag = (  # in turns
        place,  # healthy: the load runs round the shaft once a turn
        0.5 * (np.arange(channels) % 2),  # imbalance: all channels of a side together
        0.25 * (np.arange(channels) // 8 / 4 >= 0.5),  # misalignment: twice a turn, the other end half a cycle behind
        1 - place,  # a bad bearing: the load runs the other way
        place * 0.5,  # looseness: two knocks, then a turn of rest
    )[label]
    weight, jitter = (0.5, 0.09) if label == 2 else (1.0, 0.13)
    marks = np.arange(-1, turns + 1, 0.5 if label == 2 else 1.0)
    if label == 4:
        marks = np.concatenate([np.arange(-1, turns + 1, 2.0), np.arange(-1, turns + 1, 2.0) + 0.3])
    slant = (
        1 + 0.2 * (rng.random() - 0.5) + 0.5 * (place - 0.5) * (label - 2) / 2 * rng.random()
    )  # counts tell a little
    heard = np.clip(0.45 * weight * slant * gain, 0, 0.95)
    grid = marks[:, None] + start + lag + own_lag + jitter * rng.standard_normal((len(marks), channels))
    mark, channel = np.nonzero(rng.random(grid.shape) < heard)
    phase = grid[mark, channel]
    time = phase / speed * (1 + drift * (phase / turns - 0.5))
    return kept({"t": time, "x": channel}, (time >= 0) & (time < seconds))
