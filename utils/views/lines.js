// Shared by the head and the model view: lines on a canvas, and the words at their ends.

// A canvas that the mouse does not notice, as sharp as the screen, if not larger than every browser allows.
function addCanvas(parent, width, height) {
  [width, height] = [Math.ceil(width), Math.ceil(height)]; // of a part of a pixel the browser makes a whole one
  const sharpness = Math.min(Math.max(1, devicePixelRatio), Math.sqrt(16e6 / (width * height)));
  const canvas = add(parent, "canvas", { width: Math.round(width * sharpness), height: Math.round(height * sharpness), ariaHidden: true });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const ink = canvas.getContext("2d");
  ink.scale(sharpness, sharpness);
  ink.lineWidth = view.line;
  return ink;
}
// A canvas keeps its colours in 255 steps. On the ground faint lines stay truer in them than on nothing.
function clear(ink) {
  ink.globalAlpha = 1; // the last line may have been faint
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
// run between the columns; away: from a column to the weights beside it. Of a word that is pointed at, paint(ends, side,
// index) draws what belongs to its lines, whose ends are [query, key], and returns their weights and whose these are.
function drawColumns(drawing, lines, place, { words, size, away, room = words - 10 }, paint, rest) {
  const { left, right, top, step } = place, y = (i) => top + i * step + size;
  const rows = ["left", "right"].map((id, side) => {
    const column = svg(drawing, "g", { id }), x = side ? right : left - words;
    const at = side ? { x: right + 7.5, "text-anchor": "start" } : { x: left - 7.5, "text-anchor": "end" };
    const drawn = lines[side].map(({ text }, i) => {
      const row = svg(column, "g");
      svg(row, "rect", { class: "background", x, y: top + i * step, width: words, height: step });
      svg(row, "text", { class: "token", ...at, y: y(i), "font-size": size }, text);
      return row;
    });
    fit(find(".token", column), room);
    return drawn;
  });
  const digits = svg(drawing, "g", { id: "digits" });
  const show = (side, index) => {
    const others = lines[1 - side], ends = others.map((_, other) => (side ? [other, index] : [index, other]));
    const at = side ? { x: left - words - away, "text-anchor": "end" } : { x: right + words + away, "text-anchor": "start" };
    const [weights, of] = paint(ends, side, index);
    digits.replaceChildren();
    weights.forEach((weight, i) => svg(digits, "text", { class: "digits", ...at, y: y(i) }, weight.toFixed(2)));
    sayWeights(lines[side][index], !side, others, weights, of);
  };
  return watch(rows, lines.map((side) => side.map(nameOf)), show, () => {
    digits.replaceChildren();
    rest();
    say(HINT);
  });
}
