"""Judge sets of things that are heard or seen: hearts, birds, echoes, leaves."""

from __future__ import annotations

import numpy as np

from sensor_events import (
    Array,
    Events,
    Plan,
    TwoFiles,
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

# Loudness of a heart's sounds in a low, a middle and a high band: first, second, murmur, third or fourth.
SOUNDS = np.array([[1.0, 0.7, 0.2], [0.7, 0.8, 0.4], [0.1, 0.4, 0.4], [0.5, 0.15, 0.02]])


def heart(seed: int) -> TwoFiles:
    """Three bands of a stethoscope at two levels: 6 channels; normal (half of all), two murmurs, a third or fourth."""
    rng = generator("heart-6", seed)
    patients, step, steps = 52, 0.006, 434
    groups = np.repeat(np.arange(patients), 40)
    kinds = np.repeat(np.arange(5), [20, 7, 6, 4, 3])
    labels = np.concatenate([rng.permutation(kinds) for _ in range(patients)])
    plan = Plan(labels, groups, np.isin(groups, rng.choice(patients, 12, replace=False)))
    durations = rng.uniform(2.0, 2.6, len(plan))
    loudness = _heart_sounds(rng, plan, patients, np.arange(steps) * step)
    gain = spread(rng, 0.3, (patients, 3))[groups] * spread(rng, 0.15, (len(plan), 1))
    loudness *= gain[:, :, None] * np.exp(0.25 * smooth(rng.standard_normal(loudness.shape), 2))
    rates = [np.clip(loudness - level, 0, 1.5) * 160 for level in (0.1, 0.4)]
    events = events_of(rng.poisson(np.concatenate(rates, 1) * step), rng, step)
    events = kept(events, events["t"] < durations[events["sample"]])
    faults = with_faults(rng, plan, events, durations, 6, noise=1.5, hot=12, faults=(0.01, 0.03, 0.05))
    return two_files(plan, faults, "s")


def _heart_sounds(rng: np.random.Generator, plan: Plan, patients: int, clock: Array) -> Array:
    """Return the loudness in each band; systole is the shorter of the two pauses."""
    count, groups, labels = len(plan), plan.groups, plan.labels
    beat = rng.uniform(0.65, 1.05, patients)[groups] * spread(rng, 0.04, count)
    systole = 0.33 * np.sqrt(beat) * spread(rng, 0.06, patients)[groups]
    sounds = SOUNDS * spread(rng, 0.2, (patients, 4, 3))
    loudness = np.zeros((count, 3, len(clock)))

    def add(sound: int, chosen: Array, shape: Array) -> None:
        bands = sounds[groups[chosen], sound] * spread(rng, 0.15, (len(chosen), 1))
        loudness[chosen] += bands[:, :, None] * shape[:, None]

    def bump(chosen: Array, when: Array, width: float) -> Array:
        return np.asarray(np.exp(-0.5 * ((clock - when[chosen][:, None]) / width) ** 2))

    every = np.arange(count)
    first = -beat * rng.random(count)
    for _ in range(6):
        second = first + systole + 0.006 * rng.standard_normal(count)
        add(0, every, bump(every, first, 0.028))
        add(1, every, bump(every, second, 0.022))
        for label, when, length in ((1, first + 0.04, systole - 0.07), (2, second + 0.03, 0.75 * (beat - systole))):
            who = np.flatnonzero(labels == label)
            along = (clock - when[who][:, None]) / length[who][:, None]
            shape = np.sin(np.pi * np.clip(along, 0, 1)) if label == 1 else (1 - along) * ((along > 0) & (along < 1))
            add(2, who, 1.3 * shape)
        for label, when in ((3, second + 0.15), (4, first - 0.11)):
            who = np.flatnonzero(labels == label)
            add(3, who, bump(who, when + 0.008 * rng.standard_normal(count), 0.026))
        first = first + beat * spread(rng, 0.03, count)
    return loudness


# Songs of twelve species: syllables of (first channel, last channel, seconds, pause), and how often the song repeats.
UP, DOWN, LOW, HIGH = (12, 24, 0.09, 0.05), (24, 12, 0.09, 0.05), (10, 10, 0.1, 0.05), (26, 26, 0.1, 0.05)
CHIP, BUZZ = (28, 20, 0.03, 0.03), (18, 18, 0.16, 0.08)
SONGS = (
    ((UP, UP, DOWN), 2), ((DOWN, DOWN, UP), 2), ((UP, DOWN, UP), 2), ((LOW, LOW, HIGH), 2), ((HIGH, HIGH, LOW), 2),
    ((HIGH, LOW, HIGH), 2), ((CHIP,), 12), (((28, 20, 0.03, 0.09),), 6), (((20, 28, 0.03, 0.03),), 12),
    ((BUZZ, CHIP, CHIP, CHIP), 2), ((CHIP, CHIP, CHIP, BUZZ), 2), ((BUZZ, UP, BUZZ), 1),
)  # fmt: skip


def birds(seed: int) -> TwoFiles:
    """A filter bank of 40 channels hears one of 12 songs; order, sense of sweeps and speed of trills tell them."""
    rng = generator("birds-40", seed)
    singers = 25
    plan = planned(rng, singers, 108, 12, 6)
    pitch, tempo = 1.6 * rng.standard_normal(singers), spread(rng, 0.1, singers)
    own = 0.9 * rng.standard_normal((singers, 12, 4, 2))  # a singer's syllables
    far = rng.uniform(0.5, 1.0, singers)
    samples, durations = [], np.zeros(len(plan))
    for number, (who, label) in enumerate(zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)):
        syllables, repeats = SONGS[label]
        speed, shift = tempo[who] * np.exp(0.07 * rng.standard_normal()), pitch[who] + 0.5 * rng.standard_normal()
        loud, now, parts = far[who] * np.exp(0.25 * rng.standard_normal()), rng.uniform(0.02, 0.3), []
        for _ in range(repeats):
            for place, (begin, end, length, pause) in enumerate(syllables):
                bent = own[who, label, place] + 0.4 * rng.standard_normal(2) + shift
                length *= speed * np.exp(0.1 * rng.standard_normal())
                parts.append(_syllable(rng, begin + bent[0], end + bent[1], length, loud, now))
                now += length + pause * speed * np.exp(0.15 * rng.standard_normal())
        durations[number] = now + rng.uniform(0, 0.2)
        song = joined(*parts)
        samples.append({"sample": np.full(len(song["t"]), number), **song})
    events = joined(*samples)
    return two_files(plan, with_faults(rng, plan, events, durations, 40, noise=1.6, hot=25), "ms", 1000)


