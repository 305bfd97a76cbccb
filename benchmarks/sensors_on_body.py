"""Sensor sets of things that people wear or touch: a fingertip, an armband, a wristband, two leads of a heart."""

from __future__ import annotations

import numpy as np

from sensor_events import (
    Array,
    Plan,
    TwoFiles,
    background,
    delta_modulated,
    events_of,
    generator,
    joined,
    kept,
    planned,
    smooth,
    spread,
    two_files,
)

BRAILLE = (  # the raised dots of the letters a to z
    "1 12 14 145 15 124 1245 125 24 245 13 123 134 1345 135 1234 12345 1235 234 2345 136 1236 2456 1346 13456 1356"
)


def braille(seed: int) -> TwoFiles:
    """A fingertip of 4 x 3 taxels slides over one of 26 letters; each rises or falls: 24 channels."""
    rng = generator("braille-12", seed)
    sessions, step = 13, 0.002  # a session is a person, a finger and a plate
    plan = planned(rng, sessions, 208, 26, 3)
    signal, threshold, end = _pressure(rng, plan, sessions, step)
    up, down = delta_modulated(signal, threshold[plan.groups][:, None] * np.ones((1, 12)), 2)
    events = events_of(np.concatenate([up, down], 1), rng, 1)
    heard = rng.random(len(events["t"])) < 0.96
    events = kept(events, (events["t"] < end[events["sample"]] + 12) & heard)
    events["t"] = events["t"] * step
    rate = 0.4 * np.ones((sessions, 24))
    rate[rng.integers(0, sessions, 5), rng.integers(0, 24, 5)] = 25  # hot channels
    return two_files(plan, joined(events, background(rng, rate[plan.groups], end * step)), "us", 1e6)


def _pressure(rng: np.random.Generator, plan: Plan, sessions: int, step: float) -> tuple[Array, Array, Array]:
    """Return the signal of each taxel, the threshold of each session, and the step at which the finger is lifted."""
    count, steps, groups = len(plan), 700, plan.groups
    dots = np.zeros((26, 6))
    for letter, raised in enumerate(BRAILLE.split()):
        dots[letter, [int(dot) - 1 for dot in raised]] = 1
    dot_x, dot_y = np.array([0, 0, 0, 2.5, 2.5, 2.5]), np.array([0, 2.5, 5, 0, 2.5, 5.0])
    taxel_x, taxel_y = np.tile([-2.0, 0, 2.0], 4), np.repeat([-1.2, 1.2, 3.6, 6.0], 3)
    # the session
    gains = spread(rng, 0.18, (sessions, 12))
    gains[rng.random((sessions, 12)) < 0.04] = 0.05  # dead taxels
    tilts, offsets = 0.08 * rng.standard_normal(sessions), 0.2 * rng.standard_normal(sessions)
    speeds, widths = rng.uniform(19, 27, sessions), rng.uniform(0.8, 1.05, sessions)
    thresholds = rng.uniform(0.065, 0.09, sessions)
    # the stroke
    speed = speeds[groups] * spread(rng, 0.1, count)
    wobble = 1 + 0.12 * np.clip(smooth(rng.standard_normal((count, steps)), 50), -2, 2)
    start = -5.5 - rng.uniform(0, 0.8, count)
    position = start[:, None] + np.cumsum(speed[:, None] * wobble * step, 1)
    stop = 8.5 + rng.uniform(0, 2, count)
    going = position < stop[:, None]
    position = np.minimum(position, stop[:, None])
    offset = offsets[groups] + 0.15 * rng.standard_normal(count)
    depth = dots[plan.labels] * spread(rng, 0.13, (count, 6))
    tilt, width = tilts[groups] + 0.05 * rng.standard_normal(count), widths[groups]
    signal: Array = np.zeros((count, 12, steps), np.float32)
    for taxel in range(12):
        x = taxel_x[taxel] - tilt * (taxel_y[taxel] - 2.5)
        y = taxel_y[taxel] + tilt * taxel_x[taxel] + offset
        for dot in range(6):
            on = depth[:, dot] > 0
            if on.any():
                near = np.exp(-0.5 * ((y[on] - dot_y[dot]) / 1.0) ** 2) * depth[on, dot]
                away = (position[on] + x[on, None] - dot_x[dot]) / width[on, None]
                signal[on, taxel] += (near[:, None] * np.exp(-0.5 * away**2)).astype(np.float32)
    clock = np.arange(steps) * step
    press = np.clip((clock / rng.uniform(0.02, 0.06, count)[:, None]), 0, 1) * (
        1 + 0.12 * smooth(rng.standard_normal((count, steps)), 40)
    )
    signal = (signal * 0.9 + 0.35) * press[:, None] * gains[groups][:, :, None]
    signal += 0.02 * smooth(rng.standard_normal((count, 12, steps)).astype(np.float32), 3)
    signal *= going[:, None] | (np.arange(steps) == 0)
    return signal, thresholds, going.sum(1)


