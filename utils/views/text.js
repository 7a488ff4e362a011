// The text view: a text as it is read. Of a token that is pointed at, the others are shaded by its weights.

const panel = whole, [LAYERS, HEADS, TOKENS] = panel.shape, KEPT = panel.kept;
const inkOf = (what) => INKS[view.display_mode][what]; // the colours of the course, which stand out from either ground
const INKS = { light: { query: "#cc8400", key: "#0060cc" }, dark: { query: "#f4a655", key: "#3a8cf0" } };
let levels, keys, parts; // parts: the token's spans
let now = null, watched; // the index of the token that is shown
const value = (id) => byId(id).value;
const each = (id, indices) => (value(id) === "mean" ? range(indices.length) : [+value(id)]);
const title = () => nameOfHead(...["layer", "head"].map((id) => {
  const list = view[`include_${id}s`];
  return value(id) === "mean" ? "mean" : list[+value(id)];
}));

// Of a query the weights to all keys, rescaled and without hidden keys; in the last place what is elsewhere.
const cache = new Map();
function weightsFrom(query) {
  const name = [query, value("layer"), value("head"), ticked("first"), ticked("hide"), ticked("rescale")].join();
  if (cache.has(name)) return cache.get(name);
  if (cache.size > 4000) cache.clear();
  const weights = new Float32Array(TOKENS + 1), hidden = hiddenOf(panel, "left");
  const layers = each("layer", view.include_layers), heads = each("head", view.include_heads);
  for (const layer of layers) {
    for (const head of heads) {
      const row = rowOf(((layer * HEADS + head) * TOKENS + query) * KEPT).filter(([key]) => !hidden.has(key));
      const total = ticked("rescale") && hidden.size ? sum(row.map(([, weight]) => weight)) || Infinity : 1;
      for (const [key, weight] of row) weights[key] += weight / total / (layers.length * heads.length);
    }
  }
  cache.set(name, weights);
  return weights;
}
function rowOf(start) {
  const row = [];
  let key = 0, elsewhere = 1;
  for (let i = 0; i < KEPT; i++) {
    key = keys ? key + keys[start + i] : i;
    row.push([key, squares[levels[start + i]]]);
    elsewhere -= row[i][1];
  }
  return keys ? [...row, [TOKENS, Math.max(0, elsewhere)]] : row;
}
const weightsTo = (key) => Float32Array.from(range(TOKENS), (query) => weightsFrom(query)[key]);

// --- ink

const power = () => exponent(1);
// With "Logarithmic" a weight of 1 is drawn in full, each tenth of it a quarter paler, and 0.0001 not at all.
function opacity(weight) {
  if (ticked("log")) return clamp(1 + Math.log10(Math.max(weight, 1e-9)) / 4, 0, 1) ** power();
  return weight ** power();
}
const rgba = (colour, alpha) => `rgba(${[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16))},${(0.85 * alpha).toFixed(3)})`;

function shade() {
  const index = now, mode = value("way");
  const from = index !== null && mode !== "to" ? weightsFrom(index) : null;
  const to = index !== null && mode !== "from" ? weightsTo(index) : null;
  const marked = new Set();
  for (const i of [...(from ? strongest(from.subarray(0, TOKENS), 6) : []), ...(to ? strongest(to, 6) : [])]) {
    const free = (near) => !marked.has(near) || parts[Math.min(i, near)].textContent.length > 3; // else digits would touch
    if (free(i - 1) && free(i + 1)) marked.add(i);
  }
  parts.forEach((part, i) => {
    const [up, down] = [from ? from[i] : 0, to ? to[i] : 0];
    const strong = Math.max(opacity(up), opacity(down)) > 0.62;
    const halves = [from && rgba(inkOf("key"), opacity(up)), to && rgba(inkOf("query"), opacity(down))].filter(Boolean);
    part.style.background = halves.length > 1 ? `linear-gradient(${halves[0]} 50%, ${halves[1]} 50%)` : halves[0] || "";
    part.classList.toggle("strong", strong);
    part.classList.toggle("chosen", i === index);
    const most = Math.max(up, down);
    part.dataset.weight = marked.has(i) && most >= 0.005 ? most.toFixed(2) : "";
  });
  tell(index, from, to);
}
function tell(index, from, to) {
  const nexts = byId("nexts");
  if (index === null) {
    nexts.textContent = "";
    return say("Point at a token to see what it attends to. A click keeps it, Escape lets go; arrows go through the text.");
  }
  const list = (weights) => listOf(panel.left_text, weights);
  const said = [`${title()}: ${isolate(panel.left_text[index])}, token ${index}`];
  if (from) said.push(`attends most to ${list(from.subarray(0, TOKENS))}${keys ? `, elsewhere ${from[TOKENS].toFixed(2)}` : ""}`);
  if (to) said.push(`gets most from ${list(to)}`);
  const bits = view.surprise?.[index];
  if (bits !== undefined && bits !== null) said.push(`surprise ${bits.toFixed(1)} bits (probability ${(2 ** -bits).toFixed(3)})`);
  say(`${said.join("; ")}.`);
  if (view.nexts) {
    const likely = view.nexts[index].map(([text, probability]) => `${isolate(text)} ${probability.toFixed(2)}`).join(", ");
    nexts.textContent = `After this token the model would have written: ${likely}.`;
  }
  return null;
}

// --- the text

function drawText() {
  const paragraph = add(byId("vis"), "p", { id: "text" });
  parts = panel.text.map((text, i) => {
    const mark = { id: "written", textContent: "▸", title: "Here the prompt ends, and the model begins to write." };
    if (i === view.prompt_length) add(paragraph, "span", mark);
    // Spaces and ends of lines stand between the tokens.
    if (text.startsWith(" ")) paragraph.append(" ");
    const part = add(paragraph, "span", { className: "word", textContent: text.trim() || "␣" });
    if (view.surprise) {
      part.style.borderBottom = `3px solid rgba(192,0,12,${clamp((view.surprise[i] || 0) / 12, 0, 1).toFixed(2)})`;
    }
    if (text.endsWith("\n")) add(paragraph, "br");
    return part;
  });
  const names = panel.left_text.map((text, index) =>
    `${nameOf({ text, pieces: [index] })}${view.prompt_length !== null && index >= view.prompt_length ? ", written by the model" : ""}`);
  const point = (index) => {
    now = index;
    shade();
  };
  watched = watch([parts], [names], (_, index) => point(index), () => point(null), true);
  watched.keep([0, view.token]);
  document.addEventListener("keydown", (event) => event.key === "Escape" && watched.keep(null));
}

begin(async () => {
  levels = await numbers(panel.levels, 2, Uint16Array);
  keys = panel.keys && (await numbers(panel.keys, 2, Uint16Array));
  for (const id of ["layer", "head"]) fillMenu(id, view[`include_${id}s`], view[id], ["mean"]);
  byId("said").insertAdjacentHTML("afterend", "<p id=nexts aria-live=polite></p>");
  byId("nexts").hidden = !view.nexts;
  drawText();
  onChange(shade);
});
