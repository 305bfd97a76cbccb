/*
 * Runs the network in a worker, so that the page never freezes. Where workers are not allowed, it runs in the page, a
 * few milliseconds at a time.
 */
class Runner {
  constructor(network, source) {
    this.network = network;
    this.waiting = new Map();
    this.last = 0;
    this.busy = false;
    this.next = null;
    try {
      this.worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
      this.worker.onmessage = ({ data }) => this._answer(data.id, data.result);
      this.worker.onerror = () => this._withoutWorker();
      this.worker.postMessage({ network });
    } catch {
      this.worker = null;
    }
  }

  /* The result for an input; null if a newer input came before this one was begun. */
  run(input) {
    if (this.next) this.next.resolve(null);
    return new Promise((resolve) => {
      this.next = { input, resolve };
      if (!this.busy) this._begin();
    });
  }

  /* How many steps of the test vector are equal. */
  check() {
    return this._ask({ vector: this.network.vector }, () => Promise.resolve(checkVector(this.network, this.network.vector)));
  }

  async _begin() {
    this.busy = true;
    while (this.next) {
      const { input, resolve } = this.next;
      this.next = null;
      resolve(await this._ask({ input }, () => runInSlices(this.network, input)));
    }
    this.busy = false;
  }

  _ask(message, inPage) {
    if (!this.worker) return inPage();
    const id = ++this.last;
    return new Promise((resolve) => {
      this.waiting.set(id, { resolve, inPage });
      this.worker.postMessage({ ...message, id });
    });
  }

  _answer(id, result) {
    this.waiting.get(id).resolve(result);
    this.waiting.delete(id);
  }

  /* The worker could not start: what it was asked is done here. */
  _withoutWorker() {
    this.worker = null;
    for (const { resolve, inPage } of this.waiting.values()) inPage().then(resolve);
    this.waiting.clear();
  }
}

/* The whole run, with a pause for the page after every 12 milliseconds. */
async function runInSlices(network, input) {
  const run = new Run(network, input);
  while (!run.done) {
    const end = performance.now() + 12;
    while (!run.done && performance.now() < end) run.step();
    await new Promise((resolve) => setTimeout(resolve));
  }
  return resultOf(run);
}
