"""Judge sets of things that touch, smell or move: gases, steps on a floor, tremors of the ground, a street."""

from __future__ import annotations

import numpy as np

from sensor_events import (
    Array,
    Events,
    TwoFiles,
    delta_modulated,
    events_of,
    generator,
    joined,
    kept,
    planned,
    smooth,
    spread,
    two_files,
    with_faults,
)

AFFINITIES = np.array(  # of eight sensors for three families of gas; each family has a quick and a slow member
    [[1.0, 0.7, 0.3, 0.8, 0.5, 0.2, 0.6, 0.4], [0.6, 0.9, 0.5, 0.5, 0.8, 0.4, 0.3, 0.6],
     [0.5, 0.5, 0.8, 0.6, 0.4, 0.8, 0.6, 0.7]]
)  # fmt: skip


def gas(seed: int) -> TwoFiles:
    """Eight gas sensors that send their rises: counts tell three families of gas, the speed of the rise two members."""
    rng = generator("gas-8", seed)
    noses, step, steps = 20, 0.02, 250
    plan = planned(rng, noses, 96, 6, 5)
    count, groups, labels = len(plan), plan.groups, plan.labels
    clock = np.arange(steps) * step
    durations = rng.uniform(4.2, 5.0, count)
    onset = rng.uniform(0.3, 1.6, count)[:, None, None]
    amount = spread(rng, 0.35, count)[:, None, None]
    sensors = AFFINITIES[labels // 2] * spread(rng, 0.1, (noses, 8))[groups] * spread(rng, 0.08, (count, 8))
    speeds = np.array([0.25, 1.1])[labels % 2][:, None] * spread(rng, 0.12, (noses, 8))[groups]
    speeds = (speeds * spread(rng, 0.15, (count, 1)))[:, :, None]
    puffs = 1 + 0.12 * smooth(rng.standard_normal((count, 1, steps)), 15)  # the air moves
    along = np.clip(clock - onset, 0, None) / speeds
    signal = amount * sensors[:, :, None] * (1 - np.exp(-along)) * puffs
    signal += 0.07 * smooth(rng.standard_normal((count, 8, steps)), 90)  # drift
    signal += 0.012 * rng.standard_normal((count, 8, steps))
    up, _ = delta_modulated(signal, 0.055 * spread(rng, 0.1, (noses, 8))[groups], 3, up_only=True)
    events = events_of(up, rng, step)
    events = kept(events, events["t"] < durations[events["sample"]])
    faults = with_faults(rng, plan, events, durations, 8, noise=0.3, hot=4, faults=(0.02, 0.02, 0.05))
    return two_files(plan, faults, "s")


# Gaits: walk, run, limp, shuffle, walk with a stick, two persons. Steps a second, metres a step, seconds of contact.
GAITS = ((1.8, 0.65, 0.5), (2.7, 0.85, 0.2), (1.7, 0.55, 0.5), (1.8, 0.35, 0.6), (1.7, 0.6, 0.5), (1.8, 0.65, 0.5))


def floor(seed: int) -> TwoFiles:
    """A floor of 6 x 4 tiles that feel heels and toes for 3 s; a person crosses it in one of six ways."""
    rng = generator("floor-24", seed)
    persons = 24
    plan = planned(rng, persons, 90, 6, 6)
    tempos, weights, lengths = spread(rng, 0.09, persons), spread(rng, 0.25, persons), spread(rng, 0.1, persons)
    durations = rng.uniform(2.5, 3.2, len(plan))
    samples = []
    for number, (who, label) in enumerate(zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)):
        person = np.array([tempos[who], weights[who], lengths[who]]) * np.exp(0.06 * rng.standard_normal(3))
        parts = [_steps(rng, label, person, durations[number])]
        if label == 5:
            parts.append(_steps(rng, label, spread(rng, 0.1, 3), durations[number]))
        walk = joined(*parts)
        samples.append({"sample": np.full(len(walk["t"]), number), **walk})
    events = joined(*samples)
    return two_files(plan, with_faults(rng, plan, events, durations, 24, noise=0.12, hot=3), "ms", 1000)


