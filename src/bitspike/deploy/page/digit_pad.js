/*
 * A small pad for networks on N-MNIST: a digit that is drawn, or a sample, goes before the moving camera.
 */
class DigitPad {
  /* `show(pixels)` gets every drawing as 28 x 28 numbers. */
  constructor(show) {
    this.show = show;
    this.canvas = byId("digit");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    byId("digit-input").hidden = false;
    this.drawn = false;
    onStroke(this.canvas, {
      begin: (event) => {
        if (!this.drawn) this.clear(); // a sample makes room
        this.drawn = true;
        this.pen = this._place(event);
        this._line(this.pen);
      },
      move: (event) => this._line(this._place(event)),
      end: () => this._emit(),
    });
    DIGITS.forEach((path, digit) => this._makeSample(path, digit));
  }

  clear() {
    this.drawn = false;
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  _place(event) {
    const box = this.canvas.getBoundingClientRect(), scale = this.canvas.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  _line(to) {
    const { context } = this;
    context.strokeStyle = "#fff";
    context.lineWidth = 0.085 * this.canvas.width;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...this.pen);
    context.lineTo(to[0] + 0.01, to[1]); // a line of no length would be no dot
    context.stroke();
    this.pen = to;
  }

  _emit() {
    const { width, height } = this.canvas, planes = planesOf(this.context.getImageData(0, 0, width, height), 1, false);
    this.show(framed(planes, width, height, [1, 28, 28], "mass"));
  }

  _makeSample(path, digit) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = digit;
    button.setAttribute("aria-label", `digit ${digit}`);
    button.onclick = () => {
      this.clear();
      this.context.save();
      this.context.scale(this.canvas.width / 28, this.canvas.height / 28);
      drawShapes(this.context, [[path, 1, 2.5]]);
      this.context.restore();
      this._emit();
    };
    byId("digits").append(button);
  }
}
