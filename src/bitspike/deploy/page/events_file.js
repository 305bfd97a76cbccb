/*
 * Events from a text file, counted in the bins of the network: what `bitspike.data.binning` does.
 *
 * A line is `t,channel`; of a camera `t,x,y` or `t,x,y,p`. Names in a first line may come in any order. Lines that begin
 * with # are left out.
 */
function readEvents(text, network, microseconds) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
  const camera = network.inputShape.length === 3;
  let columns = camera ? ["t", "x", "y", "p"] : ["t", "channel"];
  const cells = (line) => line.split(/[,;\t ]+/);
  if (lines.length && /[a-z]/i.test(lines[0].replace(/e[+-]?\d/gi, ""))) {
    columns = cells(lines.shift()).map((name) => name.toLowerCase().replace(/^(unit|units|neuron)$/, "channel"));
  }
  const needed = camera ? ["t", "x", "y"] : ["t", "channel"];
  const missing = needed.filter((name) => !columns.includes(name));
  if (missing.length) throw new Error(`the first line must name ${needed.join(", ")}, but has no ${missing.join(", ")}`);
  const events = lines.map((line, i) => {
    const values = cells(line).map(Number), event = Object.fromEntries(columns.map((name, k) => [name, values[k]]));
    if (needed.some((name) => !Number.isFinite(event[name]))) {
      throw new Error(`line ${i + 1} of the events must be ${needed.join(",")}, but is “${line.slice(0, 40)}”`);
    }
    return event;
  });
  return binEvents(events, network, microseconds);
}

/* Events as counts [steps][inputs]; also how many were counted and how many left out. */
function binEvents(events, network, microseconds) {
  const { input, inputShape } = network, steps = stepsOf(network), size = product(inputShape);
  const bin = input.binUs ?? 1, values = new Float32Array(steps * size), clip = input.clip ?? 255;
  const times = events.map(({ t }) => Math.round(t * microseconds)); // whole microseconds, as in the library
  const origin = input.origin === "first" ? times.reduce((a, b) => Math.min(a, b), Infinity) : 0;
  const end = Math.min(steps * bin, input.durationUs ?? Infinity);
  let counted = 0;
  events.forEach((event, i) => {
    const t = times[i] - origin, place = placeOf(event, network);
    if (t < 0 || t >= end || place < 0) return;
    values[Math.floor(t / bin) * size + place]++;
    counted++;
  });
  for (let i = 0; i < values.length; i++) values[i] = Math.min(values[i], clip);
  return { values, counted, lost: events.length - counted };
}

/* An event's place in one step's input; -1 if it has none. */
function placeOf({ channel, x, y, p = 0 }, { input, inputShape }) {
  const cell = (value) => Math.floor(value / input.downsample), inside = (k, size) => k >= 0 && k < size;
  if (inputShape.length < 3) {
    const units = inputShape.at(-1), k = cell(channel), line = inputShape.length === 2 && input.polarity ? p : 0;
    return inside(k, units) && inside(line, inputShape.length === 2 ? inputShape[0] : 1) ? line * units + k : -1;
  }
  const [channels, rows, columns] = inputShape, k = channels === 2 && input.polarity ? p : 0;
  const fits = inside(k, channels) && inside(cell(y), rows) && inside(cell(x), columns);
  return fits ? (k * rows + cell(y)) * columns + cell(x) : -1;
}

/* The steps of a network's sequences. */
const stepsOf = (network) => network.input.steps ?? network.steps;
