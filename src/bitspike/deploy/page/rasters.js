/*
 * Time from left to right: spikes as a raster, spikes a step as a curve, membranes as lines.
 */

/* The colours of the page, read again when light and dark change. */
const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "soft", "line", "cell", "spike", "bar", "card"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

/* The red, green and blue of a colour of the page. */
function channelsOf(colour) {
  const digits = colour.slice(1);
  return [0, 2, 4].map((k) => parseInt(digits.slice(k, k + 2), 16));
}

/* One pixel for each neuron and step: what came before step `t` in ink, its last column as spikes, the rest faint. */
function drawRaster(canvas, spikes, steps, neurons, t) {
  [canvas.width, canvas.height] = [steps, neurons];
  const image = new ImageData(steps, neurons), ink = channelsOf(colours.ink), hot = channelsOf(colours.spike);
  for (let step = 0; step < steps; step++) {
    const now = step === t - 1, colour = now ? hot : ink;
    for (let i = 0; i < neurons; i++) {
      const count = spikes[step * neurons + i];
      if (!count && !now) continue;
      const at = 4 * (i * steps + step);
      image.data.set(colour, at);
      image.data[at + 3] = !count ? 45 : now ? 255 : step < t ? 150 + Math.min(105, 40 * (count - 1)) : 38;
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/* A raster of few neurons: one row for each with its name, spikes as marks. */
function drawMarks(canvas, spikes, steps, names, t) {
  const [context, width, height] = prepared(canvas), tall = height / names.length;
  context.font = `${Math.min(13, Math.round(tall * 0.8))}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  const left = Math.min(width / 3, Math.max(...names.map((name) => context.measureText(name).width)) + 8), wide = (width - left) / steps;
  names.forEach((name, k) => {
    const top = k * tall;
    context.fillStyle = colours.soft;
    context.fillText(name, 0, top + tall / 2, left - 6);
    context.fillStyle = colours.cell;
    context.fillRect(left, top + 1, width - left, tall - 2);
    for (let step = 0; step < steps; step++) {
      if (!spikes[step * names.length + k]) continue;
      context.fillStyle = step === t - 1 ? colours.spike : colours.ink;
      context.globalAlpha = step === t - 1 ? 1 : step < t ? 0.75 : 0.15;
      context.fillRect(left + step * wide, top + 1, Math.max(1.5, wide * 0.8), tall - 2);
    }
    context.globalAlpha = 1;
  });
  context.fillStyle = colours.spike;
  context.globalAlpha = 0.2;
  if (t > 0) context.fillRect(left + (t - 1) * wide, 0, Math.max(1.5, wide), height);
  context.globalAlpha = 1;
}

/* The height of a raster on the page: rows large enough to see, and not too large. */
const rasterHeight = (neurons) => Math.min(Math.max(neurons * Math.min(18, Math.max(1, Math.round(260 / neurons))), 40), 300);

/* A canvas as large as it is shown, in device pixels; returns its context with the unit of a CSS pixel, and the size. */
function prepared(canvas) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

/* Numbers of a step as columns, those of the future faint. */
function drawRate(canvas, rates, t) {
  const [context, width, height] = prepared(canvas), most = Math.max(1, ...rates), wide = width / rates.length;
  rates.forEach((rate, step) => {
    context.fillStyle = step === t - 1 ? colours.spike : colours.soft;
    context.globalAlpha = step === t - 1 ? 1 : step < t ? 0.6 : 0.18;
    const tall = (rate / most) * (height - 2);
    context.fillRect(step * wide, height - tall - 1, Math.max(1, wide - (wide > 3 ? 1 : 0)), tall + 1);
  });
  context.globalAlpha = 1;
}

/* Membranes [steps][neurons] as lines; `leader` is drawn thick, and the future faint. */
function drawMembranes(canvas, membrane, steps, neurons, t, leader) {
  const [context, width, height] = prepared(canvas);
  let low = 0, high = 0;
  for (const value of membrane) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const x = (step) => (steps > 1 ? (step / (steps - 1)) * width : 0), y = (u) => 4 + ((high - u) / (high - low || 1)) * (height - 8);
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  context.strokeRect(0, Math.round(y(0)) + 0.5, width, 0);
  const line = (k, from, to) => {
    context.beginPath();
    for (let step = from; step < to; step++) context.lineTo(x(step), y(membrane[step * neurons + k]));
    context.stroke();
  };
  for (let k = 0; k <= neurons; k++) {
    const own = k === neurons; // the leader comes last, over the others
    if (own && leader < 0) break;
    context.strokeStyle = own ? colours.spike : colours.soft;
    context.lineWidth = own ? 2.5 : 1;
    context.globalAlpha = own ? 0.25 : 0.1;
    line(own ? leader : k, Math.max(0, t - 1), steps);
    context.globalAlpha = own ? 1 : 0.5;
    line(own ? leader : k, 0, t);
  }
  context.globalAlpha = 1;
  context.fillStyle = colours.spike;
  if (t > 0 && leader >= 0) context.fillRect(x(t - 1) - 3, y(membrane[(t - 1) * neurons + leader]) - 3, 6, 6);
}
