// The head view: two columns of tokens, a line from each query to each key, and a numbered square for each head.

let ROW = 22.5, SIZE = 15, SHARE = 0.26; // of a row: height, letters; of the width: a column of words
const TOP = 24;
const LONG = 30; // more lines of text seldom fit on a screen
let LINES = 124; // the least room for lines
let words, place; // the width of a column of words; where lines run between the columns
let ink, inkOfOne; // the canvas of all lines, and that of one token's
let left, right, weights, shown; // the lines of text; the weights (head, then row by row); which heads are on
let watched;
const count = whole.shape[1], MEAN = count; // the mean of all heads has the index after the last
const layers = view.include_layers;
const heads = () => range(shown.length).filter((head) => shown[head]);
const headColour = (head) => (head === MEAN ? textColour() : colourOf(head));
const layerNow = () => layers[byId("layer").selectedIndex] ?? "mean";
const nameOfOne = (head) => nameOfHead(layerNow(), head === MEAN ? "mean" : head);

function draw() {
  const choice = choiceNow(), layer = byId("layer").selectedIndex, kept = watched?.kept;
  const width = widthOfPage(), digits = width < 480 ? 34 : 48;
  words = Math.min(SHARE * width, (width - LINES) / 2 - digits);
  place = { left: digits + words, right: width - digits - words, top: TOP, step: ROW };
  [left, right] = ["left", "right"].map((side) => linesOf(choice, side));
  weights = shown.map((_, head) => (head === MEAN && !shown[MEAN] ? null : weightsOf(choice, left, right, layer, head)));
  const height = Math.max(left.length, right.length) * ROW + TOP + 4;
  byId("vis").replaceChildren();
  // No larger than the lines need, in whole pixels. Their slanted ends stand out a little.
  const start = Math.floor(place.left) - 1;
  [ink, inkOfOne] = [0, 1].map(() => addCanvas(byId("vis"), place.right - place.left + 3, height));
  [ink, inkOfOne].forEach((one) => {
    one.canvas.style.left = `${start}px`;
    one.translate(-start, 0);
  });
  const drawing = svg(byId("vis"), "svg", { width, height });
  svg(drawing, "text", { class: "heading query", x: place.left - 7.5, y: 15, "text-anchor": "end" }, "query");
  svg(drawing, "text", { class: "heading key", x: place.right + 7.5, y: 15 }, "key");
  drawAll();
  watched = drawColumns(drawing, [left, right], place, { words, size: SIZE, away: 6, room: 0.68 * words - 10 }, paint, rest);
  if (kept) watched.keep(kept);
}
function drawAll() {
  clear(ink);
  if (shown[MEAN]) weights[MEAN] ||= weightsOf(choiceNow(), left, right, byId("layer").selectedIndex, MEAN);
  const each = heads().map((head) => ({ weights: weights[head], colour: headColour(head) }));
  drawLines(ink, each, right.length, exponent(each.length), place);
}

// --- the token that is pointed at

const showOnly = (which) => [ink, inkOfOne].forEach((one) => (one.canvas.style.visibility = one === which ? "visible" : "hidden"));
function paint(ends, side, index) {
  const on = heads();
  const weightsAt = ([row, column]) => on.map((head) => weights[head][row * right.length + column]);
  showOnly(inkOfOne);
  clear(inkOfOne);
  ends.forEach((end) => drawTogether(on, weightsAt(end), end));
  const mean = ends.map((end) => sum(weightsAt(end)) / on.length);
  drawBoxes(side, on, ends.map(weightsAt));
  if (ends.length > LONG && watched?.kept) drawGathered(side, index, mean);
  return [mean, on.length > 1 ? `Layer ${layerNow()}, mean of the ${on.length} heads shown` : nameOfOne(on[0])];
}
// The lines of all heads from one token to another lie on one place. They are drawn as one, in the colour that they
// make together: a twelfth of the time. Of one token there are so few that each has its full strength.
function drawTogether(on, weights, [row, column]) {
  let opacity = 0;
  const colour = [0, 0, 0];
  strongest(weights, on.length).reverse().forEach((i) => {
    const own = weights[i] ** exponent(1), hue = headColour(on[i]);
    opacity += own * (1 - opacity);
    [1, 3, 5].forEach((at, part) => (colour[part] += (parseInt(hue.slice(at, at + 2), 16) - colour[part]) * (own / opacity || 0)));
  });
  inkOfOne.strokeStyle = `rgb(${colour})`;
  drawLine(inkOfOne, opacity, row, column, place);
}
// Beside each of a token's partners a row of boxes, one for each head.
function drawBoxes(side, on, all) {
  find(".boxes").forEach((part) => part.remove());
  const group = svg(byId("vis").querySelector("svg"), "g", { class: "boxes" });
  const wide = 0.3 * words, width = wide / on.length, x = side ? place.left - words : place.right + words - wide;
  all.forEach((weights, row) => weights.forEach((weight, i) => svg(group, "rect", {
    x: x + i * width, y: TOP + row * ROW + 2, width, height: ROW - 4, fill: headColour(on[i]), opacity: weight ** exponent(1),
  })));
}
// Beside a kept token of a long text, what it attends to most: so that both are on one screen.
function drawGathered(side, index, mean) {
  find("#gathered").forEach((part) => part.remove());
  const others = [right, left][side];
  const best = strongest(mean, 12).filter((i) => mean[i] >= 0.005).sort((a, b) => a - b);
  const box = add(byId("vis"), "div", { id: "gathered" });
  best.forEach((i) => add(box, "div", { textContent: `${mean[i].toFixed(2)} ${isolate(others[i].text)}`, title: nameOf(others[i]) }));
  const top = TOP + (index + 0.5) * ROW - box.offsetHeight / 2;
  box.style.top = `${clamp(top, 0, byId("vis").offsetHeight - box.offsetHeight)}px`;
  box.style.left = `${side ? place.right - 12 - box.offsetWidth : place.left + 12}px`;
}
function rest() {
  showOnly(ink);
  find(".boxes, #gathered").forEach((part) => part.remove());
}

