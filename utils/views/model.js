// The model view: a small picture of each head in a grid, and beside it the one that is opened.

const AXIS = 38, EDGE = 5; // the width of the numbers before the rows; the room around a small picture
const SIDE = 340, NARROW = 760; // the width of what stands beside the grid; of a page where it stands below
const DIGITS = 44, ROW = 18, SIZE = 13; // of the opened picture
let left, right; // the lines of text
let layers, heads; // the rows and columns: layers and heads, and "mean"
// The size of a small picture; the step from a token to the next in it; how many tokens make one line there, how wide a
// line is, and how much paler than its weight: as in a larger picture that is shrunk.
let cell;
let opened = null; // {row, column, watched}
const weightsAt = (row, column) => weightsOf(choiceNow(), left, right, row, column);
const rowColour = (row) => (layers[row] === "mean" ? textColour() : colourOf(layers[row]));
const name = (row, column) => nameOfHead(layers[row], heads[column]);
const frameOf = (row, column) => find("#grid .frame")[row * heads.length + column];

// As `grid_cell` of pictures.py.
function layOut() {
  const width = widthOfPage(), beside = width >= NARROW, total = Math.max(view.total_heads, heads.length);
  const longest = Math.max(left.length, right.length);
  const room = width - AXIS - (beside ? SIDE : 0);
  let step = 84 / total, wide = Math.floor(room / total), height = longest * step + 2 * EDGE;
  if (ticked("compact")) {
    height = Math.min(height, clamp(Math.floor(760 / layers.length), 18, 200));
    wide = Math.min(wide, Math.max(44, Math.round(2.2 * height)));
    step = (height - (height < 40 ? 4 : 2 * EDGE)) / longest;
  }
  const bin = Math.max(1, Math.ceil(2 / step));
  const line = Math.min(view.line, Math.max(1, step * bin));
  cell = { width: wide, height, step, bin, line, thin: Math.min(1, (0.6 * step) / line) };
  byId("vis").classList.toggle("beside", beside);
  (beside ? byId("side") : byId("vis")).prepend(byId("said"), byId("note"));
  byId("grid").style.maxHeight = `${34 + Math.max(1, Math.floor(800 / height)) * height}px`; // cuts no row
}
function draw() {
  const again = opened && [opened.row, opened.column], kept = opened?.watched.kept;
  close();
  [left, right] = ["left", "right"].map((side) => linesOf(choiceNow(), side));
  const mean = ticked("mean") ? ["mean"] : [];
  layers = [...view.include_layers, ...mean];
  heads = [...view.include_heads, ...mean];
  layOut();
  const [width, height] = [AXIS + heads.length * cell.width, layers.length * cell.height];
  byId("rows").replaceChildren();
  byId("rows").style.width = byId("columns").style.width = `${width}px`;
  byId("columns").innerHTML = heads.map((head, i) => `<span style="left:${AXIS + i * cell.width}px;width:${cell.width}px">${head}</span>`).join("");
  drawGrid(addCanvas(byId("rows"), width, height));
  const drawing = svg(byId("rows"), "svg", { width, height });
  layers.forEach((layer, row) => svg(drawing, "text", { x: AXIS - 4, y: (row + 0.5) * cell.height + 5, "text-anchor": "end" }, layer));
  const frames = layers.flatMap((_, row) => heads.map((_, column) => svg(drawing, "rect", {
    class: "frame", x: AXIS + column * cell.width, y: row * cell.height, width: cell.width, height: cell.height, stroke: rowColour(row),
  })));
  const at = (i) => [Math.floor(i / heads.length), i % heads.length];
  reach(frames, (_, i) => `${name(...at(i))}. Enter opens or closes it.`, (_, i) => ({ press: () => toggle(...at(i)) }), heads.length);
  frames.forEach((frame, i) => Object.assign(frame, {
    onclick: () => toggle(...at(i)),
    onmouseenter: () => opened || sayStrongest(...at(i)),
    onfocus: () => opened || sayStrongest(...at(i)),
  }));
  if (again && again[0] < layers.length && again[1] < heads.length) {
    toggle(...again);
    if (kept) opened.watched.keep(kept);
  } else {
    say("Click a head to open it.");
  }
}
function drawGrid(ink) {
  clear(ink);
  const { bin, step, width, height, thin } = cell, [rows, columns] = [left, right].map((lines) => Math.ceil(lines.length / bin));
  const power = exponent(1), inner = step * Math.max(left.length, right.length);
  layers.forEach((_, row) => heads.forEach((_, column) => {
    let weights = weightsAt(row, column);
    if (thin < 1) weights = together(weights, rows, columns, power);
    const x = AXIS + column * width + EDGE;
    const place = { left: x, right: x + width - 2 * EDGE - 4, top: row * height + (height - inner) / 2, step: step * bin, line: cell.line };
    drawLines(ink, [{ weights, colour: rowColour(row) }], columns, thin < 1 ? 1 : power, place);
  }));
}
// Lines that would lie within two pixels are drawn as one, as opaque as they are together.
function together(weights, rows, columns, power) {
  const through = new Float32Array(rows * columns).fill(1);
  for (let q = 0, i = 0; q < left.length; q++) {
    for (let k = 0; k < right.length; k++, i++) {
      through[Math.floor(q / cell.bin) * columns + Math.floor(k / cell.bin)] *= 1 - cell.thin * Math.min(1, weights[i] ** power);
    }
  }
  return through.map((part) => 1 - part);
}
// Of a head that is pointed at: which key gets most, over all queries.
function sayStrongest(row, column) {
  const weights = weightsAt(row, column);
  const shares = right.map((_, k) => sum(left.map((_, q) => weights[q * right.length + k])) / left.length);
  const [best] = strongest(shares, 1);
  say(`${name(row, column)}: of all keys ${isolate(right[best].text)} gets most, ${shares[best].toFixed(2)} of a query's weight on average. A click opens the head.`);
}

