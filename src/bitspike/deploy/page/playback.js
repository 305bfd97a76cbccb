/*
 * Time: which step is shown, and the controls that move it.
 */
const SPEEDS = [1, 2, 5, 10, 20, 40, 80];

class Playback {
  /* `show(t)` is called whenever another step is to be shown; t = 0 is before the first. */
  constructor(show) {
    this.show = show;
    this.steps = 1;
    this.t = 0;
    this.playing = false;
    byId("play").onclick = () => (this.playing ? this.pause() : this.play());
    byId("back").onclick = () => this._jump(this.t - 1);
    byId("forward").onclick = () => this._jump(this.t + 1);
    byId("time").oninput = ({ target }) => this._jump(Number(target.value));
    byId("speed").oninput = () => this._speed();
    this._speed();
  }

  _speed() {
    this.speed = SPEEDS[byId("speed").value];
    byId("speed-text").textContent = `${this.speed} steps/s`;
    byId("speed").setAttribute("aria-valuetext", `${this.speed} steps a second`);
  }

  _jump(t) {
    this.pause();
    this.go(Math.min(Math.max(t, 0), this.steps));
  }

  go(t) {
    this.t = t;
    byId("time").max = this.steps;
    byId("time").value = t;
    this.show(t);
  }

  play() {
    if (this.t >= this.steps) this.go(0);
    this.playing = true;
    this._button();
    let last = performance.now(), due = 0;
    const frame = (now) => {
      if (!this.playing) return;
      due += Math.min(now - last, 250) * (this.speed / 1000);
      last = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole) this.go(Math.min(this.t + whole, this.steps));
      if (this.t >= this.steps) this.pause();
      else this.request = requestAnimationFrame(frame);
    };
    cancelAnimationFrame(this.request);
    this.request = requestAnimationFrame(frame);
  }

  pause() {
    this.playing = false;
    this._button();
  }

  _button() {
    byId("play").textContent = this.playing ? "Pause" : "Play";
  }
}
