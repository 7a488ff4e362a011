// The numbers of the neuron view: weights = softmax(softcap(scale · q·k) + added), where each of the three may be missing.

window.bertviz_params = view;
// bertviz asks require.js for jQuery and d3. Of jQuery it calls no more than this.
let drawNeurons;
const requirejs = (names, draw) => (drawNeurons = draw);
begin(async () => {
  add(document.head, "script", { textContent: new TextDecoder().decode(await unpack(view.script)) });
  for (const panel of view.attention) if (panel.queries) await readPanel(panel);
  drawNeurons($, d3);
});
const $ = (selector) => ({
  empty: () => find(selector).forEach((part) => part.replaceChildren()),
  attr: (name, value) => find(selector).forEach((part) => part.setAttribute(name, value)),
});

async function readPanel(panel) {
  panel.shape = panel.queries.shape;
  panel.queries = await readVectors(panel.queries);
  panel.keys = await readVectors(panel.keys);
  if (panel.added) {
    const [, heads, rows, columns] = panel.added_shape, all = await numbers(panel.added, 4, Float32Array);
    panel.addedRow = (table, head, row) => {
      const start = ((table * heads + (head % heads)) * rows + row) * columns;
      return all.subarray(start, start + columns);
    };
  }
  // (layer, head, query): a row of weights, which is computed when it is asked for
  const rows = new Map();
  panel.weightsOf = (layer, head, row) => {
    const place = `${layer},${head},${row}`;
    if (!rows.has(place)) rows.set(place, softmax(scoresOf(panel, layer, head, row), panel.sinks?.[layer][head]));
    return rows.get(place);
  };
}
// Return a function of (layer, head, token) that gives a vector. Numbers of 16 bits come with a unit for each head.
async function readVectors({ shape: [, heads, tokens, size], numbers: text, units }) {
  const all = units ? await numbers(text, 2, Int16Array) : await numbers(text, 4, Float32Array);
  return (layer, head, token) => {
    const start = ((layer * heads + head) * tokens + token) * size;
    return Array.from(all.subarray(start, start + size), (number) => number * (units ? units[layer * heads + head] : 1));
  };
}
function softmax(scores, sink = -Infinity) {
  const highest = Math.max(...scores, sink);
  const powers = scores.map((score) => Math.exp(score - highest));
  const total = powers.reduce((a, b) => a + b, Math.exp(sink - highest));
  return powers.map((power) => power / total);
}
const dot = (q, k) => q.reduce((total, number, i) => total + number * k[i], 0);
// A mask or a position bias.
const added = (panel, layer, head, row, column) => (panel.addedRow ? panel.addedRow(panel.added_of[layer], head, row)[column] : 0);
const masked = (...place) => added(...place) < -1e38;
const keyOf = (panel, layer, head, column) => panel.keys(layer, panel.key_of[head], column);
function scoresOf(panel, layer, head, row) {
  const { scale, softcap } = panel, query = panel.queries(layer, head, row);
  return panel.right_text.map((_, column) => {
    const product = dot(query, keyOf(panel, layer, head, column));
    let score = scale ? product * scale[layer] : product / Math.sqrt(query.length);
    score = softcap ? softcap * Math.tanh(score / softcap) : score;
    return score + added(panel, layer, head, row, column);
  });
}
