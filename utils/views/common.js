// Shared by the four views, and run before each: the numbers, the controls, the ground, and the keyboard.

const find = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const range = (count) => [...Array(count).keys()];
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const clamp = (number, least, most) => Math.max(least, Math.min(number, most));
function svg(parent, tag, attributes, text) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) part.setAttribute(name, attributes[name]);
  if (text !== undefined) part.textContent = text;
  parent.append(part);
  return part;
}
const add = (parent, tag, set) => parent.appendChild(Object.assign(document.createElement(tag), set));

// --- numbers

// They arrive deflated: weights as two bytes each, the square root of the weight in steps of 1/4095. In the text five signs
// are a number in base 85, of four bytes; the first sign says how many bytes at its end are left over.
const BASE_85 = range(94).map((sign) => sign + 33).filter((sign) => !"\"&'<\\".includes(String.fromCharCode(sign)));
const DIGITS_OF = Uint8Array.from(range(127), (sign) => Math.max(0, BASE_85.indexOf(sign)));
async function unpack(text) {
  const raw = new DataView(new ArrayBuffer(((text.length - 1) / 5) * 4));
  for (let i = 1, at = 0; i < text.length; at += 4) {
    let word = 0;
    for (const end = i + 5; i < end; i++) word = word * 85 + DIGITS_OF[text.charCodeAt(i)];
    raw.setUint32(at, word);
  }
  const deflated = new Response(raw.buffer.slice(0, raw.byteLength - text[0])).body;
  return new Uint8Array(await new Response(deflated.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
}
// Numbers of some bytes each come as all their first bytes, then all their second ones: so they are shorter.
async function numbers(text, size, make) {
  const planes = await unpack(text), count = planes.length / size, all = new Uint8Array(planes.length);
  for (let byte = 0; byte < size; byte++) for (let i = 0; i < count; i++) all[i * size + byte] = planes[byte * count + i];
  return new make(all.buffer);
}
const squares = Float32Array.from(range(4096), (level) => (level / 4095) ** 2);
function toWeights(levels) {
  const weights = new Float32Array(levels.length);
  for (let i = 0; i < levels.length; i++) weights[i] = squares[levels[i]];
  return weights;
}

const [whole] = view.attention;
view.attention.forEach((choice) => (choice.whole = choice.rows ? whole : choice)); // a part of a pair is cut out of the whole
// Run what draws when the numbers are there. Until then the page is see-through, and shows the picture behind its frame.
async function begin(draw) {
  for (const choice of view.attention) {
    if (choice.weights) choice.levels = await numbers(choice.weights, 2, Uint16Array);
  }
  await draw();
  document.documentElement.classList.add("drawn");
  new ResizeObserver(tellHeight).observe(byId("view"));
}
const tellHeight = () => parent !== window && parent.postMessage({ height: byId("view").offsetHeight + 24 }, "*");
const choiceNow = () => view.attention[byId("filter") ? byId("filter").value : 0];

// --- which tokens are shown

const ticked = (id) => Boolean(byId(id) && byId(id).checked);
// The indices of the tokens that are hidden on one side. All of them are never hidden.
function hiddenOf({ whole }, side) {
  const special = ticked("hide") ? whole[`${side}_special`] || [] : [];
  const hidden = new Set(ticked("first") ? [0, ...special] : special);
  return hidden.size < whole[`${side}_text`].length ? hidden : new Set();
}
// The lines of text on one side of a choice, each with its pieces: the indices of its tokens in the whole panel. With
// "Words" a line has the pieces of a word.
function linesOf(choice, side, joined = ticked("words")) {
  const { [`${side}_text`]: text, [`${side}_words`]: words } = choice.whole;
  const [from, to] = choice[side === "left" ? "rows" : "columns"] || [0, text.length];
  const hidden = hiddenOf(choice, side), lines = [];
  for (let i = from; i < to; i++) {
    const last = lines[lines.length - 1];
    if (hidden.has(i)) continue;
    if (joined && words && last && words[last.pieces[0]] === words[i]) {
      last.pieces.push(i);
      last.text += text[i].replace(/^##/, "");
    } else {
      lines.push({ text: text[i], pieces: [i] });
    }
  }
  return lines.length ? lines : [{ text: text[from], pieces: [from] }];
}
// What a row of weights is multiplied by: with "Rescale" so much that those to keys that are not hidden add up to 1.
function scaleOf(row, hidden) {
  if (!ticked("rescale") || !hidden.size) return 1;
  let rest = 0;
  for (let key = 0; key < row.length; key++) if (!hidden.has(key)) rest += row[key];
  return rest > 0 ? 1 / rest : 0;
}
// Add the weights from each line of the left to each of the right to `into`, row by row. rowOf(query) gives a row of
// weights. Between words: the sum over the pieces of the key, the mean over those of the query.
function gather(into, rowOf, left, right, hidden, share = 1) {
  let place = 0;
  for (const { pieces: queries } of left) {
    for (const query of queries) {
      const row = rowOf(query), scale = (scaleOf(row, hidden) * share) / queries.length;
      right.forEach(({ pieces: keys }, i) => {
        for (const key of keys) into[place + i] += row[key] * scale;
      });
    }
    place += right.length;
  }
  return into;
}
// The weights of a head. The layer or head after the last is the mean of all.
function weightsOf(choice, left, right, layer, head) {
  const { shape: [layers, heads, rows, columns], levels } = choice.whole;
  const weightsFrom = (start, count) => toWeights(levels.subarray(start, start + count));
  const each = (index, count) => (index < count ? [index] : range(count));
  const starts = each(layer, layers).flatMap((l) => each(head, heads).map((h) => (l * heads + h) * rows * columns));
  // A head as it is: nothing is hidden, joined or averaged.
  if (starts.length === 1 && left.length === rows && right.length === columns) return weightsFrom(starts[0], rows * columns);
  const into = new Float32Array(left.length * right.length), hidden = hiddenOf(choice, "right");
  for (const start of starts) {
    gather(into, (query) => weightsFrom(start + query * columns, columns), left, right, hidden, 1 / starts.length);
  }
  return into;
}

// --- ink

const isDark = () => view.display_mode === "dark";
const ofColours = (colours, index) => colours[view.display_mode][index % colours[view.display_mode].length];
const colourOf = (index) => ofColours(view.colours, index);
const textColour = () => (isDark() ? "#cccccc" : "#202020");
// The exponent from a weight to its opacity, where so many heads lie upon each other. One head's faint ink is seen less in the dark.
const exponent = (heads) => 1 / (view.strengths[heads > 1 ? 1 : 0] * 2 ** byId("strength").value * (heads === 1 && isDark() ? 1.5 : 1));

// How wide a drawing is, in pixels. A frame that is not shown yet has no width.
const widthOfPage = (most = 1100) => clamp(document.documentElement.clientWidth - 16, 300, most);

// Make words smaller that are wider than their room: all together, if a little is enough. On a busy machine a frame may not
// be laid out yet, and measures no word: then all is drawn again, until it is.
let again, tries = 50;
function fit(words, room) {
  const widths = words.map((word) => word.getComputedTextLength()), own = widths.map((width) => Math.min(1, room / width));
  if (!widths.some(Boolean) && !again && tries-- > 0) {
    again = requestAnimationFrame(() => {
      again = 0;
      dispatchEvent(new Event("ground"));
    });
  }
  const all = Math.min(1, ...own.filter((share) => share > 0.8)), shares = own.map((share) => Math.min(share, all));
  words.forEach((word, i) => {
    if (shares[i] < 1) word.style.fontSize = `${shares[i] * parseFloat(getComputedStyle(word).fontSize)}px`;
  });
}

// --- words that are watched

// Call show(side, index) while one of the words is pointed at or has the focus, and `rest` when none is. A click or
// Enter keeps it: it is shown when none is pointed at, or, if it holds, whatever is; again, or Escape, lets go. rows: lists
// of the parts, all of a list in one parent; names: those of the parts.
function watch(rows, names, show, rest, holds = false) {
  const watched = { kept: null };
  const each = (act) => rows.forEach((list, side) => list.forEach((row, index) => act(row, side, index)));
  const is = (place, side, index) => Boolean(place && place[0] === side && place[1] === index);
  const point = (place) => {
    each((row, ...at) => row.classList.toggle("now", is(place, ...at)));
    if (place) show(...place);
    else rest();
  };
  watched.keep = (place) => {
    watched.kept = place && place[1] < rows[place[0]].length ? place : null;
    each((row, ...at) => row.setAttribute("aria-pressed", is(watched.kept, ...at)));
    point(watched.kept);
  };
  const free = (act) => () => (holds && watched.kept) || act();
  const press = (...at) => watched.keep(is(watched.kept, ...at) ? null : at);
  rows.forEach((list, side) => reach(list, (_, index) => names[side][index], (_, index) => ({
    press: () => press(side, index),
    onfocus: free(() => point([side, index])),
    onblur: () => point(watched.kept),
  })));
  each((row, ...at) => Object.assign(row, { onclick: () => press(...at), onmouseover: free(() => point(at)) }));
  rows.forEach(([{ parentNode }]) => (parentNode.onmouseleave = () => point(watched.kept)));
  watched.keep(null);
  return watched;
}

// --- controls, and what is said

// Fill a menu with the indices of layers or heads, each of which has its place as its value, and with their mean.
function fillMenu(id, indices, chosen, mean = []) {
  const options = [...indices.keys(), ...(indices.length > 1 ? mean : [])];
  byId(id).replaceChildren(...options.map((value) => new Option(indices[value] ?? value, value, false, value === chosen)));
}
// What stands below does not move up again, away from the pointer: the text keeps the room of its longest one.
function say(text) {
  byId("said").textContent = text;
  byId("said").style.minHeight = `${byId("said").offsetHeight}px`;
}
const HINT = matchMedia("(hover: none)").matches
  ? "Tap a token to see its weights in digits. A second tap lets go."
  : "Point at a token to see its weights in digits. A click keeps it, Escape lets go.";

// A text between others. What is written from right to left, or says that it is, turns nothing round beside it.
const isolate = (text) => `\u2068${text || "empty"}\u2069`;
const nameOf = ({ text, pieces }) => `${text || "empty"}, token ${pieces[0]}`;
// The name of a head, as in the field: L2H0.
function nameOfHead(layer, head) {
  if (layer === "mean") return head === "mean" ? "mean of all layers and heads" : `head ${head}, mean of the layers`;
  return head === "mean" ? `layer ${layer}, mean of all heads` : `L${layer}H${head}`;
}
const strongest = (weights, most = 3) => [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, most);

const listOf = (texts, weights, decimals = 2) => strongest(weights).map((i) => `“${isolate(texts[i])}” ${weights[i].toFixed(decimals)}`).join(", ");

// What is said of the token that is pointed at. `weights` are those to or from `others`; `of` says which these are.
function sayWeights(line, isQuery, others, weights, of, decimals) {
  const list = listOf(others.map(({ text }) => text), weights, decimals);
  say(`${of}: “${isolate(line.text)}” (token ${line.pieces[0]}) ${isQuery ? "attends most to" : "gets most from"} ${list}.`);
}
function note() {
  const hidden = ticked("hide") || ticked("first");
  const first = ticked("first") ? "The first token is hidden." : "";
  const left = "What is hidden keeps its share: the weights that are left add up to less than 1.";
  const rest = hidden && (ticked("rescale") ? "The rest is rescaled: in each row it adds up to 1." : left);
  const words = ticked("words") && "To a word: the sum over its pieces. From a word: the mean over its pieces.";
  byId("note").textContent = [view.remark && `Note: ${view.remark}.`, words, first, rest].filter(Boolean).join(" ");
}
// Call `redraw` when a control changes, the ground, or the width of the page.
function onChange(redraw) {
  find("#menus input, #menus select").forEach((control) => control.addEventListener(control.matches("input") ? "input" : "change", () => {
    note();
    redraw(control.id);
  }));
  note();
  const anew = (what) => {
    byId("said").style.minHeight = ""; // it was of another width
    redraw(what);
  };
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) anew("width");
    width = innerWidth;
  });
  addEventListener("ground", () => anew("ground"));
}