def _syllable(rng: np.random.Generator, begin: float, end: float, length: float, loud: float, now: float) -> Events:
    """Draw the events of a tone that goes from one channel to another, with an overtone."""
    count = rng.poisson(330 * loud * length)
    along = rng.random(count)
    channel = begin + (end - begin) * along + 1.1 * rng.standard_normal(count)
    channel = np.where(rng.random(count) < 0.12, channel + 11, channel)
    heard = {"t": now + along * length + 0.004 * rng.standard_normal(count), "x": np.rint(channel).astype(int)}
    return kept(heard, (heard["x"] >= 0) & (heard["x"] < 40) & (heard["t"] > 0))


def sonar(seed: int) -> TwoFiles:
    """Three chirps and their echoes in 160 channels of frequency: a target near, middle or far comes, stays or goes."""
    rng = generator("sonar-160", seed)
    sites, pings, channels = 20, 3, 160
    plan = planned(rng, sites, 99, 9, 5)
    count, groups, labels = len(plan), plan.groups, plan.labels
    start = rng.uniform(0.002, 0.02, count)
    gap = 0.085 * spread(rng, 0.04, sites)[groups] * spread(rng, 0.02, count)
    middle = 0.012 + 0.014 * (labels // 3) + rng.uniform(-0.0025, 0.0025, count)  # the echo's delay, in seconds
    change = (labels % 3 - 1) * rng.uniform(0.0035, 0.0055, count) + 0.0004 * rng.standard_normal(count)
    sweep = 0.006 * spread(rng, 0.12, sites)[groups]
    strength = 0.42 * spread(rng, 0.2, sites)[groups] * spread(rng, 0.2, count)
    clutter, cluttered = rng.uniform(0.05, 0.07, sites)[groups], rng.uniform(0.05, 0.2, sites)[groups]
    notch = rng.uniform(0, channels, count)  # where two parts of the target cancel
    place = np.arange(channels)
    dip = 1 - 0.8 * np.exp(-0.5 * ((place - notch[:, None]) / 12) ** 2)
    hearing = np.clip(spread(rng, 0.3, (sites, channels)), 0.2, 1.6)[groups]
    parts = []
    for ping in range(pings):
        sent = (start + ping * gap)[:, None] + sweep[:, None] * (1 - place / channels)
        delay = middle + (ping - 1) * change
        fades = np.exp(-(delay - 0.01) / 0.06)
        sounds = (
            (np.zeros(count), 0.55 * hearing, 0.0005),
            (delay, (strength * fades)[:, None] * dip * hearing, 0.0009),
            (clutter, cluttered[:, None] * hearing, 0.004),
        )
        for later, chance, blur in sounds:
            sample, channel = np.nonzero(rng.random((count, channels)) < chance)
            time = sent[sample, channel] + later[sample] + blur * rng.standard_normal(len(sample))
            parts.append({"sample": sample, "t": np.abs(time), "x": channel})
    durations = start + pings * gap
    return two_files(plan, with_faults(rng, plan, joined(*parts), durations, channels, noise=1.0, hot=40), "us", 1e6)


# Outlines of eight leaves: length to width, where it is widest, lobes and their depth, teeth and their depth.
LEAVES = (
    (1.1, 0.0, 0, 0.0, 0, 0.0), (2.3, 0.0, 0, 0.0, 0, 0.0), (1.5, 0.28, 0, 0.0, 0, 0.0), (1.5, -0.28, 0, 0.0, 0, 0.0),
    (1.1, 0.0, 3, 0.28, 0, 0.0), (1.1, 0.0, 5, 0.28, 0, 0.0), (1.5, 0.0, 0, 0.0, 11, 0.1), (1.5, 0.0, 7, 0.22, 0, 0.0),
)  # fmt: skip


def leaves(seed: int) -> TwoFiles:
    """Grey pictures of 24 x 24 pixels: leaves of eight kinds, turned, of several sizes; a plant has its own shape."""
    rng = generator("leaves-24", seed)
    plan = planned(rng, 60, 40, 8, 14)
    plants = spread(rng, 0.06, (60, 8, 6))
    images = np.stack(
        [
            _leaf(rng, np.array(LEAVES[label]) * plants[who, label])
            for who, label in zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)
        ]
    )
    arrays = {"images": images, "labels": plan.labels.astype(np.int64), "groups": plan.groups.astype(np.int64)}
    train, test = ({name: array[chosen] for name, array in arrays.items()} for chosen in (~plan.tested, plan.tested))
    return TwoFiles(train, test)


