// The head view: two columns of tokens, a line from each query to each key, and a numbered square for each head.

const ROWS = [24, 22.5], SIZE = 15; // of a row: its height on a phone and else, its letters
const SHARES = [[0.28, 0.34], [0.26, 0.26]]; // of the width, for words and bars at the left and right: on a phone, and else
const TOP = 24;
const LONG = 30; // more lines of text seldom fit on a screen
const LINES = [124, 124]; // the least room for lines, or a third of the page: on a phone, and else
let ROW, words, place; // the widths of the columns of words; where lines run between them
let ink, inkOfOne; // the canvas of all lines, and that of one token's
let left, right, weights, shown; // the lines of text; the weights (head, then row by row); which heads are on
let watched;
const count = whole.shape[1], MEAN = count; // the mean of all heads has the index after the last
const layers = view.include_layers;
const heads = () => range(shown.length).filter((head) => shown[head]);
const isAlone = (head) => shown[head] && heads().length === 1; // drawn as the arrows of attention in the drawings
const headColour = (head) => (head === MEAN ? textColour() : isAlone(head) ? ofColours(view.alone, 0) : colourOf(head));
const layerNow = () => layers[byId("layer").selectedIndex] ?? "mean";
const nameOfOne = (head) => nameOfHead(layerNow(), head === MEAN ? "mean" : head);

function draw() {
  const choice = choiceNow(), layer = byId("layer").selectedIndex;
  const kept = watched ? watched.kept && pieceAt(...watched.kept) : [0, view.token]; // stays, also when others are hidden
  const width = clamp(byId("vis").offsetWidth, 260, 1100), narrow = width < 480, digits = narrow ? 34 : 48;
  ROW = ROWS[narrow ? 0 : 1];
  const shares = SHARES[narrow ? 0 : 1], room = width - Math.min(LINES[narrow ? 0 : 1], width / 3) - 2 * digits;
  words = shares.map((share) => share * Math.min(width, room / sum(shares)));
  place = { left: digits + words[0], right: width - digits - words[1], top: TOP, step: ROW, line: view.line, most: view.most };
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
  const sizes = { words, size: SIZE, away: 6, free: digits, room: narrow ? 0.95 : 0.82 };
  watched = drawColumns(drawing, [left, right], place, sizes, paint, rest);
  const index = kept ? [left, right][kept[0]].findIndex(({ pieces }) => pieces.includes(kept[1])) : -1;
  watched.keep(index < 0 ? null : [kept[0], index]);
}
const pieceAt = (side, index) => [side, [left, right][side][index].pieces[0]];
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
  const mean = ends.map((end) => sum(weightsAt(end)) / on.length);
  showOnly(inkOfOne);
  clear(inkOfOne);
  ends.forEach((end, i) => drawTogether(on, weightsAt(end), mean[i], end));
  find(".boxes").forEach((part) => part.remove());
  if (on.length > 1) drawBoxes(side, on, ends.map(weightsAt));
  if (ends.length > LONG && watched?.kept) drawGathered(side, index, mean);
  if (on.length > 1) return [mean, `Layer ${layerNow()}, mean of the ${on.length} heads shown`];
  return [mean, nameOfOne(on[0]), headColour(on[0])];
}
// The lines of all heads from one token to another lie on one place. They are drawn as one, in the colour that they
// make together: a twelfth of the time. Of one token there are so few that each can be seen, as wide as their mean weight;
// only what would be 0.00 is left out.
function drawTogether(on, weights, mean, [row, column]) {
  let opacity = 0;
  const colour = [0, 0, 0];
  strongest(weights, on.length).reverse().forEach((i) => {
    const own = weights[i] ** exponent(1), hue = headColour(on[i]);
    opacity += own * (1 - opacity);
    [1, 3, 5].forEach((at, part) => (colour[part] += (parseInt(hue.slice(at, at + 2), 16) - colour[part]) * (own / opacity || 0)));
  });
  inkOfOne.strokeStyle = `rgb(${colour})`;
  const line = Math.max(view.thin, 2 * view.most * mean);
  if (mean >= view.least) drawLine(inkOfOne, Math.max(view.firm, opacity), row, column, { ...place, line, most: 0 });
}
// Beside each of a token's partners a row of boxes, one for each head.
function drawBoxes(side, on, all) {
  const group = svg(byId("vis").querySelector("svg"), "g", { class: "boxes" });
  const column = words[1 - side], wide = 0.3 * column, width = wide / on.length;
  const x = side ? place.left - column : place.right + column - wide;
  all.forEach((weights, row) => weights.forEach((weight, i) => svg(group, "rect", {
    x: x + i * width, y: TOP + row * ROW + 2, width, height: ROW - 4, fill: headColour(on[i]), opacity: weight ** exponent(1),
  })));
}
// Beside a kept token of a long text, what it attends to most: so that both are on one screen.
function drawGathered(side, index, mean) {
  find("#gathered").forEach((part) => part.remove());
  const others = [right, left][side];
  const best = strongest(mean, 12).filter((i) => mean[i] >= view.least).sort((a, b) => a - b);
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
  byId("layer").parentNode.insertAdjacentHTML("afterend", `<div id=heads role=group aria-label=Heads><span>Heads:</span>${names.join("")}</div><span id=break></span>`);
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
    button.style.setProperty("--on", head === MEAN ? "var(--ground)" : isAlone(head) ? "black" : ofColours(view.inks, head));
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
        if (weight >= view.least && weight > (best?.weight ?? 0)) best = { weight, head, row, column };
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
    if (what === "filter") watched.keep(null);
    if (what === "ground") markSquares();
    draw();
  });
  draw();
});
