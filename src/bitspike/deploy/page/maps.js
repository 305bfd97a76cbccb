/*
 * Spikes of a layer as small maps, one for each channel, at one moment: a spike lights up and fades.
 */
const FADING = [1, 0.46, 0.34, 0.25, 0.18, 0.13, 0.09];

class MapView {
  /* `output` is [channels, rows, columns]; a row of neurons is drawn as cells. */
  constructor(canvas, { output }) {
    this.canvas = canvas;
    [this.maps, this.rows, this.columns] = output;
    this.dense = this.rows * this.columns === 1;
    if (this.dense && this.maps > 64) [this.rows, this.columns] = nearSquare(this.maps);
    if (this.dense && this.maps > 64) this.maps = 1;
    this.neurons = product(output);
    new ResizeObserver(() => this.layout() && this.again?.()).observe(canvas.parentElement);
  }

  /* Choose how many maps are in a row: large cells, full rows, all of the width; return whether the size changed. */
  layout() {
    const ratio = devicePixelRatio || 1, style = getComputedStyle(this.canvas.parentElement);
    const inner = this.canvas.parentElement.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const width = Math.floor(inner * ratio), tallest = 300 * ratio;
    if (width < 1 || width === this.width) return false;
    this.width = width;
    let best = 0;
    for (let across = 1; across <= this.maps; across++) {
      const down = Math.ceil(this.maps / across), gap = Math.round((this.rows * this.columns === 1 ? 3 : 5) * ratio);
      const fits = (room, count, size) => Math.floor((room - (count - 1) * gap) / (count * size));
      const cell = Math.min(fits(width, across, this.columns), fits(tallest, down, this.rows), 30 * ratio);
      const wide = across * this.columns * cell + (across - 1) * (gap + 8 * ratio);
      const worth = cell * (this.maps % across ? 0.6 : 1) * Math.min(1, wide / width); // rather wide than tall
      if (worth >= best) Object.assign(this, { cell, across, gap });
      best = Math.max(best, worth);
    }
    if (!best) Object.assign(this, { cell: 1, gap: 1, across: Math.max(1, Math.floor(width / (this.columns + 1))) });
    this.down = Math.ceil(this.maps / this.across);
    const left = width - this.across * this.columns * this.cell - (this.across - 1) * this.gap;
    if (this.across > 1) this.gap += Math.max(0, Math.min(Math.floor(left / (this.across - 1)), 8 * ratio));
    this.canvas.width = this.across * this.columns * this.cell + (this.across - 1) * this.gap;
    this.canvas.height = this.down * this.rows * this.cell + (this.down - 1) * this.gap;
    this.canvas.style.width = `${this.canvas.width / ratio}px`;
    return true;
  }

  /* Draw the spikes [steps][neurons] up to step `t`, that is of the steps before it; `from` is where fading ends. */
  drawSpikes(spikes, t, from) {
    this.again = () => this.drawSpikes(spikes, t, from);
    if (!this.width && !this.layout()) return;
    const context = this.canvas.getContext("2d"), { cell, neurons } = this, size = this.rows * this.columns;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.fillStyle = colours.cell;
    for (let k = 0; k < this.maps; k++) context.fillRect(...this._corner(k), this.columns * cell, this.rows * cell);
    const inset = cell > 5 ? 1 : 0;
    context.fillStyle = colours.spike;
    for (let age = Math.min(FADING.length, t - from) - 1; age >= 0; age--) {
      context.globalAlpha = FADING[age];
      const start = (t - 1 - age) * neurons;
      for (let i = 0; i < neurons; i++) {
        if (!spikes[start + i]) continue;
        const [left, top] = this._corner(Math.floor(i / size)), place = i % size;
        const x = left + (place % this.columns) * cell, y = top + Math.floor(place / this.columns) * cell;
        if (age === 0) context.clearRect(x, y, cell - inset, cell - inset);
        context.fillRect(x, y, cell - inset, cell - inset);
      }
    }
    context.globalAlpha = 1;
  }

  _corner(k) {
    const { cell, gap } = this;
    return [(k % this.across) * (this.columns * cell + gap), Math.floor(k / this.across) * (this.rows * cell + gap)];
  }
}

/* Rows and columns of a sheet for `count` cells, wider than tall. */
function nearSquare(count) {
  const columns = Math.ceil(Math.sqrt(count * 4));
  return [Math.ceil(count / columns), columns];
}