# The drive of four muscles round the arm at the beginning and at the end of a gesture: fist, open hand, flex, extend,
# pronate, supinate, pinch.
EARLY = np.array(
    [[1, 0.8, 0.1, 0.1], [0.1, 0.2, 1, 0.7], [1, 0.15, 0.1, 0.2], [0.15, 1, 0.2, 0.1],
     [0.1, 0.15, 0.2, 1], [0.15, 0.1, 1, 0.25], [0.7, 0.6, 0.5, 0.1]]
)  # fmt: skip
LATE = np.array(
    [[0.9, 0.9, 0.2, 0.1], [0.2, 0.1, 0.8, 0.9], [0.5, 0.1, 0.1, 0.7], [0.2, 0.5, 0.7, 0.1],
     [0.6, 0.1, 0.1, 0.7], [0.1, 0.7, 0.5, 0.2], [0.5, 0.8, 0.1, 0.4]]
)  # fmt: skip


def emg(seed: int) -> TwoFiles:
    """An armband of 8 electrodes, whose envelopes rise or fall: 16 channels; 7 gestures of 10 persons."""
    rng = generator("emg-8", seed)
    persons, step, steps = 10, 0.005, 440
    plan = planned(rng, persons, 140, 7, 3)
    count, groups, labels = len(plan), plan.groups, plan.labels
    late = LATE + 0.05 * np.random.default_rng(42).random((7, 4))  # the same for every seed
    rotation = 0.09 * rng.standard_normal(persons)
    muscles = np.array([0.2, 1.7, 3.3, 4.8]) + 0.08 * rng.standard_normal((persons, 4))
    drives = spread(rng, 0.1, (persons, 7, 4))
    gains = spread(rng, 0.13, (persons, 8))
    gains[rng.random((persons, 8)) < 0.02] = 0.15
    noise, tempo = rng.uniform(0.1, 0.22, persons), spread(rng, 0.2, persons)
    shift = rotation[groups] + 0.05 * rng.standard_normal(count)
    angle = (np.arange(8) * np.pi / 4)[None, :, None] - muscles[groups][:, None, :] - shift[:, None, None]
    mixing = np.exp(2.3 * (np.cos(angle) - 1))  # [N, electrode, muscle]
    onset = rng.uniform(0.05, 0.6, count)[:, None]
    length = (0.95 * tempo[groups] * spread(rng, 0.22, count))[:, None]
    phase = (np.arange(steps) * step - onset) / length
    rise = np.clip(phase / 0.15, 0, 1) * np.clip((1.1 - phase) / 0.2, 0, 1)
    blend = 1 / (1 + np.exp(-(phase - 0.5) / 0.08))
    force = spread(rng, 0.2, count)[:, None, None]
    scale = drives[groups, labels] * spread(rng, 0.15, (count, 4))
    drive = (EARLY[labels] * scale)[:, :, None] * (rise * (1 - blend))[:, None]
    drive += (late[labels] * scale)[:, :, None] * (rise * blend)[:, None]
    envelope = np.einsum("ncm,nmt->nct", mixing, drive * force)
    rough = smooth(rng.standard_normal((count, 8, steps)), 4) * noise[groups][:, None, None]
    envelope = (envelope * np.exp(rough - 0.04) + 0.05 * np.exp(rough)) * gains[groups][:, :, None]
    up, down = delta_modulated(np.log1p(3 * envelope), 0.11, 2)  # behind a logarithmic amplifier
    events = events_of(np.concatenate([up, down], 1), rng, step)
    end = np.minimum((onset + 1.1 * length)[:, 0] + rng.uniform(0.05, 0.3, count), steps * step)
    events = kept(events, (events["t"] < end[events["sample"]]) & (rng.random(len(events["t"])) < 0.95))
    rate = np.full((persons, 16), 0.5)
    rate[rng.integers(0, persons, 4), rng.integers(0, 16, 4)] = 15  # hot channels
    return two_files(plan, joined(events, background(rng, rate[groups], end)), "s")


STROKES = np.array(  # how far a stroke of kind A, one of kind B, and a tap move the six axes
    [[1.0, 0.2, 0.1, 0.1, 0.8, 0.2], [0.2, 1.0, 0.2, 0.8, 0.1, 0.3], [0.1, 0.2, 1.0, 0.3, 0.2, 0.1]]
)
GESTURES = (  # (stroke, time in ms): A B A and B A A; taps with the long pause at the end, and at the beginning
    ((0, 0), (1, 380), (0, 760)),
    ((1, 0), (0, 380), (0, 760)),
    ((2, 0), (2, 220), (2, 800)),
    ((2, 0), (2, 580), (2, 800)),
)


