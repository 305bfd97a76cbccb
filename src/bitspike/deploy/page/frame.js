/*
 * From a drawing or a picture to the pixels of the network: planes of numbers 0..1, [rows][columns].
 */

/* The planes of an ImageData: grey, or red, green and blue; `invert` swaps light and dark. */
function planesOf({ data, width, height }, channels, invert) {
  const planes = Array.from({ length: channels === 3 ? 3 : 1 }, () => new Float64Array(width * height));
  for (let i = 0; i < width * height; i++) {
    const r = data[4 * i], g = data[4 * i + 1], b = data[4 * i + 2];
    const values = channels === 3 ? [r, g, b] : [r === g && g === b ? r : 0.299 * r + 0.587 * g + 0.114 * b];
    for (let k = 0; k < values.length; k++) planes[k][i] = (invert ? 255 - values[k] : values[k]) / 255;
  }
  return channels === 3 ? planes : Array.from({ length: channels }, () => planes[0]);
}

/* The smallest box that holds everything brighter than a tenth; null if nothing is. */
function inkBox(planes, width, height) {
  let left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!planes.some((plane) => plane[y * width + x] > 0.1)) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = y;
    }
  }
  return right < 0 ? null : { left, top, width: right - left + 1, height: bottom - top + 1 };
}

/* For each of `count` cells over `size` pixels from `start`: the pixels it covers and their shares, which sum to 1. */
function coverage(start, size, count) {
  return Array.from({ length: count }, (_, i) => {
    const from = start + (i * size) / count, to = start + ((i + 1) * size) / count, shares = [];
    for (let pixel = Math.floor(from); pixel < to - 1e-9; pixel++) {
      const share = (Math.min(to, pixel + 1) - Math.max(from, pixel)) / (to - from);
      if (share > 1e-9) shares.push([pixel, share]);
    }
    return shares;
  });
}

/* The box of a plane as rows x columns cells; a cell is the mean of what it covers. */
function resampled(plane, width, box, rows, columns) {
  const down = coverage(box.top, box.height, rows), across = coverage(box.left, box.width, columns);
  const out = new Float64Array(rows * columns);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      let sum = 0;
      for (const [row, share] of down[y]) for (const [column, part] of across[x]) sum += share * part * plane[row * width + column];
      out[y * columns + x] = sum;
    }
  }
  return out;
}

/* The place of the mean of all brightness, in cells. */
function centreOfMass(plane, rows, columns) {
  let mass = 0, down = 0, right = 0;
  for (let i = 0; i < rows * columns; i++) {
    mass += plane[i];
    down += plane[i] * (Math.floor(i / columns) + 0.5);
    right += plane[i] * ((i % columns) + 0.5);
  }
  return mass ? [down / mass, right / mass] : [rows / 2, columns / 2];
}

/*
 * Planes of a picture framed for the network, as float32 of bytes divided by 255, [channels][rows][columns].
 *
 * "mass" does what MNIST's makers did: the ink scaled into 20 x 20 of 28 x 28, its centre of mass in the middle. "fill"
 * scales it to the whole frame. "whole" takes the picture as it is.
 */
function framed(planes, width, height, [channels, rows, columns], framing) {
  const box = framing === "whole" ? { left: 0, top: 0, width, height } : inkBox(planes, width, height);
  const out = new Float32Array(channels * rows * columns);
  if (!box) return out;
  let [tall, wide] = [rows, columns];
  if (framing !== "whole") {
    const room = framing === "mass" ? 20 / 28 : 1;
    const scale = Math.min((rows * room) / box.height, (columns * room) / box.width);
    [tall, wide] = [Math.max(1, Math.round(box.height * scale)), Math.max(1, Math.round(box.width * scale))];
  }
  const small = planes.map((plane) => resampled(plane, width, box, tall, wide));
  const middle = framing === "mass" ? centreOfMass(small[0], tall, wide) : [tall / 2, wide / 2];
  const put = (size, room, centre) => Math.min(Math.max(Math.round(room / 2 - centre), 0), room - size);
  const top = put(tall, rows, middle[0]), left = put(wide, columns, middle[1]);
  small.forEach((plane, k) => {
    for (let y = 0; y < tall; y++) {
      for (let x = 0; x < wide; x++) {
        out[(k * rows + top + y) * columns + left + x] = Math.round(plane[y * wide + x] * 255) / 255;
      }
    }
  });
  return out;
}