// --- the picture that a click opens

function toggle(row, column) {
  const again = opened && opened.row === row && opened.column === column;
  close();
  if (!again) open(row, column);
}
function open(row, column) {
  const frame = frameOf(row, column), width = clamp(byId("side").clientWidth - 26, 270, 480);
  frame.classList.add("opened");
  const card = byId("card");
  card.innerHTML = `<h2>${name(row, column)} <button aria-label="Close ${name(row, column)}">×</button></h2>`;
  card.hidden = false;
  card.style.borderColor = rowColour(row);
  card.querySelector("button").onclick = close;
  const height = Math.max(left.length, right.length) * ROW + 4, words = 0.26 * width - 4;
  const inside = add(card, "div", { id: "detail" });
  const place = { left: DIGITS + words, right: width - DIGITS - words, top: 0, step: ROW, line: view.line };
  const ink = addCanvas(inside, width, height), drawing = svg(inside, "svg", { width, height });
  const weights = weightsAt(row, column), colour = rowColour(row), power = exponent(1);
  const paint = (ends) => {
    const shown = ends.map(([query, key]) => weights[query * right.length + key]);
    clear(ink);
    ink.strokeStyle = colour;
    ends.forEach((end, i) => drawLine(ink, shown[i] ** power, ...end, place));
    return [shown, name(row, column)];
  };
  const rest = () => {
    clear(ink);
    drawLines(ink, [{ weights, colour }], right.length, power, place);
  };
  opened = { row, column, watched: drawColumns(drawing, [left, right], place, { words: [words, words], size: SIZE, away: 4 }, paint, rest) };
}
function close() {
  if (!opened) return;
  byId("card").replaceChildren();
  byId("card").hidden = true;
  find(".opened").forEach((frame) => frame.classList.remove("opened"));
  opened = null;
  say("");
}

begin(() => {
  byId("vis").innerHTML = "<div id=grid><p id=axes>Head →, layer ↓</p><div id=columns aria-hidden=true></div><div id=rows></div></div><div id=side><div id=card hidden></div></div>";
  byId("compact").checked = view.compact;
  document.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !opened) return;
    if (opened.watched.kept) {
      opened.watched.keep(null);
    } else {
      frameOf(opened.row, opened.column).focus();
      close();
    }
  });
  onChange(draw);
  draw();
});
