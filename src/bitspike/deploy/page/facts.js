/*
 * What is known about the network: a line below the title, a list, and details for who wants to train it again.
 */
const DETAILS = ["seed", "protocol", "logit_scale", "time_unit", "labels", "spikes", "versions", "weights_sha256"];

/* "99.42 %" of an accuracy from 0 to 1; an empty text for anything else. */
function percentage(text, digits) {
  const accuracy = Number(text);
  return accuracy > 0 && accuracy <= 1 ? `${(100 * accuracy).toFixed(digits)} %` : "";
}

/* One line: how large the network is, and how good. */
function summaryOf({ weights, metadata }) {
  const right = percentage(metadata.accuracy, 1), samples = Number(metadata.test_samples);
  const of = samples > 0 ? ` (of ${formatted(samples)} test samples)` : "";
  return [
    `${formatted(weights)} weights of one bit, ${formatted(Math.ceil(weights / 8))} bytes`,
    right && `${right} right${metadata.data ? ` on ${metadata.data}` : ""}${of}`,
  ].filter(Boolean).join(" · ");
}

/* Rows [name, text]. What the page knows itself stays apart from metadata of the same name. */
function factsOf(network, pageBytes) {
  const { metadata, glances, steps, weights } = network, own = {
    network: network.notation,
    weights: `${formatted(weights)}, one bit each: ${formatted(Math.ceil(weights / 8))} bytes`,
    steps: String(glances > 1 ? `${steps}: ${glances} glances of ${steps / glances}` : stepsOf(network)),
    "this page": `${formatted(pageBytes / 1000)} kB, all in one file`,
  };
  const given = Object.entries(metadata).map(([name, text]) => {
    const shown = name === "accuracy" ? percentage(text, 2) || text : text;
    return [Object.hasOwn(own, name) ? `${name} (metadata)` : name, shown];
  });
  return [...Object.entries(own), ...given];
}

function showFacts(network) {
  byId("summary").textContent = summaryOf(network);
  byId("details").hidden = !DETAILS.some((name) => Object.hasOwn(network.metadata, name));
  const bytes = new Blob([document.documentElement.outerHTML]).size;
  for (const [name, text] of factsOf(network, bytes)) {
    if (text === document.title && name !== "network") continue; // it heads the page
    const term = document.createElement("dt"), row = document.createElement("dd");
    term.textContent = name.replaceAll("_", " ");
    const holder = /command|notation|^network$/.test(name) ? row.appendChild(document.createElement("code")) : row;
    holder.textContent = text;
    byId(DETAILS.includes(name) ? "more-facts" : "facts").append(term, row);
  }
}
