/*
 * The input of networks on images: a pad to draw on, a file, or a sample. The pad holds what was drawn, white on black,
 * or the picture of a file as it is.
 */

/* The network's input as [channels, rows, columns]; flat images are square. */
function imageShape(network) {
  if (network.inputShape.length === 3) return network.inputShape;
  const pixels = product(network.inputShape), side = Math.round(Math.sqrt(pixels));
  return side * side === pixels ? [1, side, side] : [1, 1, pixels];
}

class ImageInput {
  /* `changed(input, live)` gets every new input; `live` says that the pen is still down. */
  constructor(network, changed) {
    this.network = network;
    this.changed = changed;
    this.shape = imageShape(network);
    const [, rows, columns] = this.shape;
    this.zoom = Math.max(1, Math.round(280 / Math.max(rows, columns)));
    this.pad = byId("pad");
    [this.pad.width, this.pad.height] = [columns * this.zoom, rows * this.zoom];
    this.context = this.pad.getContext("2d", { willReadFrequently: true });
    this.seen = byId("seen");
    [this.seen.width, this.seen.height] = [columns, rows];
    byId("seen-text").textContent = `${columns} × ${rows} pixels`;
    byId("image-input").hidden = false;
    this.changes = 0; // of what is on the pad: a file that was slow to load must not replace what came later
    this.pen = null;
    this.strokes = isOfDigits(network); // digits are strokes; other things have greys
    this.framing = this.strokes ? "mass" : "fill";
    this._listen();
    this._makeSamples();
  }