// --- the heads

function drawSquares() {
  const names = shown.map((_, head) => `<button>${head === MEAN ? "mean" : head}</button>`);
  byId("vis").insertAdjacentHTML("beforebegin", `<div id=heads role=group aria-label=Heads>${names.join("")}</div>`);
  const buttons = find("#heads button");
  const name = (_, head) => head === MEAN
    ? "Mean of all heads. Space or Enter shows it alone, or all heads."
    : `Head ${head}. Space shows or hides it, Enter shows it alone.`;
  const press = (head, alone) => {
    const onlyThis = shown[head] && heads().length === 1;
    if (alone || head === MEAN) {
      shown = shown.map((_, i) => (onlyThis ? i !== MEAN : i === head));
    } else if (!onlyThis) {
      shown[head] = !shown[head];
      if (count > 1) shown[MEAN] = false;
    }
    markSquares();
    drawAll();
    if (watched.kept) watched.keep(watched.kept);
  };
  reach(buttons, name, (_, head) => ({ press: (key) => press(head, key === "Enter") }));
  let before; // the two clicks of a double click undo each other, or not
  buttons.forEach((button, head) => {
    button.onclick = ({ detail }) => {
      if (detail > 1) shown = before;
      else before = [...shown];
      press(head, detail > 1);
    };
  });
  markSquares();
}
function markSquares() {
  find("#heads button").forEach((button, head) => {
    button.setAttribute("aria-pressed", shown[head]);
    button.style.setProperty("--colour", headColour(head));
    button.style.setProperty("--on", head === MEAN ? "var(--ground)" : view.inks[head % view.inks.length]);
  });
}
// Faint lines of two heads may look alike: the status line names the head of the line under the pointer, and its square
// is marked.
function nameLine({ clientX, clientY }) {
  const box = byId("vis").getBoundingClientRect(), along = (clientX - box.left - place.left) / (place.right - place.left);
  const y = (clientY - box.top - TOP) / ROW - 0.5;
  let best = null;
  if (along > 0 && along < 1 && !watched.kept) {
    left.forEach((_, row) => right.forEach((_, column) => {
      if (Math.abs(row + along * (column - row) - y) * ROW > 2) return;
      for (const head of heads()) {
        const weight = weights[head][row * right.length + column];
        if (weight >= 0.005 && weight > (best?.weight ?? 0)) best = { weight, head, row, column };
      }
    }));
  }
  find("#heads button").forEach((button, head) => button.classList.toggle("named", head === best?.head));
  if (!best) return byId("digits").childNodes.length || say(HINT);
  return say(`${nameOfOne(best.head)}: ${isolate(left[best.row].text)} to ${isolate(right[best.column].text)} ${best.weight.toFixed(2)}`);
}

begin(() => {
  fillMenu("layer", layers, layers.indexOf(view.layer), ["mean"]);
  shown = range(count).map((head) => view.heads.includes(head));
  if (count > 1) shown.push(false);
  drawSquares();
  document.addEventListener("keydown", (event) => event.key === "Escape" && watched.keep(null));
  byId("vis").addEventListener("mousemove", nameLine);
  onChange((what) => {
    if (["filter", "words", "hide", "first"].includes(what)) watched.keep(null);
    if (what === "ground") markSquares();
    draw();
  });
  draw();
});
