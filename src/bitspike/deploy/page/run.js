"use strict";
/*
 * A run of a whole network on one input, its scores, and the check against test vectors. It needs layer.js.
 */

/* With glances an image is shown at these places, one after the other: rows down, columns to the right. */
const PLACES = [[0, 0], [-1, 0], [0, -1], [0, 1], [1, 0], [-1, -1], [-1, 1], [1, -1], [1, 1]];

/* An image moved by whole pixels; zeros move in. */
function moved(values, [channels, rows, columns], [down, right]) {
  const out = new Float32Array(values.length);
  for (let k = 0; k < channels; k++) {
    for (let y = Math.max(0, down); y < Math.min(rows, rows + down); y++) {
      for (let x = Math.max(0, right); x < Math.min(columns, columns + right); x++) {
        out[(k * rows + y) * columns + x] = values[(k * rows + y - down) * columns + x - right];
      }
    }
  }
  return out;
}

/*
 * A run of a network on one input, step by step.
 *
 * `input.values` holds one static input, shown for `input.steps`, or with `input.sequence` one input for each step.
 * `spikes` has an array for each layer, [steps][neurons]; `membrane` is the last layer's, [steps][classes].
 */
class Run {
  constructor(network, input) {
    this.network = network;
    this.input = input;
    this.steps = input.steps;
    this.each = input.sequence ? input.steps : input.steps / network.glances;
    if (!Number.isInteger(this.each)) throw new RangeError(`${input.steps} steps do not divide into ${network.glances} glances`);
    this.layers = network.layers.map((model) => new Layer(model));
    this.spikes = this.layers.map((layer) => new Uint8Array(this.steps * layer.neurons));
    this.membrane = new Float32Array(this.steps * this.layers.at(-1).neurons);
    this.t = 0;
  }

  get done() {
    return this.t === this.steps;
  }

  /* Compute the next step of all layers. */
  step() {
    const { layers, input, t } = this, size = layers[0].inputs;
    if (!input.sequence && t % this.each === 0) this._show(t / this.each);
    let x = input.sequence ? input.values.subarray(t * size, (t + 1) * size) : null;
    layers.forEach((layer, i) => {
      layer.fire(x ? layer.current(layer.delayed(x)) : this.constant);
      x = layer.z;
      this.spikes[i].set(x, t * layer.neurons);
    });
    this.membrane.set(layers.at(-1).u, t * layers.at(-1).neurons);
    this.t++;
  }

  /* Begin a glance: all layers at rest, and the current of the first, which stays the same. */
  _show(glance) {
    const { network, input, layers } = this;
    for (const layer of layers) layer.rest();
    const shown = network.glances > 1 ? moved(input.values, network.inputShape, PLACES[glance]) : input.values;
    this.constant = layers[0].current(shown);
  }

  /* One score for each class after `steps` steps: the share of steps with a spike, or (1 - beta) * mean membrane. */
  scores(steps = this.t) {
    return scoresOf(this.network, this.spikes.at(-1), this.membrane, this.layers.at(-1).beta, steps);
  }
}

function scoresOf(network, spikes, membrane, beta, steps) {
  const values = network.readout === "membrane" ? membrane : spikes, classes = beta.length;
  return Float32Array.from(beta, (decay, k) => {
    let sum = 0;
    for (let t = 0; t < steps; t++) sum += values[t * classes + k];
    return network.readout === "membrane" ? fl(fl(sum / steps) * fl(1 - decay)) : fl(sum / steps);
  });
}

/* Run to the end at once; return what the page needs, as plain arrays. */
function runAll(network, input) {
  const run = new Run(network, input);
  while (!run.done) run.step();
  return resultOf(run);
}

function resultOf(run) {
  return { steps: run.steps, each: run.each, spikes: run.spikes, membrane: run.membrane, scores: run.scores() };
}

/* Numbers of 32 bits from a seed, always the same: inputs of test vectors need no room in the page. */
function drawn(count, seed = 1) {
  let s = seed;
  return Uint32Array.from({ length: count }, () => (s = (Math.imul(1664525, s) + 1013904223) >>> 0));
}

/* The input of a test vector: spikes or pixels, of which `density` of 256 are not 0. */
function drawnInput({ seed, density, kind }, count) {
  const value = (s) => (kind === "spikes" ? 1 : (s >>> 24) / 255);
  return Float32Array.from(drawn(count, seed), (s) => (((s >>> 16) & 255) < density ? value(s) : 0));
}

/* Count the steps of a test vector in which all spikes of all layers, and the last layer's membranes, are as expected. */
function checkVector(network, vector) {
  const { steps } = vector, sequence = vector.kind === "spikes";
  const values = drawnInput(vector, product(network.inputShape) * (sequence ? steps : 1));
  const result = runAll(network, { values, steps, sequence });
  const expected = vector.spikes.map((bits, i) => toBits(bits, result.spikes[i].length));
  const membrane = toFloats(vector.membrane);
  let equal = 0;
  for (let t = 0; t < steps; t++) {
    const same = (a, b) => {
      const size = a.length / steps;
      for (let i = t * size; i < (t + 1) * size; i++) if (a[i] !== b[i]) return false;
      return true;
    };
    if (same(result.membrane, membrane) && expected.every((bits, i) => same(result.spikes[i], bits))) equal++;
  }
  return { equal, steps };
}

/* In a worker: the first message is the network, each later one an input. */
if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope) {
  let network = null;
  self.onmessage = ({ data }) => {
    if (data.network) network = data.network;
    else if (data.vector) self.postMessage({ id: data.id, result: checkVector(network, data.vector) });
    else self.postMessage({ id: data.id, result: runAll(network, data.input) });
  };
}