def imu(seed: int) -> TwoFiles:
    """Accelerometer and gyroscope, events of rises only: 6 channels; the class is order, rhythm or sense of turning."""
    rng = generator("imu-6", seed)
    persons, step, steps = 15, 5.0, 560  # ms
    plan = planned(rng, persons, 90, 6, 4)
    count, groups = len(plan), plan.groups
    tempo = spread(rng, 0.18, persons)[groups] * spread(rng, 0.1, count)
    onset = rng.uniform(100, 600, count)
    signal = _movement(rng, plan, tempo, onset, np.arange(steps) * step)
    # how the sensor is held: a small rotation of both triples of axes
    turn = 0.22 * rng.standard_normal((persons, 3))[groups] + 0.1 * rng.standard_normal((count, 3))
    for one, other, number in ((0, 1, 0), (1, 2, 1), (0, 2, 2)):
        cos, sin = np.cos(turn[:, number])[:, None], np.sin(turn[:, number])[:, None]
        for triple in (0, 3):
            p, q = signal[:, triple + one].copy(), signal[:, triple + other].copy()
            signal[:, triple + one], signal[:, triple + other] = cos * p - sin * q, sin * p + cos * q
    signal *= spread(rng, 0.2, (persons, 6))[groups][:, :, None]
    signal += 0.1 * smooth(rng.standard_normal((count, 6, steps)), 8)  # tremor
    signal += 0.15 * smooth(rng.standard_normal((count, 6, steps)), 60)
    up, _ = delta_modulated(signal, 0.16, 3, up_only=True)
    events = events_of(up, rng, step)
    end = np.minimum(onset + 1000 * tempo + rng.uniform(50, 500, count), steps * step)
    events = kept(events, (events["t"] < end[events["sample"]]) & (rng.random(len(events["t"])) < 0.96))
    return two_files(plan, joined(events, background(rng, np.full((count, 6), 0.0012), end)), "ms")


def _movement(rng: np.random.Generator, plan: Plan, tempo: Array, onset: Array, clock: Array) -> Array:
    """Return the signal of each axis: four gestures of strokes and taps, and circles one way and the other."""
    signal = np.zeros((len(plan), 6, len(clock)))
    strokes = STROKES[None] * spread(rng, 0.25, (15, 3, 6))
    for label, gesture in enumerate(GESTURES):
        who = np.flatnonzero(plan.labels == label)
        for stroke, at in gesture:
            when = onset[who] + at * tempo[who] + 45 * rng.standard_normal(len(who))
            width = 65 * tempo[who] * spread(rng, 0.15, len(who))
            z = (clock - when[:, None]) / width[:, None]
            there_and_back = z * np.exp(0.5 - 0.5 * z**2)
            gain = strokes[plan.groups[who], stroke] * spread(rng, 0.2, (len(who), 6))
            signal[who] += gain[:, :, None] * there_and_back[:, None]
    lag = np.array([0, np.pi / 2, 0.7, np.pi / 2 + 0.3, 0.2, np.pi])
    for label, sense in ((4, 1.0), (5, -1.0)):
        who = np.flatnonzero(plan.labels == label)
        speed = 2 * np.pi * 2.2 / (1000 * tempo[who])
        start = 2 * np.pi * rng.random(len(who))
        phase = sense * speed[:, None] * (clock - onset[who][:, None]) + start[:, None]
        along = (clock - onset[who][:, None]) / (1000 * tempo[who])[:, None]
        window = np.clip(along / 0.15, 0, 1) * np.clip((1 - along) / 0.15, 0, 1)
        size = strokes[plan.groups[who]].mean(1) * spread(rng, 0.2, (len(who), 1))
        signal[who] += (1.6 * size)[:, :, None] * window[:, None] * np.cos(phase[:, None] - lag[None, :, None])
    return signal


