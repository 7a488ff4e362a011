// Runs at the end of bertviz's head_view.js, in the same function: what is defined here replaces what bertviz defines.
// bertviz lays out the text and its coloured boxes. Lines are drawn on a canvas, heads are chosen by numbered buttons.

const DIGITS = 48; // the width of the column of weights, on either side
let ink, inkOfOne; // the canvas of all lines, and that of one token's
let left, right, weights; // the lines of text, and the weights (head, then row by row)
let sides, tokens; // the two lists of text, and the tokens in each
const isShown = (head) => config.headVis[head];
const shownHeads = () => [...config.headVis.keys()].filter(isShown);

function layOut() {
  const width = widthOfPage();
  BOXWIDTH = 0.26 * width;
  MATRIX_WIDTH = width - 2 * (BOXWIDTH + DIGITS);
  TEXT_TOP = 24;
  return width;
}

function renderVis() {
  const choice = choiceNow(), layer = byId("layer").selectedIndex;
  const width = layOut();
  [left, right] = ["left", "right"].map((side) => linesOf(choice, side));
  weights = config.headVis.map((_, head) => weightsOf(choice, left, right, layer, head));
  const height = Math.max(left.length, right.length) * BOXHEIGHT + TEXT_TOP + 4;
  byId("vis").replaceChildren();
  // No larger than the lines need, in whole pixels. Their slanted ends stand out a little.
  const start = Math.floor(DIGITS + BOXWIDTH) - 1;
  [ink, inkOfOne] = [0, 1].map(() => addCanvas(Math.ceil(MATRIX_WIDTH) + 3, height));
  [ink, inkOfOne].forEach((one) => {
    one.canvas.style.left = `${start}px`;
    one.translate(DIGITS - start, 0);
  });
  const svg = d3.select("#vis").append("svg").attr("width", width).attr("height", height);
  svg.attr("viewBox", `${-DIGITS} 0 ${width} ${height}`);
  // The boxes behind a token's partners are paler than the lines, so that the text on them can be read.
  const rows = weights.map((head) => left.map((_, row) =>
    Array.from(head.subarray(row * right.length, (row + 1) * right.length), (weight) => 0.6 * weight ** exponent(1))));
  renderText(svg, left.map((line) => line.text), true, rows, 0);
  renderText(svg, right.map((line) => line.text), false, rows, MATRIX_WIDTH + BOXWIDTH);
  fit(find("#left text, #right text"), BOXWIDTH - 10);
  const heading = (text, x, anchor) =>
    svg.append("text").classed("heading", true).attr("x", x).attr("y", 15).attr("text-anchor", anchor).text(text);
  heading("query", BOXWIDTH - 7.5, "end");
  heading("key", BOXWIDTH + MATRIX_WIDTH + 7.5, "start");
  svg.append("g").attr("id", "digits");
  updateAttention();
  sides = find("#left, #right");
  tokens = sides.map((side) => find(":scope > g:last-child > g", side));
  watch(sides, tokens, [left, right], show, rest);
  const { kept, now } = pointed;
  if (kept && now.index < tokens[now.right].length) keep(tokens, now.right, now.index);
  else letGo(sides, tokens);
}

const place = () => ({ left: BOXWIDTH, right: BOXWIDTH + MATRIX_WIDTH, top: TEXT_TOP, step: BOXHEIGHT });
// Draw the lines of every head that is shown, in the order of the heads.
function updateAttention() {
  clear(ink);
  const heads = shownHeads(), power = exponent(heads.length);
  heads.forEach((head) => drawLines(ink, weights[head], right.length, headColors(head), power, place()));
}

// --- the token that is pointed at

