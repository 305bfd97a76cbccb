/*
 * The classes as bars that grow: spikes so far, or the mean membrane so far; and what the network says.
 */
class AnswerView {
  constructor(network) {
    this.network = network;
    this.note = ""; // what is said after the answer
    this.membrane = network.readout === "membrane";
    byId("bars").classList.toggle("many", network.classes.length > 12);
    this.rows = network.classes.map((name) => {
      const row = document.createElement("li"), cells = ["name", "track", "value"].map((className) => {
        const cell = document.createElement("span");
        cell.className = className;
        row.append(cell);
        return cell;
      });
      cells[0].textContent = name;
      const bar = document.createElement("i");
      cells[1].append(bar);
      byId("bars").append(row);
      return { row, bar, value: cells[2] };
    });
    byId("bars-text").textContent = this.membrane
      ? "Bars: (1 − β) × mean membrane so far. The class with the largest is the answer."
      : "Bars: spikes so far. The class with the most is the answer.";
  }

  show(result) {
    this.result = result;
    const classes = this.rows.length, sums = new Float64Array((result.steps + 1) * classes);
    const values = this.membrane ? result.membrane : result.spikes.at(-1);
    for (let i = 0; i < result.steps * classes; i++) sums[i + classes] = sums[i] + values[i];
    this.sums = sums;
    [this.least, this.most] = [0, 1e-9]; // of all steps, so that bars keep their scale
    for (let t = 1; t <= result.steps; t++) {
      for (const score of this.scoresAt(t)) [this.least, this.most] = [Math.min(this.least, score), Math.max(this.most, score)];
    }
  }

  /* One number for each class after `t` steps: spikes, or (1 - beta) * mean membrane. */
  scoresAt(t) {
    const classes = this.rows.length;
    return this.rows.map((_, k) => {
      const sum = this.sums[t * classes + k];
      return this.membrane ? (t ? fl(fl(sum / t) * this.result.rest[k]) : 0) : sum;
    });
  }

  /* The class that leads after `t` steps, the first of equals; -1 without an input, and while all are alike. */
  leader(t) {
    const scores = this.scoresAt(t);
    return this.whyEmpty || t === 0 ? -1 : leaderOf(scores);
  }

  draw(t, final) {
    const scores = this.scoresAt(t), leader = this.leader(t), range = this.most - this.least;
    const zero = (-this.least / range) * 100;
    this.rows.forEach(({ row, bar, value }, k) => {
      const size = (Math.abs(scores[k]) / range) * 100;
      bar.style.left = `${scores[k] < 0 ? zero - size : zero}%`;
      bar.style.width = `${size}%`;
      value.textContent = this.membrane ? signed(scores[k]) : scores[k];
      row.classList.toggle("leads", k === leader);
    });
    byId("now").textContent = leader < 0 ? "" : this.network.classes[leader];
    byId("bars").classList.toggle("empty", Boolean(this.whyEmpty));
    const said = this._words(t, leader, scores);
    if (final || t === 0) byId("verdict").setAttribute("aria-live", "polite");
    else byId("verdict").setAttribute("aria-live", "off"); // a word for every step would be too many
    if (byId("verdict").dataset.said === said.join()) return;
    byId("verdict").dataset.said = said.join();
    const small = document.createElement("small");
    small.textContent = said[1];
    byId("verdict").replaceChildren(said[0], small);
  }

  _words(t, leader, scores) {
    const { steps } = this.result, when = t === steps ? `after all ${steps} steps` : `after ${t} of ${steps} steps`;
    if (this.whyEmpty) return ["…", this.whyEmpty];
    if (t === 0) return ["…", "nothing shown yet"];
    if (leader < 0) return ["…", `no answer ${when}: ${!this.membrane && scores[0] === 0 ? "no output spike" : "all classes are alike"}`];
    const ties = scores.filter((score) => score === scores[leader]).length;
    return [this.network.classes[leader], `${ties > 1 ? `tied with ${ties - 1} more, ` : ""}${when}${this.note}`];
  }
}

/* The class with the largest score, the first of equals; -1 if all are alike, as `bitspike predict` says no answer. */
function leaderOf(scores) {
  return scores.every((score) => score === scores[0]) ? -1 : scores.indexOf(Math.max(...scores));
}

/* Two decimals with a real minus sign; what rounds to 0 has none. */
function signed(number) {
  const text = Math.abs(number).toFixed(2);
  return number < 0 && Number(text) ? `−${text}` : text;
}
