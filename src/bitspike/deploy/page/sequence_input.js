/*
 * The input of networks on sequences: a raster to paint (channels down, time to the right), a file of events, or a
 * pattern. The input of a camera is shown as a map; it is not painted.
 */
class SequenceInput {
  constructor(network, changed) {
    this.network = network;
    this.changed = changed;
    this.steps = stepsOf(network);
    this.channels = product(network.inputShape);
    this.camera = network.inputShape.length === 3;
    this.canvas = byId("events");
    this.values = new Float32Array(this.steps * this.channels);
    byId("sequence-input").hidden = false;
    const { binUs, downsample } = network.input, last = this.channels * downsample - 1;
    byId("sequence-hint").textContent = this.camera
      ? "Take a pattern, or drop a CSV of events: t,x,y,p."
      : `Paint events, take a pattern, or drop a CSV of events: t,channel, with channels 0 to ${last}.`;
    byId("events-from").textContent = "0";
    byId("events-to").textContent = binUs ? `${formatted((this.steps * binUs) / 1000)} ms` : `${this.steps} steps`;
    byId("rubber-label").hidden = this.camera;
    byId("unit-label").hidden = !binUs; // without bins, time is in steps
    this.canvas.className = this.camera ? "map" : "";
    this.canvas.parentElement.querySelector("figcaption").hidden = this.camera;
    if (this.camera) this.map = new MapView(this.canvas, { output: network.inputShape });
    else [this.canvas.width, this.canvas.height] = [this.steps, this.channels];
    this._listen();
    this._makePatterns();
  }

  set(values, text, live = false) {
    this.values = values;
    byId("events-text").textContent = text;
    this.draw(this.shown ?? 0);
    this.changed({ values, steps: this.steps, sequence: true }, live);
  }

  clear() {
    this.set(new Float32Array(this.steps * this.channels), "no events");
  }

  /* Draw the events; those of the step before `t` in the colour of spikes. */
  draw(t) {
    this.shown = t;
    if (this.camera) return this.map.drawSpikes(this.values, t, 0);
    drawRaster(this.canvas, this.values, this.steps, this.channels, t);
  }

  _listen() {
    byId("events-clear").onclick = () => this.clear();
    byId("events-file").onchange = ({ target }) => target.files[0] && this.open(target.files[0]);
    acceptDrops(byId("sequence-input"), (file) => this.open(file));
    byId("unit").onchange = () => this.file && this.open(this.file);
    if (this.camera) return;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      byId("cursor").hidden = true;
      this.brush = this._place(event);
      this._paint(this.brush, !byId("rubber").checked);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.brush) this._paint(this._place(event), !byId("rubber").checked);
    });
    const lift = () => {
      if (!this.brush) return;
      this.brush = null;
      this.set(this.values, this._count());
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("keydown", (event) => this._key(event));
    canvas.addEventListener("blur", () => (byId("cursor").hidden = true));
  }

  _place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * this.steps, ((event.clientY - box.top) / box.height) * this.channels];
  }

  /* Fill the cells between the brush and a place. */
  _paint(to, value) {
    const from = this.brush, length = Math.max(1, Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1])));
    const radius = Math.max(0.5, this.channels / 140);
    for (let k = 0; k <= length; k++) {
      const t = Math.floor(from[0] + ((to[0] - from[0]) * k) / length), middle = from[1] + ((to[1] - from[1]) * k) / length;
      if (t < 0 || t >= this.steps) continue;
      for (let j = Math.max(0, Math.floor(middle - radius)); j <= Math.min(this.channels - 1, Math.floor(middle + radius)); j++) {
        this.values[t * this.channels + j] = value ? 1 : 0;
      }
    }
    this.brush = to;
    this.set(this.values, this._count(), true);
  }

  _key(event) {
    const far = event.shiftKey ? 10 : 1, down = Math.max(1, Math.round(this.channels / 50));
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -down], ArrowDown: [0, down] }[event.key];
    const paint = { " ": true, Delete: false }[event.key];
    if (!step && paint === undefined && event.key !== "Escape") return;
    event.preventDefault();
    if (event.key === "Escape") return this.clear();
    this.keys ??= [this.steps / 2, this.channels / 2];
    if (step) this.keys = this.keys.map((value, k) => Math.min(Math.max(value + far * step[k], 0), [this.steps, this.channels][k] - 1));
    if (paint !== undefined) {
      this.brush = this.keys;
      this._paint(this.keys, paint);
      this.brush = null;
    }
    const mark = byId("cursor");
    mark.hidden = false;
    mark.style.left = `${(this.keys[0] / this.steps) * this.canvas.clientWidth}px`;
    mark.style.top = `${(this.keys[1] / this.channels) * this.canvas.clientHeight}px`;
  }

  _count() {
    return `${formatted(this.values.reduce((sum, value) => sum + value, 0))} events`;
  }

  async open(file) {
    this.file = file;
    try {
      const { values, counted, lost } = readEvents(await file.text(), this.network, this.network.input.binUs ? Number(byId("unit").value) : 1);
      this.set(values, `${file.name}: ${formatted(counted)} events${lost ? `, ${formatted(lost)} left out: before, after or beside the input` : ""}`);
    } catch (error) {
      byId("events-text").textContent = `${file.name}: ${error.message}`;
    }
  }

  _makePatterns() {
    const patterns = this.camera ? CAMERA_PATTERNS : LINE_PATTERNS;
    for (const [name, make] of Object.entries(patterns)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.onclick = () => {
        this.values = make(this.steps, this.camera ? this.network.inputShape : this.channels);
        this.set(this.values, this._count());
      };
      byId("patterns").append(button);
    }
  }
}
