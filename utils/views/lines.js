// Shared by the head and the model view: lines on a canvas, and the words at their ends.

// A canvas that the mouse does not notice, as sharp as the screen, if not larger than every browser allows.
function addCanvas(parent, width, height) {
  [width, height] = [Math.ceil(width), Math.ceil(height)]; // of a part of a pixel the browser makes a whole one
  const sharpness = Math.min(Math.max(1, devicePixelRatio), Math.sqrt(16e6 / (width * height)));
  const canvas = add(parent, "canvas", { width: Math.round(width * sharpness), height: Math.round(height * sharpness), ariaHidden: true });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const ink = canvas.getContext("2d");
  ink.scale(sharpness, sharpness);
  return ink;
}
// A canvas keeps its colours in 255 steps. On the ground faint lines stay truer in them than on nothing.
function clear(ink) {
  ink.globalAlpha = 1; // the last line may have been faint
  ink.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ground");
  ink.fillRect(-99, 0, 1e5, 1e5);
}
// Draw a line from the middle of a row, at the left, to that of another, at the right. line: how wide; most: how wide one
// is that is not see-through at all.
function drawLine(ink, opacity, row, column, { left, right, top, step, line, most = 0 }) {
  ink.globalAlpha = Math.min(1, opacity);
  ink.lineWidth = Math.max(line, most * ink.globalAlpha);
  ink.beginPath();
  ink.moveTo(left, top + (row + 0.5) * step);
  ink.lineTo(right, top + (column + 0.5) * step);
  ink.stroke();
}
// Draw a line for each weight of each of some heads: {weights, colour}. Weights come row by row, so many columns in
// each. The faint lines of all heads are drawn first: so no head covers the others, and none is lost in the 255 steps.
function drawLines(ink, heads, columns, power, place) {
  const size = heads[0].weights.length, opacities = new Float32Array(size * heads.length);
  const starts = new Uint32Array(257), order = new Uint32Array(opacities.length);
  const stepOf = (opacity) => (opacity < view.faintest ? 0 : 1 + Math.floor(opacity * 255));
  heads.forEach(({ weights }, head) => {
    for (let i = 0; i < size; i++) {
      const opacity = Math.min(1, power === 1 ? weights[i] : weights[i] ** power);
      opacities[head * size + i] = opacity;
      starts[Math.min(256, stepOf(opacity) + 1)]++;
    }
  });
  for (let step = 1; step < 257; step++) starts[step] += starts[step - 1];
  const first = starts[1], next = starts.slice();
  for (let i = 0; i < opacities.length; i++) order[next[Math.min(255, stepOf(opacities[i]))]++] = i;
  let last = -1;
  for (const line of order.subarray(first)) {
    const head = Math.floor(line / size), i = line % size;
    if (head !== last) ink.strokeStyle = heads[head].colour;
    last = head;
    drawLine(ink, opacities[line], Math.floor(i / columns), i % columns, place);
  }
}

// Draw the words of the queries and of the keys, and watch them. lines: of text, on either side; place: where lines of ink
// run between the columns; words: how wide each column is; room: the share of it for words; free: how much is beside it;
// away: from it to the weights. Of a word that is pointed at, paint(ends, side, index) draws what belongs to its lines, whose
// ends are [query, key], and returns their weights, whose these are, and the colour of bars, if they are drawn as such.
function drawColumns(drawing, lines, place, { words, size, away, free, room = 1 }, paint, rest) {
  const { left, right, top, step } = place, y = (i) => top + (i + 0.5) * step + 0.35 * size;
  const rows = ["left", "right"].map((id, side) => {
    const column = svg(drawing, "g", { id }), x = side ? right : left - words[side];
    const at = side ? { x: right + 7.5, "text-anchor": "start" } : { x: left - 7.5, "text-anchor": "end" };
    const drawn = lines[side].map(({ text }, i) => {
      const row = svg(column, "g");
      svg(row, "rect", { class: "background", x, y: top + i * step, width: words[side], height: step });
      svg(row, "rect", { class: "chip", y: top + i * step + 1.5, height: step - 3, rx: 4 });
      svg(row, "text", { class: "token", ...at, y: y(i), "font-size": size }, text);
      return row;
    });
    fit(find(".token", column), room * words[side] - 10);
    return drawn;
  });
  const longest = rows.map((list) => Math.max(...list.map((row) => {
    const [, chip, word] = row.children, width = word.getComputedTextLength();
    chip.setAttribute("x", word.getAttribute("x") - (word.getAttribute("text-anchor") === "end" ? width : 0) - 6);
    chip.setAttribute("width", width + 12);
    return width + 20;
  })));
  const digits = svg(drawing, "g", { id: "digits" });
  const show = (side, index) => {
    const others = lines[1 - side], ends = others.map((_, other) => (side ? [other, index] : [index, other]));
    const [weights, of, fill] = paint(ends, side, index), [best] = strongest(weights, 1);
    const start = longest[1 - side], column = words[1 - side];
    const most = Math.max(0, column + free - start - 40); // of a bar, with room for digits
    digits.replaceChildren();
    weights.forEach((weight, i) => {
      const width = fill && weight >= view.least ? weight * most : 0;
      const beyond = fill ? start + width + (width && 6) : column + away, x = side ? left - start - width : right + start;
      if (width) svg(digits, "rect", { class: "bar", x, y: top + i * step + 3, width, height: step - 6, fill });
      const at = side ? { x: left - beyond, "text-anchor": "end" } : { x: right + beyond, "text-anchor": "start" };
      svg(digits, "text", { class: `digits${weight < view.least ? " none" : ""}`, ...at, y: y(i) }, weight.toFixed(2));
      rows[1 - side][i].classList.toggle("best", i === best && weight >= view.least);
    });
    rows[side].forEach((row) => row.classList.remove("best"));
    sayWeights(lines[side][index], !side, others, weights, of);
  };
  return watch(rows, lines.map((side) => side.map(nameOf)), show, () => {
    digits.replaceChildren();
    rows.flat().forEach((row) => row.classList.remove("best"));
    rest();
    say(HINT);
  });
}
