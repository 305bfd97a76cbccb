/*
 * Events from a text file, counted in the bins of the network: what `bitspike.data.binning` does.
 *
 * A line is `t,channel`; of a camera `t,x,y` or `t,x,y,p`. Names in a first line may come in any order. Lines that begin
 * with # are left out.
 */
const UNITS = { us: 1, ms: 1000, s: 1e6 }; // in microseconds
const UNIT_NAMES = { us: "µs", ms: "ms", s: "s" };
const POLARITIES = { 0: 0, 1: 1, "-1": 0, false: 0, true: 1 };

/* The cells of a line, without quotes. Commas, semicolons and tabs part cells, which may be empty; else spaces do. */
function cellsOf(line) {
  const parts = /[,;\t]/.test(line) ? line.split(/[,;\t]/) : line.split(/ +/);
  return parts.map((cell) => cell.trim().replace(/^(["'])(.*)\1$/, "$2").trim());
}

const isNumber = (cell) => cell !== "" && cell !== undefined && Number.isFinite(Number(cell));

/* The names of columns as the page knows them, and the unit that the name of the time says: `t_ms` is in ms. */
function columnsOf(names, camera) {
  let unit = null;
  const columns = names.map((given) => {
    const name = given.toLowerCase(), time = /^(?:t|ts|time|timestamp)(?:[ _]?[([]?(us|µs|ms|s)[)\]]?)?$/.exec(name);
    if (time) unit = time[1]?.replace("µ", "u") ?? unit;
    if (time) return "t";
    if (/^(p|pol|polarity)$/.test(name)) return "p";
    return !camera && /^(x|units?|neuron)$/.test(name) ? "channel" : name;
  });
  return { columns, unit };
}

/* The lines of a file as events {t, channel} or {t, x, y, p}, and the unit of time if the first line says it. */
function parseEvents(text, camera) {
  const lines = text.split(/\r?\n/).map((line, i) => ({ line: line.trim(), number: i + 1 }));
  const rows = lines.filter(({ line }) => line && !line.startsWith("#")).map((row) => ({ ...row, cells: cellsOf(row.line) }));
  let named = { columns: camera ? ["t", "x", "y", "p"] : ["t", "channel"], unit: null, supposed: true };
  if (rows.length && !rows[0].cells.some(isNumber)) named = columnsOf(rows.shift().cells, camera);
  const needed = camera ? ["t", "x", "y"] : ["t", "channel"], missing = needed.filter((name) => !named.columns.includes(name));
  if (missing.length) throw new Error(`the first line must name ${needed.join(", ")}, but has no ${missing.join(", ")}`);
  const places = Object.fromEntries([...needed, "p"].map((name) => [name, named.columns.indexOf(name)]));
  return { events: rows.map((row) => eventOf(row, places, needed)), ...named };
}

function eventOf({ cells, line, number }, places, needed) {
  if (needed.some((name) => !isNumber(cells[places[name]]))) {
    throw new Error(`line ${number} must have numbers for ${needed.join(", ")}, but is “${line.slice(0, 40)}”`);
  }
  const event = Object.fromEntries(needed.map((name) => [name, Number(cells[places[name]])])), given = cells[places.p];
  if (given === undefined) return event;
  const p = POLARITIES[isNumber(given) ? Number(given) : given.toLowerCase()];
  if (p === undefined) throw new Error(`line ${number}: p must be 0 or 1 (or -1, True, False), but is “${given.slice(0, 20)}”`);
  return { ...event, p };
}

/* The unit in which events take the most steps of the network: what a file is in that does not say it. */
function likelyUnit(events, network) {
  const used = (unit) => binEvents(events, network, UNITS[unit]).used;
  return ["ms", "us", "s"].reduce((best, unit) => (used(unit) > used(best) ? unit : best));
}

/* Events of a text file in bins. `unit` is us, ms or s, null to find it; the name of the column comes first. */
function readEvents(text, network, unit) {
  const { events, unit: named, columns, supposed } = parseEvents(text, network.inputShape.length === 3);
  const about = { named: named !== null, supposed: supposed ? columns.join(",") : "" };
  if (!network.input.binUs) return { ...binEvents(events, network, 1), ...about, unit: null };
  const taken = named ?? unit ?? likelyUnit(events, network);
  return { ...binEvents(events, network, UNITS[taken]), ...about, unit: taken };
}

/* What looks wrong about events in bins; an empty text if nothing does. */
function doubtsOf({ counted, lost, used, unit, supposed }, network) {
  const questions = [unit && `are the times in ${UNIT_NAMES[unit]}?`, supposed && `are the columns ${supposed}?`].filter(Boolean);
  const steps = stepsOf(network), cure = questions.length ? `: ${questions.join(" ")}` : "";
  if (lost > 9 * counted) return `Nearly all events are left out${cure}`;
  if (counted > 9 && used <= 2 && steps > 9) return `All events fall into ${used === 1 ? "one step" : "two steps"} of ${steps}${cure}`;
  return "";
}

/* Events as counts [steps][inputs]; also how many were counted and left out, and how many steps they use. */
function binEvents(events, network, microseconds) {
  const { input, inputShape } = network, steps = stepsOf(network), size = product(inputShape);
  const bin = input.binUs ?? 1, values = new Float32Array(steps * size), clip = input.clip ?? 255;
  const times = events.map(({ t }) => Math.round(t * microseconds)); // whole microseconds, as in the library
  const origin = input.origin === "first" ? times.reduce((a, b) => Math.min(a, b), Infinity) : 0;
  const end = Math.min(steps * bin, input.durationUs ?? Infinity), used = new Set();
  let counted = 0;
  events.forEach((event, i) => {
    const t = times[i] - origin, place = placeOf(event, network);
    if (t < 0 || t >= end || place < 0) return;
    values[Math.floor(t / bin) * size + place]++;
    used.add(Math.floor(t / bin));
    counted++;
  });
  for (let i = 0; i < values.length; i++) values[i] = Math.min(values[i], clip);
  return { values, counted, lost: events.length - counted, used: used.size };
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