  /* An empty pad for a drawing or a sample; `drawn` says whether the next stroke may go on from it. */
  _blank(drawn) {
    this.changes++;
    this.drawn = drawn;
    this.picture = null;
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.pad.width, this.pad.height);
    byId("invert").checked = false;
    byId("invert-label").hidden = true; // a drawing is light on dark already
    byId("framing").value = this.framing;
    tell(byId("image-text"), "");
  }

  clear() {
    this._blank(true);
    this.keys = this.keys && { ...this.keys, down: false };
    byId("pen").className = "";
    this.emit(false);
  }

  emit(live) {
    const { width, height } = this.pad, { picture } = this, invert = byId("invert").checked;
    let planes = planesOf(this.context.getImageData(0, 0, width, height), this.shape[0], invert);
    if (picture && !picture.exact && this.shape[0] !== 3) planes = this._withoutGround(planes, invert);
    this.values = framed(planes, width, height, this.shape, byId("framing").value);
    this.showSeen(this.values);
    const whyEmpty = picture ? "the picture is empty" : "no input yet";
    this.changed({ values: this.values, steps: this.network.steps, sequence: false, whyEmpty }, live);
  }

  _withoutGround(planes, invert) {
    const { box, level } = this.picture, { width } = this.pad;
    const plane = this.strokes ? strokesOnly(planes[0], width, box) : lifted(planes[0], invert ? 1 - level : level);
    return planes.map(() => plane);
  }

  /* Draw the network's pixels; during a glance these are moved. */
  showSeen(values) {
    const [channels, rows, columns] = this.shape, size = rows * columns, image = new ImageData(columns, rows);
    for (let i = 0; i < size; i++) {
      for (let k = 0; k < 3; k++) image.data[4 * i + k] = 255 * values[(channels === 3 ? k : 0) * size + i];
      image.data[4 * i + 3] = 255;
    }
    this.seen.getContext("2d").putImageData(image, 0, 0);
  }

  _listen() {
    const { pad } = this;
    onStroke(pad, {
      begin: (event) => {
        byId("pen").hidden = true;
        this.pen = this._place(event);
        this._line(this.pen);
      },
      move: (event) => this._line(this._place(event)),
      end: () => {
        this.pen = null;
        this.emit(false);
      },
    });
    pad.addEventListener("keydown", (event) => this._key(event));
    pad.addEventListener("blur", () => (byId("pen").hidden = true));
    byId("clear").onclick = () => this.clear();
    byId("invert").onchange = () => this.emit(false);
    byId("framing").onchange = ({ target }) => {
      this.framing = target.value;
      this.emit(false);
    };
    onFiles(byId("image-file"), (file, others) => this.open(file, others));
  }

  _place(event) {
    const box = this.pad.getBoundingClientRect(), scale = this.pad.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  /* A line from the pen to a place, as thick as MNIST's for a drawing that fills most of the pad. */
  _line(to) {
    if (!this.drawn) this._blank(true); // a sample or a picture makes room
    const { context } = this;
    this.changes++;
    context.strokeStyle = "#fff";
    context.lineWidth = 0.085 * this.pad.width;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...this.pen);
    context.lineTo(to[0] + 0.01, to[1]); // a line of no length would be no dot
    context.stroke();
    this.pen = to;
    this._soon ??= requestAnimationFrame(() => {
      this._soon = null;
      if (this.pen || this.keys?.down) this.emit(true);
    });
  }

  /* Drawing by keys: arrows move, space puts the pen down or lifts it. */
  _key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step && event.key !== " " && event.key !== "Escape") return;
    event.preventDefault();
    if (event.key === "Escape") return this.clear();
    this.keys ??= { at: [this.pad.width / 2, this.pad.height / 2], down: false };
    const { keys } = this, from = [...keys.at];
    if (step) {
      keys.at = keys.at.map((value, k) => Math.min(Math.max(value + step[k] * this.zoom, 0), [this.pad.width, this.pad.height][k]));
    } else {
      keys.down = !keys.down;
    }
    if (keys.down) {
      this.pen = from;
      this._line(keys.at);
    }
    if (!keys.down && !step) this.emit(false);
    this.pen = null;
    const mark = byId("pen"), share = this.pad.clientWidth / this.pad.width;
    mark.hidden = false;
    mark.className = keys.down ? "down" : "";
    mark.style.left = `${keys.at[0] * share + 1}px`;
    mark.style.top = `${keys.at[1] * share + 1}px`;
  }

  async open(file, others = 0) {
    const change = ++this.changes, rest = saidOfOthers(others);
    let picture;
    try {
      picture = await createImageBitmap(file);
    } catch {
      if (change === this.changes) tell(byId("image-text"), `${file.name} is no image that this browser can read${rest}`, true);
      return;
    }
    if (change !== this.changes) return;
    this._show(picture);
    tell(byId("image-text"), `${file.name}, ${picture.width} × ${picture.height} pixels${rest}`);
    this.emit(false);
  }

  /* Put a picture on the pad; one on a light ground is inverted, as the data sets are light on dark. */
  _show(picture) {
    const { context, pad } = this, scale = Math.min(pad.width / picture.width, pad.height / picture.height);
    const [width, height] = [picture.width, picture.height].map((size) => Math.max(1, Math.round(size * scale)));
    const box = { left: Math.round((pad.width - width) / 2), top: Math.round((pad.height - height) / 2), width, height };
    const border = borderOf(picture), [r, g, b] = border.colour, [channels, rows, columns] = this.shape;
    this._blank(false);
    context.fillStyle = `rgb(${r} ${g} ${b})`;
    context.fillRect(0, 0, pad.width, pad.height);
    context.imageSmoothingEnabled = scale < 1; // small pictures keep their pixels exactly
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, box.left, box.top, width, height);
    const exact = picture.width === columns && picture.height === rows;
    this.picture = { box, exact, level: (0.299 * r + 0.587 * g + 0.114 * b) / 255 };
    byId("invert").checked = border.light && channels !== 3;
    byId("invert-label").hidden = false;
    if (exact || channels === 3) byId("framing").value = "whole";
  }

  _makeSamples() {
    for (const [name, draw] of samplesFor(this.network)) {
      const button = document.createElement("button"), icon = document.createElement("canvas");
      button.type = "button";
      button.setAttribute("aria-label", `sample ${name}`);
      button.title = name;
      [icon.width, icon.height] = [84, 84];
      const small = icon.getContext("2d");
      small.scale(3, 3);
      draw(small);
      button.append(icon);
      button.onclick = () => {
        this._blank(false);
        this._drawSample(draw);
        this.emit(false);
      };
      byId("samples").append(button);
    }
  }

  /* A sample as large as fits, in its own proportions. */
  _drawSample(draw) {
    const { context, pad } = this, scale = Math.min(pad.width, pad.height) / 28;
    context.save();
    context.translate((pad.width - 28 * scale) / 2, (pad.height - 28 * scale) / 2);
    context.scale(scale, scale);
    draw(context);
    context.restore();
  }
}