// --- the ground

// In a frame the notebook says by a message whether it is dark; a page by itself goes by the browser's setting.
const wish = view.display_mode, prefersDark = matchMedia("(prefers-color-scheme: dark)");
let scheme = parent === window ? "light dark" : "light";
function setGround(to) {
  const before = view.display_mode, both = /light/.test(to) && /dark/.test(to);
  const dark = wish === "auto" ? (both ? prefersDark.matches : /dark/.test(to)) : wish === "dark";
  [scheme, view.display_mode] = [to, dark ? "dark" : "light"];
  for (const mode of ["light", "dark"]) document.documentElement.classList.toggle(mode, mode === view.display_mode);
  if (view.display_mode !== before) dispatchEvent(new Event("ground"));
}
setGround(scheme);
addEventListener("message", ({ data }) => {
  if (typeof data === "string") setGround(data);
  if (document.documentElement.classList.contains("drawn")) setTimeout(tellHeight); // when all is drawn anew
});
prefersDark.addEventListener("change", () => setGround(scheme));

// --- the keyboard

// What is drawn for the mouse can be reached by keyboard too: Tab goes to a group, the arrows go through it, Enter and
// the space bar do what a click does. Each part has a name that a screen reader says.
const send = (part, type) => part.dispatchEvent(new MouseEvent(type, { bubbles: true }));
function reach(parts, name, act, perRow = 1) {
  parts.forEach((part, index) => {
    const { press, onfocus, onblur } = act(part, index);
    const set = { tabindex: index ? -1 : 0, role: press ? "button" : "img", "aria-label": name(part, index) };
    Object.entries(set).forEach(([key, value]) => part.setAttribute(key, value));
    Object.assign(part, { onfocus, onblur });
    part.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowDown: perRow, ArrowLeft: -1, ArrowUp: -perRow }[event.key];
      const next = parts[index + step];
      if (next) {
        parts.forEach((other) => other.setAttribute("tabindex", other === next ? 0 : -1));
        next.focus();
      } else if (press && (event.key === "Enter" || event.key === " ")) {
        press(event.key);
      } else if (!step) {
        return;
      }
      event.preventDefault();
    };
  });
}