def _steps(rng: np.random.Generator, label: int, person: Array, duration: float) -> Events:
    """Draw the events of one walk along a line over the floor, in either direction."""
    (rate, length, contact), (tempo, weight, long) = GAITS[label], person
    period = tempo / rate
    number = np.arange(int(duration / period) + 2)
    uneven = np.where(number % 2 == 0, -0.5, 0.5) * (0.55 if label == 2 else 0)
    when = (number - rng.random() + 0.5 * uneven + 0.04 * rng.standard_normal(len(number))) * period
    angle = rng.uniform(-0.5, 0.5) + (np.pi if rng.random() < 0.5 else 0)
    ahead = (when - duration / 2) / period * length * long
    middle = np.array([1.8, 1.2]) + rng.uniform(-0.3, 0.3, 2)
    side = 0.12 * np.where(number % 2 == 0, 1, -1)
    x = middle[0] + np.cos(angle) * ahead - np.sin(angle) * side
    y = middle[1] + np.sin(angle) * ahead + np.cos(angle) * side
    force = weight * np.where((number % 2 == 0) & (label == 2), 0.6, 1.0)
    strikes = [(when, 0.025, 7 * force), (when + contact * tempo, 0.04, 5 * force)]  # heels, then toes
    if label == 3:
        strikes = [(when, 0.05, 4 * force), (when + 0.4 * period, 0.18, 8 * force)]  # the foot scrapes
    if label == 4:
        with_stick = np.where(number % 2 == 0, 6.0, 0.0)
        strikes.append((when + 0.5 * period, 0.012, with_stick * force))
    parts = []
    tile_x, tile_y = np.arange(24) % 6 * 0.6 + 0.3, np.arange(24) // 6 * 0.6 + 0.3
    for at, blur, strength in strikes:
        near = np.exp(-0.5 * ((tile_x - x[:, None]) ** 2 + (tile_y - y[:, None]) ** 2) / 0.3**2)
        counts = rng.poisson(near * np.broadcast_to(strength, at.shape)[:, None])
        step, tile = np.nonzero(counts)
        step, tile = (np.repeat(place, counts[step, tile]) for place in (step, tile))
        parts.append({"t": at[step] + np.abs(blur * rng.standard_normal(len(step))), "x": tile})
    walk = joined(*parts)
    return kept(walk, (walk["t"] > 0) & (walk["t"] < duration))


