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
    this.changes = 0; // a file that was slow to load must not replace what came later
    byId("sequence-input").hidden = false;
    this._label();
    byId("rubber-label").hidden = this.camera;
    byId("unit-label").hidden = !network.input.binUs; // without bins, time is in steps
    if (UNITS[network.metadata.time_unit]) byId("unit").value = network.metadata.time_unit;
    this.canvas.className = this.camera ? "map" : "";
    if (this.camera) this.map = new MapView(this.canvas, { output: network.inputShape });
    else [this.canvas.width, this.canvas.height] = [this.steps, this.channels];
    this._listen();
    this._makePatterns();
    if (!isOfSaccades(network)) return;
    byId("sequence-hint").textContent = "Draw a digit, open or drop a CSV of events (t,x,y,p), or take a pattern.";
    this.digit = new DigitPad((pixels) => this.set(saccades(pixels, network), "", { drawn: true }));
  }

  /* Say what a file holds, and what the axes are. */
  _label() {
    const { network, camera } = this, { binUs, downsample } = network.input, last = this.channels * downsample - 1;
    byId("sequence-hint").textContent = camera
      ? "Open or drop a CSV of events (t,x,y,p), or take a pattern."
      : `Paint events, open or drop a CSV of events (t,channel, with channels 0 to ${formatted(last)}), or take a pattern.`;
    byId("events-from").textContent = "0";
    byId("events-to").textContent = binUs ? `${formatted((this.steps * binUs) / 1000)} ms` : `${this.steps} steps`;
    const cochlea = /^(SHD|SSC)\b/.test(network.metadata.data ?? ""); // unit 0 of their cochlea is the highest pitch
    byId("first-channel").textContent = `↑ channel 0${cochlea ? ", high pitch" : ""}`;
    byId("last-channel").textContent = `↓ channel ${formatted(last)}${cochlea ? ", low pitch" : ""}`;
    for (const caption of this.canvas.parentElement.querySelectorAll(".axis")) caption.hidden = camera;
    byId("polarity-text").hidden = !camera || network.inputShape[0] !== 2;
  }

  /* Take a new input. `whyEmpty` is what the answer says if it has no events, `note` what it adds if it has. */
  set(values, text, { live = false, error = false, whyEmpty = "no events yet", note = "", drawn = false } = {}) {
    this.changes++;
    this.file = null;
    this.values = values;
    if (!drawn) this.digit?.clear();
    tell(byId("events-text"), text || this._count(), error);
    this.draw(this.shown ?? 0);
    this.changed({ values, steps: this.steps, sequence: true, whyEmpty, note }, live);
  }

  clear() {
    this.set(new Float32Array(this.steps * this.channels), "no events");
  }

  /* Draw the events; those of the step before `t` in the colour of spikes. */
  draw(t) {
    this.shown = t;
    if (!this.camera) return drawRaster(this.canvas, this.values, this.steps, this.channels, t);
    this.map.drawSpikes(this.values, t, 0);
    const [first, second] = this.map.across > 1 ? ["left", "right"] : ["above", "below"];
    const [off, on] = this.digit ? ["it grows lighter", "it grows darker"] : ["mostly OFF", "mostly ON"];
    byId("polarity-text").textContent = `${first}: p = 0, ${off}; ${second}: p = 1, ${on}`;
  }

  _listen() {
    byId("events-clear").onclick = () => this.clear();
    onFiles(byId("events-file"), (file, others) => this.open(file, others));
    byId("unit").onchange = () => this.file && this.open(this.file);
    if (this.camera) return;
    const { canvas } = this;
    onStroke(canvas, {
      begin: (event) => {
        byId("cursor").hidden = true;
        this.brush = this._place(event);
        this._paint(this.brush, !byId("rubber").checked);
      },
      move: (event) => this._paint(this._place(event), !byId("rubber").checked),
      end: () => {
        this.brush = null;
        this.set(this.values, this._count());
      },
    });
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
    this.set(this.values, this._count(), { live: true });
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
    mark.style.top = `${this.canvas.offsetTop + (this.keys[1] / this.channels) * this.canvas.clientHeight}px`;
  }

  _count() {
    return `${formatted(this.values.reduce((sum, value) => sum + value, 0))} events`;
  }

  async open(file, others = 0) {
    const change = ++this.changes, rest = saidOfOthers(others);
    const text = await file.text().catch(() => "");
    if (change !== this.changes) return;
    try {
      const read = readEvents(text, this.network, byId("unit").value || null), doubts = doubtsOf(read, this.network);
      this.set(read.values, `${this._about(file, read)}${rest}${doubts && `. ${doubts}`}`, {
        error: doubts !== "",
        whyEmpty: "no event of the file is inside the input",
      });
      this.file = file;
    } catch (error) {
      tell(byId("events-text"), `${file.name}: ${error.message}${rest}`, true);
    }
  }

  _about({ name }, { counted, lost, unit, named }) {
    const how = named ? " (says the file)" : byId("unit").value ? "" : " (found from the times)";
    const left = lost ? `, ${formatted(lost)} left out: before, after or beside the input` : "";
    return `${name}: ${formatted(counted)} events${unit ? `, times in ${UNIT_NAMES[unit]}${how}` : ""}${left}`;
  }

  _makePatterns() {
    const patterns = this.camera ? CAMERA_PATTERNS : LINE_PATTERNS;
    for (const [name, make] of Object.entries(patterns)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.onclick = () => {
        this.values = make(this.steps, this.camera ? this.network.inputShape : this.channels);
        this.set(this.values, this._count(), { note: "; a pattern has no right answer" });
      };
      byId("patterns").append(button);
    }
  }
}
