// Shared by the three views, and run before bertviz's code: the numbers, the controls, the ground, and the keyboard.

window.bertviz_params = view;
const find = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);

// bertviz asks require.js for jQuery and d3. Of jQuery it calls no more than this.
const requirejs = (names, draw) => draw($, d3);
const $ = (selector) => ({
  empty: () => find(selector).forEach((part) => part.replaceChildren()),
  attr: (name, value) => find(selector).forEach((part) => part.setAttribute(name, value)),
});

// --- numbers

// They arrive as base64: weights as one byte each (0 to 255), vectors as float32.
function bytes(text) {
  const signs = atob(text);
  const numbers = new Uint8Array(signs.length);
  for (let i = 0; i < signs.length; i++) numbers[i] = signs.charCodeAt(i);
  return numbers;
}

const [whole] = view.attention;
view.attention.forEach((choice) => {
  choice.whole = choice.shape ? choice : whole; // a part of a pair is cut out of the whole
  if (choice.weights) choice.levels = bytes(choice.weights);
});
const choiceNow = () => view.attention[byId("filter") ? byId("filter").value : 0];

// The lines of text on one side of a choice, each with its pieces: the indices of its tokens in the whole panel. With
// "Words" a line has the pieces of a word; with "Hide" the special tokens have no line.
function linesOf(choice, side) {
  const { [`${side}_text`]: text, [`${side}_words`]: words, [`${side}_special`]: special = [] } = choice.whole;
  const [from, to] = choice[side === "left" ? "rows" : "columns"] || [0, text.length];
  const make = (hidden) => {
    const lines = [];
    for (let i = from; i < to; i++) {
      const last = lines[lines.length - 1];
      if (hidden.includes(i)) continue;
      if (ticked("words") && words && last && words[last.pieces[0]] === words[i]) {
        last.pieces.push(i);
        last.text += text[i].replace(/^##/, "");
      } else {
        lines.push({ text: text[i], pieces: [i] });
      }
    }
    return lines;
  };
  const shown = make(ticked("hide") ? special : []);
  return shown.length ? shown : make([]);
}
// The weights of a head from each line of the left to each of the right, row by row. The layer or head after the last
// is the mean of all. Between words: the sum over the pieces of the key, the mean over those of the query.
function weightsOf(choice, left, right, layer, head) {
  const [layers, heads, rows, columns] = choice.whole.shape;
  const each = (index, count) => (index < count ? [index] : [...Array(count).keys()]);
  const starts = each(layer, layers).flatMap((l) => each(head, heads).map((h) => (l * heads + h) * rows * columns));
  const weights = new Float32Array(left.length * right.length);
  for (const start of starts) {
    let place = 0;
    for (const { pieces: queries } of left) {
      for (const { pieces: keys } of right) {
        let sum = 0;
        for (const q of queries) for (const k of keys) sum += choice.whole.levels[start + q * columns + k];
        weights[place++] += sum / (255 * starts.length * queries.length);
      }
    }
  }
  return weights;
}

// --- ink

const colourOf = (index) => view.colours[index % view.colours.length];
const textColour = () => (view.display_mode === "dark" ? "#cccccc" : "#202020");
// The exponent from a weight to its opacity, where so many heads lie upon each other.
const exponent = (heads) => 1 / (view.strengths[heads > 1 ? 1 : 0] * 2 ** byId("strength").value);

// A canvas in #vis that the mouse does not notice, as sharp as the screen, if not larger than every browser allows.
function addCanvas(width, height) {
  const canvas = document.createElement("canvas");
  height = Math.ceil(height); // of a part of a pixel the browser makes a whole one, and draws all lines a little longer
  const sharpness = Math.min(Math.max(1, devicePixelRatio), Math.sqrt(16e6 / (width * height)));
  Object.assign(canvas, { width: Math.round(width * sharpness), height: Math.round(height * sharpness) });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  canvas.setAttribute("aria-hidden", true);
  byId("vis").append(canvas);
  const ink = canvas.getContext("2d");
  ink.scale(sharpness, sharpness);
  ink.lineWidth = view.line;
  return ink;
}
// A canvas keeps its colours in 255 steps. On the ground faint lines stay truer in them than on nothing.
function clear(ink) {
  ink.fillStyle = view.display_mode === "dark" ? "black" : "white";
  ink.fillRect(-99, 0, 1e5, 1e5);
}
// Draw a line from the middle of a row, at the left, to that of another, at the right.
function drawLine(ink, opacity, row, column, { left, right, top, step }) {
  ink.globalAlpha = Math.min(1, opacity);
  ink.beginPath();
  ink.moveTo(left, top + (row + 0.5) * step);
  ink.lineTo(right, top + (column + 0.5) * step);
  ink.stroke();
}
// Draw a line for each weight. They come row by row, so many columns in each. The faint ones are drawn first: in the 255
// steps of a canvas they would be lost on the strong ones.
function drawLines(ink, weights, columns, colour, power, place) {
  const seen = [...weights.keys()].filter((i) => weights[i] ** power >= view.faintest).sort((i, j) => weights[i] - weights[j]);
  ink.strokeStyle = colour;
  seen.forEach((i) => drawLine(ink, weights[i] ** power, Math.floor(i / columns), i % columns, place));
}

// How wide a drawing is, in pixels. A frame that is not shown yet has no width.
const widthOfPage = (most = 1100) => Math.max(300, Math.min(document.documentElement.clientWidth - 16, most));

// Make words smaller that are wider than their room.
function fit(words, room) {
  const shares = words.map((word) => room / word.getComputedTextLength());
  words.forEach((word, i) => {
    if (shares[i] < 1) word.style.fontSize = `${shares[i] * parseFloat(getComputedStyle(word).fontSize)}px`;
  });
}

// --- controls

// Fill a menu with pairs of a value and what is read.
function fillMenu(id, options, chosen) {
  byId(id).replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
}
const ticked = (id) => Boolean(byId(id) && byId(id).checked);
const say = (text) => (byId("said").textContent = text);
const HINT = "Point at a token to see its weights in digits. A click keeps it, Escape lets go.";

// A text between others. What is written from right to left, or says that it is, turns nothing round beside it.
const isolate = (text) => `\u2068${text || "empty"}\u2069`;
const nameOf = ({ text, pieces }) => `${text || "empty"}, index ${pieces[0]}`;

// What is said of the token that is pointed at. `weights` are those to or from `others`; `of` says which these are.
function sayWeights(line, isQuery, others, weights, of) {
  const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  const list = best.map((i) => `${isolate(others[i].text)} ${weights[i].toFixed(2)}`).join(", ");
  say(`${nameOf({ ...line, text: isolate(line.text) })}, ${isQuery ? "attends most to" : "gets most from"}: ${list} (${of}).`);
}
function note() {
  const hidden = "What is hidden keeps its share: the weights that are left add up to less than 1.";
  const words = "To a word: the sum over its pieces. From a word: the mean over its pieces.";
  const notes = [ticked("words") && words, ticked("hide") && hidden].filter(Boolean);
  byId("note").textContent = notes.join(" ");
}
// Call `redraw` when a control changes, the ground, or the width of the page.
function onChange(redraw) {
  find("#words, #hide, #mean, #strength").forEach((control) => {
    control.addEventListener("input", () => {
      note();
      redraw(control.id);
    });
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) redraw("width");
    width = innerWidth;
  });
  addEventListener("ground", () => redraw("ground"));
}

