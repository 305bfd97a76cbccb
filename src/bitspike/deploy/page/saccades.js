/*
 * A drawn digit as events of a camera that moves: three saccades, as N-MNIST was recorded from MNIST.
 *
 * The path is the mean one of N-MNIST's first 100 test samples. In these files polarity 0 is where it grows lighter.
 */
const SACCADE_PATH = [[0, 14.2, 13.8], [10, 14.2, 13.8], [80, 15.9, 19.9], [105, 15.9, 19.9], [190, 19.2, 15.2], [220, 19.2, 15.2], [300, 15, 14.9]]; // [ms, x, y]
const CONTRAST_STEP = 0.2; // the change of brightness that makes an event
const MOMENT_MS = 1.25;

/* Whether a network is on N-MNIST: a camera of 34 x 34 with both polarities, and ten classes. */
function isOfSaccades({ inputShape, classes, metadata, input }) {
  return inputShape.join() === "2,34,34" && classes.length === 10 && Boolean(input.binUs) && /N-?MNIST/i.test(metadata.data ?? "");
}

/* Where the middle of the digit is after some milliseconds: [x, y]. It speeds up and slows down softly. */
function saccadeAt(ms) {
  const next = SACCADE_PATH.findIndex(([start]) => start > ms);
  if (next < 0) return SACCADE_PATH.at(-1).slice(1);
  const [from, ...here] = SACCADE_PATH[next - 1], [to, ...there] = SACCADE_PATH[next], share = (ms - from) / (to - from);
  return here.map((value, k) => value + (there[k] - value) * share * share * (3 - 2 * share));
}

/* The brightness of 34 x 34 pixels when the middle of 28 x 28 pixels is at (x, y), between pixels in proportion. */
function shownAt(pixels, [x, y]) {
  const at = (row, column) => (row >= 0 && row < 28 && column >= 0 && column < 28 ? pixels[row * 28 + column] : 0);
  const left = 14 - x, top = 14 - y, column = Math.floor(left), row = Math.floor(top), right = left - column, below = top - row;
  return Float64Array.from({ length: 34 * 34 }, (_, i) => {
    const r = Math.floor(i / 34) + row, c = (i % 34) + column;
    const upper = at(r, c) * (1 - right) + at(r, c + 1) * right, lower = at(r + 1, c) * (1 - right) + at(r + 1, c + 1) * right;
    return upper * (1 - below) + lower * below;
  });
}

/* Events [steps][2][34][34] of 28 x 28 pixels: a pixel gives one whenever it changed by a step since its last. */
function saccades(pixels, network) {
  const steps = stepsOf(network), each = network.input.binUs / 1000, size = 34 * 34, clip = network.input.clip ?? 255;
  const out = new Float32Array(steps * 2 * size), known = shownAt(pixels, saccadeAt(0));
  for (let ms = MOMENT_MS; ms <= Math.min(steps * each, SACCADE_PATH.at(-1)[0]); ms += MOMENT_MS) {
    const start = Math.floor((ms - MOMENT_MS) / each) * 2 * size;
    shownAt(pixels, saccadeAt(ms)).forEach((value, i) => {
      const count = Math.floor(Math.abs(value - known[i]) / CONTRAST_STEP + 1e-9);
      if (!count) return;
      const lighter = value > known[i], place = start + (lighter ? 0 : size) + i;
      known[i] += (lighter ? count : -count) * CONTRAST_STEP;
      out[place] = Math.min(out[place] + count, clip);
    });
  }
  return out;
}