def quakes(seed: int) -> TwoFiles:
    """80 geophones on a field hear two waves, from one of eight sides, from below or along the surface."""
    rng = generator("quakes-80", seed)
    fields, channels = 20, 80
    plan = planned(rng, fields, 112, 16, 5)
    count, groups, labels = len(plan), plan.groups, plan.labels
    grid = np.stack([np.arange(80) % 10 * 22.0 - 99, np.arange(80) // 10 * 28.0 - 98], 1)  # metres
    places = grid + 4 * rng.standard_normal((fields, channels, 2))
    own = 0.012 * rng.standard_normal((fields, channels))  # the ground below a geophone is quick or slow
    angle = np.pi / 4 * (labels // 2 + rng.uniform(-0.36, 0.36, count))
    below = labels % 2 == 0
    speed = np.where(below, 2400, 900) * spread(rng, 0.1, fields)[groups] * spread(rng, 0.06, count)
    towards = np.stack([np.cos(angle), np.sin(angle)], 1)
    way = -(places[groups] * towards[:, None]).sum(2)
    onset = 0.13 + rng.uniform(0.0, 0.14, count)
    later = np.where(below, rng.uniform(0.09, 0.15, count), rng.uniform(0.06, 0.12, count))
    hearing = np.clip(spread(rng, 0.35, (fields, channels)), 0.3, 2)[groups] * spread(rng, 0.3, count)[:, None]
    parts = []
    for wave, (slower, strength, lasts) in enumerate(((1.0, 0.45, 0.015), (1.75, 0.8, 0.03))):
        arrival = (onset + wave * later)[:, None] + slower * way / speed[:, None] + own[groups]
        counts = rng.poisson(strength * hearing)
        sample, channel = np.nonzero(counts)
        sample, channel = (np.repeat(place, counts[sample, channel]) for place in (sample, channel))
        time = arrival[sample, channel] + lasts * rng.standard_exponential(len(sample))
        parts.append({"sample": sample, "t": time, "x": channel})
    durations = onset + later + rng.uniform(0.25, 0.35, count)
    events = joined(*parts)
    events = kept(events, (events["t"] > 0) & (events["t"] < durations[events["sample"]]))
    return two_files(plan, with_faults(rng, plan, events, durations, channels, noise=0.6, hot=20), "ms", 1000)


# Pedestrian, cyclist, car, truck: length and height in pixels, pixels a second, pixels that the legs swing.
TRAFFIC = ((3.0, 10.0, 14.0, 2.5), (8.0, 9.0, 30.0, 1.5), (14.0, 6.5, 45.0, 0.0), (21.0, 11.0, 36.0, 0.0))
# Their edges between the back (-0.5) and the front (0.5): place, polarity, lower and upper end (0 is the ground).
EDGES = (
    ((0.5, 1, 0.0, 1.0), (-0.5, 0, 0.0, 1.0)),
    ((0.5, 1, 0.0, 0.5), (-0.5, 0, 0.0, 0.5), (0.15, 1, 0.4, 1.0), (-0.15, 0, 0.4, 1.0)),
    ((0.5, 1, 0.0, 0.6), (-0.5, 0, 0.0, 0.6), (0.25, 1, 0.5, 1.0), (-0.3, 0, 0.5, 1.0)),
    ((0.5, 1, 0.0, 0.8), (-0.5, 0, 0.0, 1.0), (0.25, 0, 0.3, 1.0), (0.2, 1, 0.0, 1.0)),
)


def street(seed: int) -> TwoFiles:
    """An event camera of 40 x 40 pixels over a street: four kinds of traffic, to the left or to the right."""
    rng = generator("street-40", seed)
    cameras = 20
    plan = planned(rng, cameras, 96, 8, 5)
    scales, heights, contrasts = (
        rng.uniform(0.85, 1.2, cameras),
        rng.uniform(15, 27, cameras),
        spread(rng, 0.2, cameras),
    )
    durations = rng.uniform(0.6, 0.9, len(plan))
    samples = []
    for number, (who, label) in enumerate(zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)):
        events = _passing(rng, label, scales[who], heights[who], contrasts[who], durations[number])
        samples.append({"sample": np.full(len(events["t"]), number), **events})
    events = joined(*samples)
    events["x"] = 2 * (events.pop("y") * 40 + events["x"]) + events.pop("p")  # a channel for each pixel and polarity
    whole = with_faults(rng, plan, events, durations, 3200, noise=0.01, hot=25, faults=(0.01, 0.0004, 0.04))
    pixel, whole["p"] = whole["x"] // 2, whole["x"] % 2
    whole["x"], whole["y"] = pixel % 40, pixel // 40
    return two_files(plan, whole, "ms", 1000)


def _passing(
    rng: np.random.Generator, label: int, scale: float, height: float, contrast: float, duration: float
) -> Events:
    """Draw the events of the edges of one thing that passes; its front and its back have opposite polarity."""
    length, tall, speed, swing = np.array(TRAFFIC[label // 2]) * scale * np.exp(0.12 * rng.standard_normal(4))
    speed *= np.exp(0.15 * rng.standard_normal())
    sense = 1 if label % 2 else -1
    places, polarity, low, high = np.array(EDGES[label // 2]).T
    darker = rng.random() < 0.5  # the front makes the pixels darker
    count = rng.poisson(contrast * 0.3 * tall * speed * duration * (high - low))
    edge = np.repeat(np.arange(len(places)), count)
    time = rng.random(len(edge)) * duration
    up = low[edge] + (high - low)[edge] * rng.random(len(edge))
    phase = 2 * np.pi * (time * (1.9 if label < 2 else 1.4) + rng.random())
    legs = swing * np.clip(1 - 2 * up, 0, 1) * np.sin(phase) * np.where(edge % 2 == 0, 1, -1)
    x = 20 + rng.uniform(-6, 6) + sense * (speed * (time - duration / 2) + places[edge] * length) + legs
    y = height + rng.uniform(-3, 3) + tall * (0.5 - up)
    noise = rng.poisson(30 * duration)
    at_x, at_y = (np.concatenate([at + 0.5 * rng.standard_normal(len(at)), rng.uniform(0, 40, noise)]) for at in (x, y))
    shown = (polarity[edge] == 1) != darker
    shown ^= rng.random(len(shown)) < 0.05
    events = {
        "t": np.concatenate([time, rng.random(noise) * duration]),
        "x": np.floor(at_x).astype(int),
        "y": np.floor(at_y).astype(int),
        "p": np.concatenate([shown, rng.random(noise) < 0.5]).astype(int),
    }
    return kept(events, (at_x >= 0) & (at_x < 40) & (at_y >= 0) & (at_y < 40))