// --- the ground

// In a frame the notebook says by a message whether it is dark; a page by itself goes by the browser's setting.
const wish = view.display_mode;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function setGround(scheme) {
  const both = /light/.test(scheme) && /dark/.test(scheme);
  const dark = wish === "auto" ? (both ? prefersDark.matches : /dark/.test(scheme)) : wish === "dark";
  view.display_mode = dark ? "dark" : "light";
  for (const mode of ["light", "dark"]) document.documentElement.classList.toggle(mode, mode === view.display_mode);
}
let scheme = parent === window ? "light dark" : "light";
setGround(scheme);
function changeGround(to) {
  scheme = to;
  const before = view.display_mode;
  setGround(scheme);
  if (view.display_mode !== before) dispatchEvent(new Event("ground"));
}
addEventListener("message", ({ data }) => typeof data === "string" && changeGround(data));
prefersDark.addEventListener("change", () => changeGround(scheme));

// --- the keyboard

// What bertviz draws for the mouse alone can be reached by keyboard too: Tab goes to a group, the arrows go through
// it, Enter and the space bar do what a click does. Each part has a name that a screen reader says.
const send = (part, type) => part.dispatchEvent(new MouseEvent(type, { bubbles: true }));
const hover = (part, leave = part) => ({
  onfocus: () => send(part, "mouseover"),
  onblur: () => send(leave, "mouseleave"),
});

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
// --- the token that is pointed at

// Call `show(isLeft, index)` while one of the tokens is pointed at or has the focus, and `rest` when none is. A click
// or Enter keeps it, so that the mouse can leave: then neither bertviz nor this page hears of others. Escape lets go.
const pointed = { now: null, kept: false };
// lists: the lines of text of either side.
function watch(sides, tokens, lists, show, rest) {
  const block = (event) => pointed.kept && event.stopPropagation();
  sides.forEach((side, right) => {
    const leave = () => {
      pointed.now = null;
      rest();
    };
    side.addEventListener("mouseleave", leave);
    for (const type of ["mouseover", "mouseleave"]) side.ownerSVGElement.addEventListener(type, block, true);
    const press = (index) => {
      const { kept, now } = pointed;
      letGo(sides, tokens);
      if (!(kept && now.right === right && now.index === index)) keep(tokens, right, index);
    };
    reach(tokens[right], (_, index) => nameOf(lists[right][index]), (token, index) => ({ ...hover(token, side), press: () => press(index) }));
    tokens[right].forEach((token, index) => {
      token.setAttribute("aria-pressed", false);
      token.addEventListener("click", () => press(index));
      token.addEventListener("mouseover", () => {
        pointed.now = { right, index };
        show(!right, index);
      });
    });
  });
}
function keep(tokens, right, index) {
  pointed.kept = false;
  send(tokens[right][index], "mouseover");
  tokens[right][index].setAttribute("aria-pressed", true);
  pointed.kept = true;
}
function letGo(sides, tokens) {
  pointed.kept = false;
  sides.forEach((side) => send(side, "mouseleave"));
  tokens.flat().forEach((token) => token.setAttribute("aria-pressed", false));
}
// The weights to (from) each of the others, in digits beside them.
function drawDigits(group, weights, x, anchor, y) {
  const texts = group.selectAll("text").data(weights);
  texts.exit().remove();
  texts.enter().append("text").classed("digits", true).merge(texts)
    .attr("x", x).attr("y", (_, i) => y(i)).attr("text-anchor", anchor).text((weight) => weight.toFixed(2));
}
