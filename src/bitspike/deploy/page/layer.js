"use strict";
/*
 * One layer of a network: the JavaScript twin of bitspike's inference.
 *
 * One order of operations gives the same bits everywhere: sums of +x and -x in doubles, in the order of the inputs, then
 * one rounding to float32 after each operation of a neuron. `fl` is that rounding. Nothing here knows of a page: this
 * file and run.js also run in a worker and in Node.
 */

const fl = Math.fround;

const product = (sizes) => sizes.reduce((all, size) => all * size, 1);

function toBytes(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/* Float32 numbers, least significant byte first. */
function toFloats(base64) {
  const bytes = toBytes(base64), view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

/* Bits, the lowest of each byte first, as `zero` and `one`. */
function toBits(base64, count, zero = 0, one = 1) {
  const bytes = toBytes(base64), bits = new Int8Array(count);
  for (let i = 0; i < count; i++) bits[i] = (bytes[i >> 3] >> (i & 7)) & 1 ? one : zero;
  return bits;
}

/* weights[o][i] as weights[i][o]: what one spike reaches lies together. */
function transposed(weights, rows, columns) {
  const turned = new Int8Array(weights.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) turned[c * rows + r] = weights[r * columns + c];
  return turned;
}

/* One layer with its state: delay -> gain -> weights of -1/+1 -> pools -> bias -> scale, offset -> neurons. */
class Layer {
  constructor(model) {
    const [channels, rows, columns] = model.output;
    const inputs = product(model.input), outputs = channels * rows * columns;
    this.model = model;
    this.neurons = outputs;
    this.inputs = inputs;
    const fanIn = model.kind === "dense" ? inputs : model.input[0] * model.kernel ** 2;
    this.weights = transposed(toBits(model.weight, channels * fanIn, -1, 1), channels, fanIn);
    this.recurrent = model.recurrent && transposed(toBits(model.recurrent, outputs ** 2, -1, 1), outputs, outputs);
    const floats = (name) => model[name] && toFloats(model[name]);
    [this.bias, this.scale, this.offset] = ["bias", "scale", "offset"].map(floats);
    const each = (values) => (values.length === 1 ? new Float32Array(outputs).fill(values[0]) : values);
    this.beta = each(floats("beta"));
    this.theta = model.theta && each(floats("theta"));
    this.delays = this._delays();
    this.gains = model.gains && toBytes(model.gains);
    this.longest = this.delays ? this.delays.reduce((a, b) => Math.max(a, b), 0) : 0;
    const side = (size) => Math.floor((size + 2 * model.padding - model.kernel) / model.stride) + 1;
    this.map = model.kind === "dense" ? [1, 1] : [side(model.input[1]), side(model.input[2])];
    this.sums = new Float64Array(this.map[0] * this.map[1] * channels);
    this.rest();
  }

  /* One delay for each input; a convolution has one for each channel. */
  _delays() {
    if (!this.model.delays) return null;
    const bytes = toBytes(this.model.delays), size = (2 * this.inputs) / bytes.length;
    return Uint16Array.from({ length: this.inputs }, (_, j) => {
      const k = 2 * Math.floor(j / size);
      return bytes[k] + 256 * bytes[k + 1];
    });
  }

  /* Start again: no membrane, no spikes, no past. */
  rest() {
    this.u = new Float32Array(this.neurons);
    this.z = new Uint8Array(this.neurons);
    this.a = this.model.adaptation && new Float32Array(this.neurons);
    this.threshold = this.theta && Float32Array.from(this.theta);
    this.past = this.delays && new Float32Array((this.longest + 1) * this.inputs);
    this.t = 0;
  }

  /* x[t - d] for every input, 0 before the start. */
  delayed(x) {
    if (!this.delays) return x;
    const { inputs, past, longest } = this, slots = longest + 1, arrived = new Float32Array(inputs);
    past.set(x, (this.t % slots) * inputs);
    for (let j = 0; j < inputs; j++) {
      const then = this.t - this.delays[j];
      if (then >= 0) arrived[j] = past[(then % slots) * inputs + j];
    }
    this.t++;
    return arrived;
  }

  /* The current that an input gives: gains, sums, pools, one division, bias, scale and offset. */
  current(x) {
    if (this.gains) x = this._gained(x);
    this.sums.fill(0);
    if (this.model.kind === "dense") this._addDense(x);
    else this._addConvolution(x);
    const channels = this.model.output[0];
    let sums = this.sums, [rows, columns] = this.map;
    for (const pool of this.model.pools) [sums, rows, columns] = pooled(sums, rows, columns, channels, pool);
    const places = rows * columns, current = new Float32Array(channels * places), { divisor } = this.model;
    for (let place = 0; place < places; place++) {
      for (let k = 0; k < channels; k++) {
        let c = fl(sums[place * channels + k] / divisor);
        if (this.bias) c = fl(c + this.bias[k]);
        if (this.scale) c = fl(fl(c * this.scale[k]) + this.offset[k]);
        current[k * places + place] = c;
      }
    }
    return current;
  }

  /* Each input times its gain; a convolution has one for each channel. */
  _gained(x) {
    const { gains } = this, size = x.length / gains.length;
    return Float32Array.from(x, (value, j) => fl(value * gains[Math.floor(j / size)]));
  }

  /* Only inputs that are not 0 cost anything. They come in ascending order, and so do the terms of each sum. */
  _addDense(x) {
    const { sums, weights } = this, outputs = sums.length;
    for (let i = 0; i < x.length; i++) {
      const value = x[i];
      if (value === 0) continue;
      for (let o = 0, w = i * outputs; o < outputs; o++, w++) sums[o] += weights[w] * value;
    }
  }

  _addConvolution(x) {
    const { sums, weights, map: [mapRows, mapColumns] } = this;
    const { kernel, stride, padding, input: [, rows, columns], output: [filters] } = this.model;
    for (let i = 0; i < x.length; i++) {
      const value = x[i];
      if (value === 0) continue;
      const column = i % columns, row = ((i - column) / columns) % rows, channel = (i - column - row * columns) / (rows * columns);
      for (let ky = 0; ky < kernel; ky++) {
        const y = (row + padding - ky) / stride;
        if (y < 0 || y >= mapRows || y !== Math.floor(y)) continue;
        for (let kx = 0; kx < kernel; kx++) {
          const x0 = (column + padding - kx) / stride;
          if (x0 < 0 || x0 >= mapColumns || x0 !== Math.floor(x0)) continue;
          let w = ((channel * kernel + ky) * kernel + kx) * filters, s = (y * mapColumns + x0) * filters;
          for (const end = s + filters; s < end; s++, w++) sums[s] += weights[w] * value;
        }
      }
    }
  }

  /* One step of all neurons with the current `c`; their spikes are in `z`, their membranes in `u`. */
  fire(c) {
    const { u, z, a, beta, theta, threshold, neurons, model } = this;
    if (!theta) {
      for (let i = 0; i < neurons; i++) u[i] = fl(fl(beta[i] * u[i]) + c[i]);
      return;
    }
    const feedback = this.recurrent && this._feedback();
    for (let i = 0; i < neurons; i++) {
      let drive = fl(fl(beta[i] * u[i]) + c[i]);
      if (feedback) drive = fl(drive + fl(model.recurrentScale * feedback[i]));
      u[i] = fl(drive - fl(threshold[i] * z[i]));
      if (a) {
        const { rho, rest, strength } = model.adaptation;
        a[i] = fl(fl(rho * a[i]) + fl(rest * z[i]));
        threshold[i] = fl(theta[i] + fl(strength * a[i]));
      }
      z[i] = u[i] >= threshold[i] ? 1 : 0;
    }
  }

  /* The sum of +1 and -1 that the layer's own spikes of the step before give. */
  _feedback() {
    const { neurons, recurrent, z } = this, sums = new Int32Array(neurons);
    for (let j = 0; j < neurons; j++) {
      if (z[j]) for (let i = 0, w = j * neurons; i < neurons; i++, w++) sums[i] += recurrent[w];
    }
    return sums;
  }
}

/* Sums or largest values of squares, on sums[row][column][channel]; returns these, rows and columns. */
function pooled(sums, rows, columns, channels, { kind, size, stride }) {
  const down = Math.floor((rows - size) / stride) + 1, across = Math.floor((columns - size) / stride) + 1;
  const out = new Float64Array(down * across * channels);
  for (let y = 0; y < down; y++) {
    for (let x = 0; x < across; x++) {
      for (let k = 0; k < channels; k++) {
        let value = kind === "max" ? -Infinity : 0;
        for (let dy = 0; dy < size; dy++) {
          for (let dx = 0; dx < size; dx++) {
            const s = sums[((y * stride + dy) * columns + x * stride + dx) * channels + k];
            value = kind === "max" ? Math.max(value, s) : value + s;
          }
        }
        out[(y * across + x) * channels + k] = value;
      }
    }
  }
  return [out, down, across];
}
