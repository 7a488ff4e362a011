// The numbers of the neuron view: weights = softmax(softcap(scale · q·k) + added), where each of the three may be missing.

function softmax(scores, sink = -Infinity) {
  const highest = Math.max(...scores, sink);
  const powers = scores.map((score) => Math.exp(score - highest));
  const sum = powers.reduce((a, b) => a + b, Math.exp(sink - highest));
  return powers.map((power) => power / sum);
}
const dot = (q, k) => q.reduce((sum, number, i) => sum + number * k[i], 0);
// A mask or a position bias. In a part of a pair the rows and columns are counted from its own first token.
function added(panel, layer, head, row, column) {
  const { tables, added_of } = panel.whole;
  if (!tables) return 0;
  const heads = tables[added_of[layer]];
  return heads[head % heads.length][row + (panel.rows?.[0] ?? 0)][column + (panel.columns?.[0] ?? 0)];
}
const masked = (...place) => added(...place) < -1e38;
function scoresOf(panel, layer, head, row) {
  const { scale, softcap } = panel.whole;
  const query = panel.queries[layer][head][row];
  return panel.keys[layer][head].map((key, column) => {
    let score = scale ? dot(query, key) * scale[layer] : dot(query, key) / Math.sqrt(query.length);
    score = softcap ? softcap * Math.tanh(score / softcap) : score;
    return score + added(panel, layer, head, row, column);
  });
}
function nest(numbers, [layers, heads, rows, columns]) {
  const times = (count, make) => Array.from({ length: count }, make);
  let next = 0;
  return times(layers, () => times(heads, () => times(rows, () => times(columns, () => numbers[next++]))));
}
// Part of a panel that a menu offers: some of its rows (queries) and columns (keys).
const cut = (all, span) => all.map((layer) => layer.map((head) => head.slice(...span)));
// An array whose members are made when they are asked for: of many heads few are looked at.
function lazily(count, make) {
  const all = Array(count);
  for (let index = 0; index < count; index++) {
    const set = (value) => Object.defineProperty(all, index, { value })[index];
    Object.defineProperty(all, index, { get: () => set(make(index)), configurable: true, enumerable: true });
  }
  return all;
}
view.attention.forEach((panel) => {
  if (panel.queries) {
    const floats = (text) => new Float32Array(bytes(text).buffer);
    panel.queries = nest(floats(panel.queries), panel.shape);
    panel.keys = nest(floats(panel.keys), panel.key_shape ?? panel.shape);
    panel.tables = panel.added && nest(floats(panel.added), panel.added_shape);
  } else {
    panel.queries = cut(whole.queries, panel.rows);
    panel.keys = cut(whole.keys, panel.columns);
  }
  const make = (layer, head) => panel.rows
    ? whole.attn[layer][head].slice(...panel.rows).map((row) => row.slice(...panel.columns))
    : panel.queries[layer][head].map((_, row) =>
      softmax(scoresOf(panel, layer, head, row), panel.sinks?.[layer][head]));
  const [layers, heads] = panel.whole.shape;
  panel.attn = lazily(layers, (layer) => lazily(heads, (head) => make(layer, head)));
});