def _leaf(rng: np.random.Generator, shape: Array) -> Array:
    """Draw one picture: a leaf with its main vein on an uneven ground, sometimes with a hole."""
    length, widest, lobes, lobe, teeth, tooth = shape
    grid = (np.mgrid[0:72, 0:72] + 0.5) / 3 - 12 - 1.0 * rng.standard_normal((2, 1, 1))  # 3 x 3 points a pixel
    turn, size = 0.35 * rng.standard_normal(), rng.uniform(6.3, 8.8)
    along = (np.cos(turn) * grid[0] + np.sin(turn) * grid[1]) / size
    across = (np.cos(turn) * grid[1] - np.sin(turn) * grid[0]) / size
    across = across + rng.normal(0, 0.12) * along**2  # a bent leaf
    stretch = np.sqrt(length)
    u, v = along / stretch, across * stretch / (1 + 1.4 * widest * along / stretch)
    angle, radius = np.arctan2(v, -u), np.hypot(u, v)
    edge = 0.92 - lobe + lobe * np.cos(np.rint(lobes) * angle) + tooth * np.cos(np.rint(teeth) * angle)
    inside = radius < edge
    if rng.random() < 0.3:
        inside &= np.hypot(u - rng.uniform(-0.6, 0.6), v - rng.uniform(-0.4, 0.4)) > rng.uniform(0.1, 0.25)
    ground, light = rng.uniform(0.45, 0.9), rng.normal(0, 0.012, 2)
    darker = rng.uniform(0.2, 0.45)
    picture = ground - darker * inside + 0.1 * (inside & (np.abs(across) < 0.06))
    picture = (picture + light[0] * grid[0] + light[1] * grid[1]).reshape(24, 3, 24, 3).mean((1, 3))
    return np.clip(255 * (picture + 0.05 * rng.standard_normal((24, 24))), 0, 255).astype(np.uint8)
