/*
 * The ground of a picture taken away: paper and boards are grey, and photographs have shades. Ink is light in all planes.
 */

/* The mean colour along the edge of a picture, and whether it is light. */
function borderOf(picture) {
  const canvas = new OffscreenCanvas(16, 16), context = canvas.getContext("2d");
  context.fillStyle = "#fff"; // behind what is transparent
  context.fillRect(0, 0, 16, 16);
  context.drawImage(picture, 0, 0, 16, 16);
  const { data } = context.getImageData(0, 0, 16, 16), sums = [0, 0, 0];
  let count = 0;
  for (let i = 0; i < 256; i++) {
    const edge = i < 16 || i >= 240 || i % 16 === 0 || i % 16 === 15;
    if (!edge) continue;
    for (let k = 0; k < 3; k++) sums[k] += data[4 * i + k];
    count++;
  }
  const colour = sums.map((sum) => Math.round(sum / count));
  return { colour, light: colour[0] + colour[1] + colour[2] > 3 * 127 };
}

/* The values at shares 0..1 of all values in their order. */
function quantiles(values, shares) {
  const sorted = Float64Array.from(values).sort();
  return shares.map((share) => sorted[Math.round(share * (sorted.length - 1))]);
}

/* A plane above a level, stretched so that 1 stays 1. For pictures of things, whose greys mean something. */
function lifted(plane, level) {
  return plane.map((value) => (level < 1 ? Math.max(0, (value - level) / (1 - level)) : 0));
}

const GROUND_CELLS = 42, GROUND_NODES = 7;

/* The ground at 7 x 7 places of a box: the lower quarter of what is around each, so that strokes do not count. */
function groundOf(plane, width, box) {
  const small = resampled(plane, width, box, GROUND_CELLS, GROUND_CELLS), each = GROUND_CELLS / GROUND_NODES;
  return Float64Array.from({ length: GROUND_NODES ** 2 }, (_, node) => {
    const row = Math.floor(node / GROUND_NODES), column = node % GROUND_NODES;
    const around = small.filter((_, i) => {
      const y = Math.floor(i / GROUND_CELLS / each), x = Math.floor((i % GROUND_CELLS) / each);
      return Math.abs(y - row) <= 1 && Math.abs(x - column) <= 1;
    });
    return quantiles(around, [0.25])[0];
  });
}

/* Two neighbouring nodes and the share of the second, for `count` pixels. */
function betweenNodes(count) {
  return Array.from({ length: count }, (_, i) => {
    const place = Math.min(Math.max(((i + 0.5) / count) * GROUND_NODES - 0.5, 0), GROUND_NODES - 1), first = Math.min(Math.floor(place), GROUND_NODES - 2);
    return [first, place - first];
  });
}

/*
 * Strokes without their ground: 0 where there is only paper, 1 where the ink is strongest, 0 outside of the box.
 *
 * The ground may change softly over the picture. What is no stronger than the grain of the paper is paper.
 */
function strokesOnly(plane, width, box) {
  const nodes = groundOf(plane, width, box), down = betweenNodes(box.height), across = betweenNodes(box.width);
  const above = new Float64Array(box.width * box.height), out = new Float64Array(plane.length);
  down.forEach(([row, below], y) => across.forEach(([column, right], x) => {
    const at = row * GROUND_NODES + column, mix = (a, b, share) => a + (b - a) * share;
    const ground = mix(mix(nodes[at], nodes[at + 1], right), mix(nodes[at + GROUND_NODES], nodes[at + GROUND_NODES + 1], right), below);
    above[y * box.width + x] = plane[(box.top + y) * width + box.left + x] - ground;
  }));
  const [low, middle, ink] = quantiles(above, [0.1, 0.4, 0.9998]), paper = Math.max(0, middle + 4 * (middle - low));
  if (ink - paper < 0.06) return out;
  above.forEach((value, i) => {
    const place = (box.top + Math.floor(i / box.width)) * width + box.left + (i % box.width);
    out[place] = Math.min(Math.max((value - paper) / (ink - paper), 0), 1);
  });
  return out;
}
