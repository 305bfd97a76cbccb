/*
 * The page: it reads the network, checks it, and joins input, run, views and playback.
 */
const byId = (id) => document.getElementById(id);
const formatted = (number) => Math.round(number).toLocaleString("en");
const network = JSON.parse(byId("network").textContent);

/* What a layer is, in words: [its neurons, what comes before them]. */
function describe(layer) {
  const [channels, rows, columns] = layer.output;
  const neurons = rows * columns > 1 ? `${channels} maps of ${rows} × ${columns} neurons` : channels === 1 ? "1 neuron" : `${formatted(channels)} neurons`;
  const parts = [layer.kind === "conv" ? `convolution ${layer.kernel} × ${layer.kernel}` : `${formatted(product(layer.input))} inputs each`];
  for (const { kind, size } of layer.pools) parts.push(`${kind} pool ${size} × ${size}`);
  if (layer.scale) parts.push("batch norm");
  if (layer.delays) parts.push("delays");
  if (layer.gains) parts.push("gains");
  if (layer.recurrent) parts.push("recurrent");
  if (layer.adaptation) parts.push("adaptive thresholds");
  if (!layer.theta) parts.push("never fires");
  return [neurons, parts.join(", ")];
}

/* One card for each layer: its spikes as maps or as a raster, how many there are, and how many in each step. */
class LayerView {
  constructor(layer, index, sequence) {
    const card = byId("layer-card").content.cloneNode(true).firstElementChild, [neurons, what] = describe(layer);
    this.index = index;
    this.neurons = product(layer.output);
    this.leaky = !layer.theta;
    this.last = index === network.layers.length - 1;
    this.raster = layer.output[1] * layer.output[2] === 1 && (sequence || this.last);
    this.names = this.last && this.neurons <= 40 ? network.classes : null;
    card.querySelector("h2").textContent = `Layer ${index + 1}: ${neurons}`;
    card.querySelector(".what").textContent = what;
    this.numbers = card.querySelector(".numbers");
    this.rate = card.querySelector(".rate");
    this.canvas = card.querySelector(".spikes");
    this.canvas.setAttribute("aria-label", this.leaky ? "membranes over time" : `spikes of layer ${index + 1}`);
    byId("layers").append(card);
    if (this.leaky || this.raster) {
      this.canvas.classList.add("raster");
      card.classList.toggle("leaky", this.leaky);
      this.canvas.style.height = `${this.leaky ? 200 : rasterHeight(this.neurons)}px`;
    } else {
      this.maps = new MapView(this.canvas, layer);
    }
    this.rate.hidden = this.leaky;
  }

  show(result) {
    this.result = result;
    const spikes = result.spikes[this.index];
    this.rates = Array.from({ length: result.steps }, (_, t) => {
      let sum = 0;
      for (let i = t * this.neurons; i < (t + 1) * this.neurons; i++) sum += spikes[i];
      return sum;
    });
    this.sums = this.rates.reduce((sums, rate) => [...sums, sums.at(-1) + rate], [0]);
  }

  draw(t, leader) {
    const { result, neurons } = this, spikes = result.spikes[this.index];
    if (this.leaky) {
      this.numbers.textContent = "membranes over time; the class that leads is drawn thick";
      return drawMembranes(this.canvas, result.membrane, result.steps, neurons, t, leader);
    }
    this.numbers.textContent = `${formatted(this.sums[t])} spikes so far, ${formatted(t ? this.rates[t - 1] : 0)} in this step`;
    drawRate(this.rate, this.rates, t);
    if (this.raster && this.names) drawMarks(this.canvas, spikes, result.steps, this.names, t);
    else if (this.raster) drawRaster(this.canvas, spikes, result.steps, neurons, t);
    else this.maps.drawSpikes(spikes, t, Math.floor(Math.max(0, t - 1) / result.each) * result.each);
  }
}

/* How many spikes each layer has so far, and in the whole run. */
function showSpikes(layers, t) {
  const firing = layers.filter(({ leaky }) => !leaky), sum = (step) => firing.reduce((all, { sums }) => all + sums.at(step), 0);
  const rows = firing.map(({ index, sums }) => [`layer ${index + 1}`, sums[t], sums.at(-1)]);
  byId("spike-counts").replaceChildren(...[...rows, ["all layers", sum(t), sum(-1)]].map(([name, ...counts]) => {
    const row = document.createElement("tr"), head = row.appendChild(document.createElement("th"));
    head.scope = "row";
    head.textContent = name;
    for (const count of counts) row.appendChild(document.createElement("td")).textContent = formatted(count);
    return row;
  }));
}

function start() {
  readColours();
  showFacts(network);
  const sequence = network.vector.kind === "spikes", runner = new Runner(network, byId("engine").textContent);
  document.querySelector("main").classList.toggle("sequence", sequence);
  const layers = network.layers.map((layer, i) => new LayerView(layer, i, sequence)), answer = new AnswerView(network);
  const betas = toFloats(network.layers.at(-1).beta), rest = network.classes.map((_, k) => fl(1 - betas[betas.length > 1 ? k : 0]));
  let result = null, input = null;

  const draw = (t) => {
    if (!result) return;
    answer.draw(t, !playback.playing || t === result.steps);
    const leader = answer.leader(t);
    for (const layer of layers) layer.draw(t, leader);
    showSpikes(layers, t);
    const glance = Math.min(Math.floor(Math.max(0, t - 1) / result.each), network.glances - 1);
    byId("at").textContent = `${t}/${result.steps}` + (network.glances > 1 ? ` · glance ${glance + 1}` : "");
    byId("time").setAttribute("aria-valuetext", `step ${t} of ${result.steps}`);
    if (sequence) input.draw(t);
    else if (network.glances > 1) input.showSeen(moved(input.values, input.shape, PLACES[glance]));
  };
  const playback = new Playback(draw);
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const changed = async (given, live) => {
    const empty = given.values.every((value) => value === 0), latest = await runner.run(given);
    if (!latest) return;
    result = { ...latest, rest };
    answer.whyEmpty = empty ? given.whyEmpty : "";
    answer.note = given.note ?? "";
    answer.show(result);
    for (const layer of layers) layer.show(result);
    playback.steps = result.steps;
    const calm = live || empty || still.matches;
    playback.pause();
    playback.go(calm ? result.steps : 0);
    if (!calm) playback.play();
    document.body.dataset.runs = Number(document.body.dataset.runs ?? 0) + 1;
  };
  input = sequence ? new SequenceInput(network, changed) : new ImageInput(network, changed);
  byId(input.digit ? "digits" : sequence ? "patterns" : "samples").children[3].click();

  runner.check().then(({ equal, steps }) => {
    byId("check").textContent = equal === steps
      ? `✓ checked: ${equal} of ${steps} steps equal to bitspike, every spike of every layer`
      : `✗ checked: only ${equal} of ${steps} steps are equal to bitspike; do not trust this page in this browser`;
    byId("check").className = equal === steps ? "good" : "bad";
  });
  const again = () => {
    readColours();
    draw(playback.t);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("resize", () => draw(playback.t));
}

start();