function show(isLeft, index) {
  const others = isLeft ? right : left;
  const heads = shownHeads();
  const ends = others.map((_, other) => (isLeft ? [index, other] : [other, index]));
  const weightsAt = ([row, column]) => heads.map((head) => weights[head][row * right.length + column]);
  ink.canvas.style.visibility = "hidden";
  clear(inkOfOne);
  const inks = heads.map((head) => d3.rgb(headColors(head)));
  ends.forEach((end) => drawTogether(inks, weightsAt(end), end));
  const mean = ends.map((end) => d3.mean(weightsAt(end)));
  const [x, anchor] = isLeft ? [2 * BOXWIDTH + MATRIX_WIDTH + 6, "start"] : [-6, "end"];
  drawDigits(d3.select("#digits"), mean, x, anchor, (i) => TEXT_TOP + i * BOXHEIGHT + 15);
  sayWeights((isLeft ? left : right)[index], isLeft, others, mean, headsInWords(heads));
}
// The lines of all heads from one token to another lie on one place. They are drawn as one, in the colour that they
// make together: a twelfth of the time. Of one token there are so few that each has its full strength.
function drawTogether(inks, weights, [row, column]) {
  let opacity = 0;
  const colour = [0, 0, 0];
  inks.forEach(({ r, g, b }, i) => {
    const own = weights[i] ** exponent(1);
    opacity += own * (1 - opacity);
    [r, g, b].forEach((level, part) => (colour[part] += (level - colour[part]) * (own / opacity || 0)));
  });
  inkOfOne.strokeStyle = `rgb(${colour})`;
  drawLine(inkOfOne, opacity, row, column, place());
}
function headsInWords(heads) {
  if (heads.length > 1) return `mean of the ${heads.length} heads shown`;
  return heads[0] === config.nHeads ? `mean of all ${config.nHeads} heads` : `head index ${heads[0]}`;
}
function rest() {
  ink.canvas.style.visibility = "visible";
  inkOfOne.clearRect(-99, 0, 1e5, 1e5);
  d3.select("#digits").selectAll("text").remove();
  say(HINT);
}

// --- the heads

function drawCheckboxes() {
  const squares = config.headVis.map((_, head) => `<button>${head === config.nHeads ? "mean" : head}</button>`);
  const row = `<div id=heads role=group aria-label=Heads>${squares.join("")}</div>`;
  byId("vis").insertAdjacentHTML("beforebegin", row);
  const buttons = find("#heads button");
  const name = (_, head) =>
    head === config.nHeads
      ? "Mean of all heads. Space or Enter shows it alone, or all heads."
      : `Head index ${head}. Space shows or hides it, Enter shows it alone.`;
  const press = (head, alone) => {
    choose(head, alone);
    updateCheckboxes(buttons);
    updateAttention();
    if (pointed.kept) keep(tokens, pointed.now.right, pointed.now.index);
  };
  reach(buttons, name, (_, head) => ({ press: (key) => press(head, key === "Enter") }));
  let before; // the two clicks of a double click undo each other, or not
  buttons.forEach((button, head) => {
    button.onclick = ({ detail }) => {
      if (detail < 2) before = [...config.headVis];
      press(head, false);
    };
    button.ondblclick = () => {
      config.headVis = before;
      press(head, true);
    };
  });
  updateCheckboxes(buttons);
}
function choose(head, alone) {
  const onlyThis = isShown(head) && activeHeads() === 1;
  const all = config.headVis.map((_, i) => i !== config.nHeads);
  if (alone || head === config.nHeads) {
    config.headVis = onlyThis ? all : config.headVis.map((_, i) => i === head);
  } else if (!onlyThis) {
    config.headVis[head] = !config.headVis[head];
    config.headVis[config.nHeads] = false;
  }
}
function updateCheckboxes(buttons) {
  buttons.forEach((button, head) => {
    button.setAttribute("aria-pressed", isShown(head));
    button.style.setProperty("--colour", headColors(head));
  });
}

headColors = (head) => (head === config.nHeads ? textColour() : colourOf(head));
const layers = view.include_layers.map((layer) => [layer, layer]);
fillMenu("layer", layers.length > 1 ? [...layers, [-1, "mean"]] : layers, view.layer);
config.nHeads = whole.shape[1];
config.headVis = d3.range(config.nHeads).map((head) => view.heads.includes(head));
if (config.nHeads > 1) config.headVis.push(false); // the mean of all heads
drawCheckboxes();
find("#layer, #filter").forEach((menu) => menu.addEventListener("change", () => {
  if (menu.id === "filter") letGo(sides, tokens);
  renderVis();
}));
document.addEventListener("keydown", (event) => event.key === "Escape" && letGo(sides, tokens));
onChange((what) => {
  if (what === "words" || what === "hide") letGo(sides, tokens);
  if (what === "ground") updateCheckboxes(find("#heads button"));
  renderVis();
});
renderVis();