# Waves P, Q, R, S, T of a beat: time from R and width in s, size in both leads.
NORMAL = np.array(
    [[-0.17, 0.022, 0.15, 0.10], [-0.028, 0.009, -0.12, -0.05], [0, 0.011, 1.1, 0.7],
     [0.028, 0.011, -0.25, -0.35], [0.27, 0.045, 0.3, 0.2]]
)  # fmt: skip
VENTRICULAR = np.array(
    [[-0.17, 0.02, 0, 0], [-0.05, 0.03, 0.25, -0.3], [0, 0.032, 1.2, -0.9],
     [0.075, 0.03, -0.6, 0.5], [0.3, 0.06, -0.4, 0.3]]
)  # fmt: skip
BUNDLE_BRANCH = np.array(
    [[-0.19, 0.022, 0.15, 0.1], [-0.03, 0.018, 0.55, 0.25], [0.012, 0.018, 0.75, 0.5],
     [0.06, 0.02, 0.2, -0.25], [0.29, 0.05, -0.15, -0.1]]
)  # fmt: skip
ATRIAL = np.concatenate([[[-0.13, 0.018, 0.08, 0.16]], NORMAL[1:]])
FUSION = 0.55 * NORMAL + 0.45 * VENTRICULAR
BEATS = np.stack([NORMAL, VENTRICULAR, BUNDLE_BRANCH, ATRIAL, FUSION])


def ecg(seed: int) -> TwoFiles:
    """Two leads that rise or fall: 4 channels; the class is the beat in the middle of three, 70 % are normal."""
    rng = generator("ecg-4", seed)
    patients, step, steps = 50, 0.004, 600
    tested = rng.choice(patients, 13, replace=False)
    groups = np.repeat(np.arange(patients), 50)
    counts = np.repeat(np.arange(5), [35, 6, 4, 3, 2])
    labels = np.concatenate([rng.permutation(counts) for _ in range(patients)])
    plan, count = Plan(labels, groups, np.isin(groups, tested)), len(labels)
    signal, last = _heart(rng, plan, patients, np.arange(steps) * step)
    up, down = delta_modulated(signal, 0.075, 4)
    events = events_of(np.stack([up[:, 0], down[:, 0], up[:, 1], down[:, 1]], 1), rng, step)
    end = np.minimum(last + rng.uniform(0.15, 0.45, count), steps * step)
    events = kept(events, (events["t"] < end[events["sample"]]) & (rng.random(len(events["t"])) < 0.97))
    return two_files(plan, joined(events, background(rng, np.full((count, 4), 0.8), end)), "s")


def _heart(rng: np.random.Generator, plan: Plan, patients: int, clock: Array) -> tuple[Array, Array]:
    """Return the signal of both leads, and the time of the third beat."""
    count, steps, groups, labels = len(plan), len(clock), plan.groups, plan.labels
    interval = rng.uniform(0.62, 1.0, patients)[groups] * spread(rng, 0.06, count)
    sizes, leads = spread(rng, 0.32, (patients, 5, 2)), spread(rng, 0.25, (patients, 2))
    axis, widths = 0.3 * rng.standard_normal(patients), spread(rng, 0.12, (patients, 5))
    signal = np.zeros((count, 2, steps))

    def add_beat(kind: Array, when: Array) -> None:
        waves = BEATS[kind].copy()
        waves[:, :, 2:] *= sizes[groups] * spread(rng, 0.12, (count, 5, 2))
        shift = waves[:, :, 0] * (interval / 0.8)[:, None] ** 0.4 + 0.004 * rng.standard_normal((count, 5))
        width = waves[:, :, 1] * widths[groups] * spread(rng, 0.08, (count, 5))
        for wave in range(5):
            z = (clock - when[:, None] - shift[:, wave, None]) / width[:, wave, None]
            bump = np.exp(-0.5 * z * z)
            for lead in range(2):
                signal[:, lead] += waves[:, wave, 2 + lead, None] * bump

    first = rng.uniform(0.15, 0.5, count)
    early = np.choose(labels, [1.0, 0.72, 1.0, 0.72, 0.9]) * spread(rng, 0.05, count)
    pause = np.choose(labels, [1.0, 1.25, 1.0, 1.1, 1.08]) * spread(rng, 0.04, count)
    middle = first + interval * early
    last = middle + interval * pause
    neighbour = np.where(labels == 2, 2, 0)  # a bundle branch block stays
    for kind, when in ((neighbour, first), (labels, middle), (neighbour, last)):
        add_beat(kind, when)
    cos, sin = np.cos(axis)[groups][:, None], np.sin(axis)[groups][:, None]
    one, other = signal[:, 0].copy(), signal[:, 1].copy()
    signal[:, 0], signal[:, 1] = cos * one - sin * other, sin * one + cos * other
    signal *= leads[groups][:, :, None]
    signal += 0.15 * smooth(rng.standard_normal((count, 2, steps)), 120)  # the base line wanders
    muscle = rng.uniform(0.02, 0.06, patients)[groups] * spread(rng, 0.3, count)
    signal += muscle[:, None, None] * smooth(rng.standard_normal((count, 2, steps)), 1.2)
    signal += 0.012 * np.sin(2 * np.pi * 50 * clock + rng.uniform(0, 6.28, count)[:, None])[:, None]  # mains
    return signal, last
