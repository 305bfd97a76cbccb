/*
 * Inputs that the page makes for networks on sequences: numbers of events, [steps][inputs].
 */

/* Events of a line of channels: `at(t, spread)` gives, for a time 0..1, places 0..1 that are active. */
function tones(steps, channels, at, width = 0.02) {
  const chance = drawn(steps * channels);
  return Float32Array.from({ length: steps * channels }, (_, i) => {
    const t = Math.floor(i / channels) / steps, place = (i % channels) / channels;
    const near = Math.max(0, ...at(t).map(([centre, loud = 1]) => loud * Math.exp(-(((place - centre) / width) ** 2))));
    return chance[i] / 2 ** 32 < 0.75 * near ? 1 : 0;
  });
}

const during = (t, from, to, places) => (t >= from && t < to ? places : []);

/* Channel 0 is above on the page, and the highest pitch of SHD: what rises goes to lower channels. */
const LINE_PATTERNS = {
  "rising sweep": (steps, n) => tones(steps, n, (t) => during(t, 0.05, 0.7, [[0.9 - 1.3 * (t - 0.05)]])),
  "falling sweep": (steps, n) => tones(steps, n, (t) => during(t, 0.05, 0.7, [[0.05 + 1.3 * (t - 0.05)]])),
  "two tones": (steps, n) => tones(steps, n, (t) => [...during(t, 0.05, 0.35, [[0.3]]), ...during(t, 0.4, 0.7, [[0.65]])]),
  "three tones": (steps, n) =>
    tones(steps, n, (t) => during(t, 0.05, 0.6, [[0.25 + 0.1 * t, 1], [0.5 - 0.15 * t, 0.8], [0.75, 0.6]]), 0.05),
  clicks: (steps, n) => tones(steps, n, (t) => (Math.floor(t * 50) % 8 === 2 && t < 0.7 ? [[0.5]] : []), 0.4),
  noise: (steps, n) => Float32Array.from(drawn(steps * n), (h) => (h / 2 ** 32 < 0.045 ? 1 : 0)),
};

/* Events of a camera [channels, rows, columns]: `lit(t, y, x)` says which pixels are active, in 0..1. */
function scene(steps, [channels, rows, columns], lit) {
  const out = new Float32Array(steps * channels * rows * columns), chance = drawn(out.length);
  for (let i = 0; i < out.length; i++) {
    const x = (i % columns) / columns, y = (Math.floor(i / columns) % rows) / rows;
    const k = Math.floor(i / (rows * columns)) % channels, t = Math.floor(i / (channels * rows * columns)) / steps;
    // A camera reports both edges of what moves: the second channel follows the first.
    if (chance[i] / 2 ** 32 < 0.7 && lit(t, y, k ? x + 0.08 : x)) out[i] = 1;
  }
  return out;
}

const close = (a, b, width = 0.05) => Math.abs(a - b) < width;

const CAMERA_PATTERNS = {
  "bar to the right": (steps, shape) => scene(steps, shape, (t, y, x) => close(x, t) && close(y, 0.5, 0.35)),
  "bar to the left": (steps, shape) => scene(steps, shape, (t, y, x) => close(x, 1 - t) && close(y, 0.5, 0.35)),
  "bar down": (steps, shape) => scene(steps, shape, (t, y, x) => close(y, t) && close(x, 0.5, 0.35)),
  "growing ring": (steps, shape) => scene(steps, shape, (t, y, x) => close(Math.hypot(y - 0.5, x - 0.5), 0.5 * t)),
  noise: (steps, shape) => Float32Array.from(drawn(steps * product(shape)), (h) => (h / 2 ** 32 < 0.02 ? 1 : 0)),
};
