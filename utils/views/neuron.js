// Runs at the end of bertviz's neuron_view.js, in the same function: what is defined here replaces what bertviz defines.
function softmax(scores) {
  const highest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - highest));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}
// Attention from query and key vectors: softmax(q·k / √d) for each query.
function attend(queries, keys) {
  const dot = (q, k) => q.reduce((sum, number, i) => sum + number * k[i], 0) / Math.sqrt(q.length);
  const head = (heads, k) => heads.map((q) => softmax(k.map((key) => dot(q, key))));
  return queries.map((layer, l) => layer.map((heads, h) => head(heads, keys[l][h])));
}
view.attention.forEach((panel, _, [whole]) => {
  if (panel.queries) {
    const floats = (text) => new Float32Array(bytes(text).buffer);
    panel.queries = nest(floats(panel.queries), panel.shape);
    panel.keys = nest(floats(panel.keys), panel.shape);
    panel.attn = attend(panel.queries, panel.keys);
  } else {
    panel.attn = cut(whole.attn, panel.rows, (row) => row.slice(...panel.columns));
    panel.queries = cut(whole.queries, panel.rows, (vector) => vector);
    panel.keys = cut(whole.keys, panel.columns, (vector) => vector);
  }
});

function dress(svg) {
  fit(svg, 1030);
  const [closed, open] = ["#collapsed", "#expanded"].map((group) => find(`${group} #leftText > g`, svg));
  for (const [tokens, others] of [[closed, open], [open, closed]]) {
    const name = (part, index) => `${tokenName(part, index)}. Enter shows or hides its vectors.`;
    reach(tokens, name, (token, index) => ({
      ...hover(token),
      press: () => {
        send(token.lastElementChild, "click");
        others[index].focus();
      },
    }));
  }
  if (view.chosen !== null) {
    send(closed[view.chosen], "mouseover");
    send(closed[view.chosen].lastElementChild, "click");
    view.chosen = null;
  }
}

// bertviz keeps the chosen token when another part of a pair is shown, which may have no such token. Let go of it.
const letGoOfToken = () => find("#leftText > g").forEach((token) => send(token, "mouseleave"));
find("#filter").forEach((menu) => menu.addEventListener("change", letGoOfToken, true));
addEventListener("ground", () => {
  config.mode = view.display_mode;
  render();
});
new MutationObserver(() => find("#vis > svg").forEach(dress)).observe($("#vis")[0], { childList: true });
initialize();
render();
