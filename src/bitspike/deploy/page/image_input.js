/*
 * The input of networks on images: a pad to draw on, a file, or a sample. The pad holds what was drawn, white on black.
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
    this.pen = null;
    this.drawing = network.classes.every((name) => /^\d$/.test(name)) && !this._clothes() ? "mass" : "fill";
    this._listen();
    this._makeSamples();
    byId("framing").value = this.drawing;
  }

  _clothes() {
    return /fashion/i.test(Object.values(this.network.metadata).join(" "));
  }

  clear() {
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.pad.width, this.pad.height);
    byId("invert").checked = false;
    byId("framing").value = this.drawing;
    this.emit(false);
  }

  emit(live) {
    const { width, height } = this.pad, picture = this.context.getImageData(0, 0, width, height);
    const planes = planesOf(picture, this.shape[0], byId("invert").checked);
    this.values = framed(planes, width, height, this.shape, byId("framing").value);
    this.showSeen(this.values);
    this.changed({ values: this.values, steps: this.network.steps, sequence: false }, live);
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
    pad.addEventListener("pointerdown", (event) => {
      pad.setPointerCapture(event.pointerId);
      byId("pen").hidden = true;
      this.pen = this._place(event);
      this._line(this.pen);
    });
    pad.addEventListener("pointermove", (event) => {
      if (!this.pen) return;
      const events = event.getCoalescedEvents?.() ?? [];
      for (const each of events.length ? events : [event]) this._line(this._place(each));
    });
    const lift = () => {
      if (!this.pen) return;
      this.pen = null;
      this.emit(false);
    };
    pad.addEventListener("pointerup", lift);
    pad.addEventListener("pointercancel", lift);
    pad.addEventListener("keydown", (event) => this._key(event));
    pad.addEventListener("blur", () => (byId("pen").hidden = true));
    byId("clear").onclick = () => this.clear();
    byId("invert").onchange = byId("framing").onchange = () => this.emit(false);
    byId("image-file").onchange = ({ target }) => target.files[0] && this.open(target.files[0]);
    acceptDrops(byId("image-input"), (file) => this.open(file));
  }

  _place(event) {
    const box = this.pad.getBoundingClientRect(), scale = this.pad.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  /* A line from the pen to a place, as thick as MNIST's for a drawing that fills most of the pad. */
  _line(to) {
    const { context } = this;
    context.strokeStyle = byId("invert").checked ? "#000" : "#fff";
    context.lineWidth = 0.085 * this.pad.width;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...this.pen);
    context.lineTo(...to);
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

  /* Put a picture on the pad; one on a light ground is inverted, as the data sets are light on dark. */
  async open(file) {
    let picture;
    try {
      picture = await createImageBitmap(file);
    } catch {
      byId("image-hint").textContent = `${file.name} is no image that this browser can read.`;
      return;
    }
    byId("image-hint").textContent = `${file.name}, ${picture.width} × ${picture.height} pixels`;
    const { context, pad } = this, scale = Math.min(pad.width / picture.width, pad.height / picture.height);
    const width = picture.width * scale, height = picture.height * scale;
    const border = borderOf(picture);
    context.fillStyle = `rgb(${border.colour.join(" ")})`;
    context.fillRect(0, 0, pad.width, pad.height);
    context.imageSmoothingEnabled = scale < 1; // small pictures keep their pixels exactly
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, (pad.width - width) / 2, (pad.height - height) / 2, width, height);
    byId("invert").checked = border.light && this.shape[0] !== 3;
    const [, rows, columns] = this.shape;
    byId("framing").value = picture.width === columns && picture.height === rows ? "whole" : this.drawing;
    this.emit(false);
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
        this.context.fillStyle = "#000";
        this.context.fillRect(0, 0, this.pad.width, this.pad.height);
        this.context.save();
        this.context.scale(this.pad.width / 28, this.pad.height / 28);
        draw(this.context);
        this.context.restore();
        byId("invert").checked = false;
        byId("framing").value = this.drawing;
        this.emit(false);
      };
      byId("samples").append(button);
    }
  }
}

/* The mean colour along the edge of a picture, and whether it is light. */
function borderOf(picture) {
  const canvas = new OffscreenCanvas(16, 16), context = canvas.getContext("2d");
  context.fillStyle = "#fff"; // behind what is transparent
  context.fillRect(0, 0, 16, 16);
  context.drawImage(picture, 0, 0, 16, 16);
  const { data } = context.getImageData(0, 0, 16, 16), sums = [0, 0, 0];
  let count = 0;
  for (let i = 0; i < 256; i++) {
    const edge = i < 16 || i >= 240 || i % 16 === 0 || i % 16 === 15;
    if (!edge) continue;
    for (let k = 0; k < 3; k++) sums[k] += data[4 * i + k];
    count++;
  }
  const colour = sums.map((sum) => Math.round(sum / count));
  return { colour, light: colour[0] + colour[1] + colour[2] > 3 * 127 };
}

/* Files that are dropped on an element; the page must not open them in its place. */
function acceptDrops(element, open) {
  for (const name of ["dragover", "dragleave", "drop"]) {
    element.addEventListener(name, (event) => {
      event.preventDefault();
      element.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
    });
  }
}
