// The text view: a text as it is read. Of a token that is pointed at, the others are shaded by its weights.

const panel = whole, [LAYERS, HEADS, TOKENS] = panel.shape, KEPT = panel.kept;
const QUERY = "#cc8400", KEY = "#0060cc"; // the colours of the course
let levels, keys, parts; // parts: the token's spans
let now = null, kept = null; // the index of the token that is pointed at, and of the one that is kept
const value = (id) => byId(id).value;
const each = (id, indices) => (value(id) === "mean" ? range(indices.length) : [+value(id)]);
const title = () => nameOfHead(...["layer", "head"].map((id) => {
  const list = view[`include_${id}s`];
  return value(id) === "mean" ? "mean" : list[+value(id)];
}));

// Call act(key, weight) for each weight that is kept of a query; they are rescaled, and hidden keys left out.
const cache = new Map();
function weightsFrom(query) {
  const name = [query, value("layer"), value("head"), ticked("first"), ticked("hide"), ticked("rescale")].join();
  if (cache.has(name)) return cache.get(name);
  if (cache.size > 4000) cache.clear();
  const weights = new Float32Array(TOKENS), hidden = hiddenOf(panel, "left");
  const layers = each("layer", view.include_layers), heads = each("head", view.include_heads);
  let elsewhere = 0;
  for (const layer of layers) {
    for (const head of heads) {
      const start = ((layer * HEADS + head) * TOKENS + query) * KEPT, own = [];
      let key = 0, total = 0, rest = 0;
      for (let i = 0; i < KEPT; i++) {
        key = keys ? key + keys[start + i] : i;
        const weight = (levels[start + i] / 4095) ** 2;
        total += weight;
        if (!hidden.has(key)) own.push([key, weight]);
        else rest += weight;
      }
      const away = Math.max(0, KEPT < TOKENS ? 1 - total : 0), left = total - rest + away;
      const scale = ticked("rescale") && rest ? (left > 0 ? 1 / left : 0) : 1, share = scale / (layers.length * heads.length);
      for (const [to, weight] of own) weights[to] += weight * share;
      elsewhere += away * share;
    }
  }
  const found = { weights, elsewhere };
  cache.set(name, found);
  return found;
}
const weightsTo = (key) => Float32Array.from(range(TOKENS), (query) => weightsFrom(query).weights[key]);

// --- ink

const power = () => exponent(1);
// With "Logarithmic" a weight of 1 is drawn in full, each tenth of it a quarter paler, and 0.0001 not at all.
function opacity(weight) {
  if (ticked("log")) return clamp(1 + Math.log10(Math.max(weight, 1e-9)) / 4, 0, 1) ** power();
  return weight ** power();
}
const rgba = (colour, alpha) => `rgba(${[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16))},${(0.85 * alpha).toFixed(3)})`;

function shade() {
  const index = now ?? kept, mode = value("way");
  const from = index !== null && mode !== "to" ? weightsFrom(index) : null;
  const to = index !== null && mode !== "from" ? weightsTo(index) : null;
  const marked = new Set();
  for (const i of [...(from ? strongest(from.weights, 6) : []), ...(to ? strongest(to, 6) : [])]) {
    const free = (near) => !marked.has(near) || parts[Math.min(i, near)].textContent.length > 3; // else digits would touch
    if (free(i - 1) && free(i + 1)) marked.add(i);
  }
  parts.forEach((part, i) => {
    const [up, down] = [from ? from.weights[i] : 0, to ? to[i] : 0];
    const strong = Math.max(opacity(up), opacity(down)) > 0.62;
    const halves = [from && rgba(KEY, opacity(up)), to && rgba(QUERY, opacity(down))].filter(Boolean);
    part.style.background = halves.length > 1 ? `linear-gradient(${halves[0]} 50%, ${halves[1]} 50%)` : halves[0] || "";
    part.classList.toggle("strong", strong);
    part.classList.toggle("chosen", i === index);
    part.setAttribute("aria-pressed", i === kept);
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
  const list = (weights) => strongest(weights).map((i) => `${isolate(panel.left_text[i])} ${weights[i].toFixed(2)}`).join(", ");
  const said = [`${title()}: ${isolate(panel.left_text[index])}, token ${index}`];
  if (from) said.push(`attends most to ${list(from.weights)}${KEPT < TOKENS ? `, elsewhere ${from.elsewhere.toFixed(2)}` : ""}`);
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
  const paragraph = document.createElement("p");
  paragraph.id = "text";
  parts = panel.text.map((text, i) => {
    if (i === view.prompt_length) {
      const mark = document.createElement("span");
      Object.assign(mark, { id: "written", textContent: "▸", title: "Here the prompt ends, and the model begins to write." });
      paragraph.append(mark);
    }
    const part = document.createElement("span"), word = text.trim() || "␣";
    part.className = "word";
    part.textContent = word;
    if (view.surprise) {
      part.style.borderBottom = `3px solid rgba(192,0,12,${clamp((view.surprise[i] || 0) / 12, 0, 1).toFixed(2)})`;
    }
    // Spaces and ends of lines stand between the tokens.
    paragraph.append(text.startsWith(" ") ? " " : "", part, text.endsWith("\n") ? document.createElement("br") : "");
    return part;
  });
  byId("vis").append(paragraph);
  const keep = (index) => {
    kept = index;
    now = null;
    shade();
  };
  const press = (index) => keep(kept === index ? null : index);
  const point = (index) => {
    now = index;
    if (kept === null) shade();
    else now = null;
  };
  reach(parts, (_, index) => `${nameOf({ text: panel.left_text[index], pieces: [index] })}${index >= view.prompt_length && view.prompt_length !== null ? ", written by the model" : ""}`, (_, index) => ({
    press: () => press(index),
    onfocus: () => point(index),
    onblur: () => point(null),
  }));
  parts.forEach((part, index) => Object.assign(part, { onclick: () => press(index), onmouseenter: () => point(index) }));
  paragraph.onmouseleave = () => point(null);
  document.addEventListener("keydown", (event) => event.key === "Escape" && keep(null));
}

begin(async () => {
  levels = await numbers(panel.levels, 2, Uint16Array);
  keys = panel.keys && (await numbers(panel.keys, 2, Uint16Array));
  for (const id of ["layer", "head"]) {
    const list = view[`include_${id}s`], options = list.map((index, place) => [place, index]);
    fillMenu(id, list.length > 1 ? [...options, ["mean", "mean"]] : options, view[id]);
    byId(id).addEventListener("change", () => shade());
  }
  byId("way").addEventListener("change", shade);
  byId("said").insertAdjacentHTML("afterend", "<p id=nexts aria-live=polite></p>");
  byId("nexts").hidden = !view.nexts;
  drawText();
  kept = view.token;
  note();
  onChange(shade);
  shade();
});
