// Runs at the end of bertviz's neuron_view.js, in the same function: what is defined here replaces what bertviz defines.

// The lines of text that are shown, and what belongs to them: vectors (line, dimension) and weights (query, key). With
// "Words" a line has the pieces of a word as long as the view is closed: opened, each piece has a vector of its own.
let left, right, shown;
const panelNow = () => choiceNow().whole;
const here = () => [config.layer, config.head];
const nameNow = () => nameOfHead(panelNow().layers[config.layer], panelNow().heads[config.head]);
function read() {
  const choice = choiceNow(), panel = choice.whole, joined = ticked("words") && !config.expanded;
  [left, right] = ["left", "right"].map((side) => linesOf(choice, side, joined));
  const rowOf = (query) => panel.weightsOf(...here(), query);
  const flat = gather(new Float64Array(left.length * right.length), rowOf, left, right, hiddenOf(choice, "right"));
  shown = {
    left_text: left.map(({ text }) => text),
    right_text: right.map(({ text }) => text),
    queries: left.map(({ pieces }) => panel.queries(...here(), pieces[0])),
    keys: right.map(({ pieces }) => keyOf(panel, ...here(), pieces[0])),
    weights: left.map((_, row) => Array.from(flat.subarray(row * right.length, (row + 1) * right.length))),
  };
  config.attention = [{ ...shown, attn: { [config.layer]: { [config.head]: shown.weights } } }];
  config.filter = 0;
}
const isHidden = (row, column) => masked(panelNow(), ...here(), left[row].pieces[0], right[column].pieces[0]);
const digits = (weight) => weight.toFixed(view.decimals);

// ---- where the columns are

const OPEN = 1112; // the width with the vectors, where there is room; else letters stay as large, and vectors shrink
let QUERIES, KEYS, PRODUCT, SCORE, RIGHT; // where bertviz has its columns, but for the tokens on the right
const FAR = () => 75 + PADDING_WIDTH; // so far these stand from bertviz's place, to leave room for digits
const isNarrow = () => widthOfPage(OPEN) < 900;
const SIGNS = 20; // on a narrow page plus and minus stand in a column of their own, so wide

// Return the width with the vectors, and without.
function layOut() {
  const page = Math.max(440, widthOfPage(OPEN)), width = page - (isNarrow() ? SIGNS : 0);
  PADDING_WIDTH = 25 - (OPEN - width) / 37;
  BOXWIDTH = 120 - (OPEN - width) / 12.5;
  MATRIX_WIDTH = (width - 2 * BOXWIDTH - 6.5 * PADDING_WIDTH - 109.5) / 3;
  QUERIES = BOXWIDTH + PADDING_WIDTH;
  KEYS = QUERIES + MATRIX_WIDTH + 1.5 * PADDING_WIDTH;
  PRODUCT = KEYS + MATRIX_WIDTH + PADDING_WIDTH;
  SCORE = PRODUCT + MATRIX_WIDTH + PADDING_WIDTH;
  RIGHT = SCORE + BOXHEIGHT + PADDING_WIDTH + FAR();
  return [width, 2 * BOXWIDTH + ATTENTION_WIDTH + PADDING_WIDTH + 70];
}
function render() {
  config.mode = view.display_mode;
  config.widths = layOut();
  read();
  byId("vis").replaceChildren();
  const svg = d3.select("#vis").append("svg").attr("width", "100%");
  renderVisExpanded(svg, shown.left_text, shown.right_text, shown.queries, shown.keys);
  renderVisCollapsed(svg, shown.left_text, shown.right_text);
  dress(svg);
  show();
}

// ---- what is drawn beside bertviz's parts: digits, the numbers of dimensions, what is masked

const ROW = (row) => row * BOXHEIGHT + HEADING_HEIGHT + 16; // the base line of a row's text

function write(group, name, texts, x, y, anchor, size = 12) {
  const all = group.append("g").attr("class", name).selectAll("text").data(texts).enter().append("text");
  const at = (place) => (typeof place === "function" ? (_, i) => place(i) : place);
  all.text((text) => text).attr("x", at(x)).attr("y", at(y)).attr("text-anchor", anchor);
  all.style("font-size", `${size}px`).style("fill", getColor("text")).style("pointer-events", "none");
  return all;
}

function dress(svg) {
  const [open, closed] = groups();
  const { name } = choiceNow(), size = config.vectorSize;
  write(svg, "where", [nameNow()], 2, 18, "start", 13);
  write(svg, "where", [name === "All" ? "" : name.replace(/Sentence /g, "")], 2, 36, "start", 11);

  open.select("#rightText").attr("transform", `translate(${FAR()})`);
  // The dash to a weight stands between two columns of digits, which come close to each other on a narrow page.
  open.selectAll("#hlines3 line").attr("x1", Math.min(SCORE + 68, RIGHT - 52)).attr("x2", Math.min(SCORE + 70 + PADDING_WIDTH, RIGHT - 46));
  write(open, "formula", [panelNow().formula[config.layer]], SCORE - 6, 36, "start", 11);
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((21 * size) / MATRIX_WIDTH))); // no two numbers touch
  const ticks = d3.range(0, size, step);
  for (const column of [QUERIES, KEYS, PRODUCT]) {
    write(open, "ticks", ticks, (i) => column + ((ticks[i] + 0.5) * MATRIX_WIDTH) / size, 37, "middle", 10);
  }
  write(open, "score", right.map(() => ""), SCORE + 29, ROW, "start");
  write(open, "weight", right.map(() => ""), RIGHT - 5.5, ROW, "end");
  write(open, "masked", right.map(() => "masked"), PRODUCT + MATRIX_WIDTH / 2, ROW, "middle").style("opacity", 0);
  write(closed, "weight", right.map(() => ""), config.widths[1] - 66, ROW, "start");
  const ends = [BOXWIDTH - 8, BOXWIDTH + ATTENTION_WIDTH + PADDING_WIDTH + 8];
  write(closed, "columns", ["query"], ends[0], 34, "end", 13).style("font-weight", "bold").style("fill", "var(--query)");
  write(closed, "columns", ["key"], ends[1], 34, "start", 13).style("font-weight", "bold").style("fill", "var(--key)");
  closed.selectAll(".attn-line-group line").attr("stroke-opacity", (weight) => weight ** exponent(1));
  const line = open.append("g").attr("class", "dimension").style("pointer-events", "none").style("opacity", 0);
  line.selectAll("rect").data([[QUERIES, left], [KEYS, right], [PRODUCT, right]]).enter().append("rect")
    .attr("y", HEADING_HEIGHT - 2).attr("height", ([, tokens]) => tokens.length * BOXHEIGHT)
    .attr("width", MATRIX_WIDTH / size).style("fill", "none").style("stroke", getColor("text"));

  fit(find(".token"), BOXWIDTH - (isNarrow() ? 12 : 38)); // where there is room, for the sign before a word too

  svg.on("mousemove", () => point(d3.event.target)).on("mouseleave", () => point(null));
  const tokens = groups().map((group) => group.selectAll("#leftText > g").call(choose).nodes());
  tokens.forEach((own, which) => reachTokens(own, tokens[1 - which]));
}

function renderHeadingsExpanded(svg) {
  const [isPhone, product] = [widthOfPage(OPEN) < 440, isNarrow() ? "q \u00d7 k" : "q \u00d7 k (elementwise)"];
  const names = isPhone ? ["q", "k", product] : ["Query q", "Key k", product], size = isPhone ? 13 : 16;
  const middles = [QUERIES, KEYS, PRODUCT].map((column) => column + MATRIX_WIDTH / 2);
  write(svg, "headings", names, (i) => middles[i], 18, "middle", size);
  write(svg, "headings", ["q \u2219 k"], SCORE - 6, 18, "start", size);
  write(svg, "headings", ["Softmax"], RIGHT - 58.5, 18, "start", size);
  write(svg, "nothing", ["No token selected"], middles[2], HEADING_HEIGHT + 55, "middle", 20).attr("id", "placeholder");
}

// bertviz draws these for every query token, and shows those of one. Here they are drawn for that one.
function connect(svg, id, tag) {
  const group = svg.append("g").attr("id", id).attr("class", "connectors").style("pointer-events", "none");
  return group.selectAll(tag).data(right).enter().append(tag)
    .attr("fill", "none").attr("stroke", getColor("connector")).attr("stroke-width", 2).attr("stroke-opacity", 0);
}
function renderHorizLines(svg, id, start, end) {
  const y = (_, row) => middle(row);
  connect(svg, id, "line").attr("x1", start).attr("x2", end).attr("y1", y).attr("y2", y);
}
function renderQueryKeyLines(svg, start, end) {
  connect(svg, "qk-lines", "path").attr("data-ends", `${start},${(start + end) / 2 + 1},${end}`);
}
function renderVectorHighlights(svg, id, start) {
  connect(svg, id, "rect").attr("x", start - 1).attr("y", (_, row) => row * BOXHEIGHT + HEADING_HEIGHT)
    .attr("width", MATRIX_WIDTH + 3).attr("height", BOXHEIGHT - 5);
}
const middle = (row) => row * BOXHEIGHT + HEADING_HEIGHT + BOXHEIGHT / 2;
function drawConnectors(svg, row, weights) {
  svg.selectAll(".connectors").selectAll("*")
    .attr("stroke-opacity", (_, column) => (weights ? Math.tanh(1.8 * weights[column] ** exponent(1)) : 0));
  svg.select("#qk-lines").selectAll("path").attr("d", function (_, column) {
    const [start, elbow, end] = this.dataset.ends.split(",");
    return `M${start},${middle(row)}H${elbow}V${middle(column)}H${end}`;
  });
}

function showComputation(svg, row) {
  const query = shown.queries[row], weights = shown.weights[row], power = exponent(1);
  const all = scoresOf(panelNow(), ...here(), left[row].pieces[0]);
  const scores = right.map(({ pieces }) => all[pieces[0]]);
  const hidden = right.map((_, column) => isHidden(row, column));
  updateVectors(svg, "product", shown.keys.map((key) => key.map((number, i) => number * query[i])));
  updateDotProducts(svg, scores.map((score, column) => (hidden[column] ? 0 : score)));
  updateTextAttention(svg, weights.map((weight) => weight ** power));
  drawConnectors(svg, row, weights);
  svg.select("#placeholder").style("opacity", 0);
  const seen = (_, column) => (hidden[column] ? 0 : 1);
  svg.selectAll("#product .vector").style("opacity", seen);
  svg.selectAll(".dotproduct").style("opacity", seen);
  svg.selectAll(".masked text").style("opacity", (_, column) => (hidden[column] ? 0.6 : 0));
  svg.selectAll(".score text").text((_, column) => (hidden[column] ? "" : short(scores[column])));
  const isClosed = svg.attr("id") === "collapsed";
  svg.selectAll(".weight text").text((_, column) => (isClosed && hidden[column] ? "masked" : digits(weights[column])));
}

// ---- choosing: pointing at a token shows its weights, a click keeps it, Escape lets go

const OPENS = "Point at a query to see its weights in digits. A click keeps it, Escape lets go; its ⊕ opens the vectors that make them.";
let kept = view.chosen;
const groups = () => ["#expanded", "#collapsed"].map((group) => d3.select(group));
function light(row) {
  config.index = row;
  groups().forEach((svg) => {
    svg.selectAll("#leftText > g").attr("aria-pressed", (_, index) => index === kept);
    if (row === null) {
      unhighlightSelection(svg);
      hideComputation(svg);
      drawConnectors(svg, 0, null);
      svg.selectAll(".masked text").style("opacity", 0);
      svg.selectAll(".score text, .weight text").text("");
    } else {
      highlightSelection(svg, row);
      showComputation(svg, row);
    }
  });
  tell(row);
}
function choose(tokens) {
  tokens.on("mouseover", (_, row) => light(row)).on("mouseleave", () => light(kept));
  const isSign = (target) => target === target.parentNode.lastElementChild; // plus or minus
  tokens.on("click", (_, row) => keep(row === kept && !isSign(d3.event.target) ? null : row));
}
function keep(row) {
  kept = row;
  light(row);
}
function show() {
  const rows = Math.max(left.length, right.length), start = isNarrow() ? SIGNS : 0;
  const width = config.widths[config.expanded ? 0 : 1] + start;
  find(".plus-sign, .minus-sign, .plus-sign + rect, .minus-sign + rect").forEach((sign) => (sign.style.translate = `${-start}px`));
  d3.select("#vis > svg").attr("viewBox", `${-start} 0 ${width} ${rows * BOXHEIGHT + HEADING_HEIGHT + 8}`)
    .style("max-width", `${width}px`);
  d3.select("#expanded").attr("visibility", config.expanded ? "visible" : "hidden");
  d3.select("#collapsed").attr("visibility", config.expanded ? "hidden" : "visible");
  light(config.index ?? kept);
}
// The plus and the minus beside a token of bertviz's call these two.
function turn() {
  if (!ticked("words")) return show();
  // Opened, the first piece of the chosen word is chosen; closed, the word of the chosen piece.
  const chosen = config.index === null ? null : left[config.index].pieces[0];
  read();
  const found = left.findIndex(({ pieces }) => pieces.includes(chosen));
  config.index = kept = found < 0 ? null : found;
  return render();
}
function showExpanded() { turn(); }
function showCollapsed() { turn(); }
document.addEventListener("keydown", (event) => event.key === "Escape" && keep(null));

function reachTokens(tokens, others) {
  const keys = "Enter shows or hides its vectors. The space bar keeps it, Escape lets go. Left and right: dimensions.";
  reach(tokens, (_, index) => `${nameOf(left[index])}. ${keys}`, (token, index) => ({
    onfocus: () => send(token, "mouseover"),
    onblur: () => send(token, "mouseleave"),
    press: (key) => {
      if (key === " ") {
        keep(index);
      } else {
        send(token.lastElementChild, "click");
        if (others[index].isConnected) others[index].focus();
      }
    },
  }));
  tokens.forEach((token, row) => {
    const move = token.onkeydown;
    token.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || !config.expanded) {
        return move(event);
      }
      const weights = shown.weights[row];
      dimension = Math.min(Math.max((dimension ?? -step) + step, 0), config.vectorSize - 1);
      mark(dimension, weights.indexOf(Math.max(...weights)));
      event.preventDefault();
    };
  });
}

// ---- what is pointed at, in a line that a screen reader says

let dimension = null;
// A score in at most five signs; what is nearly 0 has no sign.
const short = (score) => (Math.abs(score) < 99.995 ? (Math.round(score * 100) / 100 + 0).toFixed(2) : score.toFixed(0));
const number = (value) => value.toFixed(view.decimals).replace("-", "\u2212");
const tell = (row) => (row === null ? say(OPENS) : sayWeights(left[row], true, right, shown.weights[row], nameNow(), view.decimals));
// Mark a dimension of all vectors, and say its numbers for one key.
function mark(index, column) {
  const key = shown.keys[column][index];
  d3.selectAll(".dimension").style("opacity", 1).selectAll("rect")
    .attr("x", ([start]) => start + (index * MATRIX_WIDTH) / config.vectorSize);
  let text = `${nameNow()}, dimension ${index}: key ${isolate(right[column].text)} ${number(key)}`;
  if (config.index !== null) {
    const query = shown.queries[config.index][index];
    text += `, query ${isolate(left[config.index].text)} ${number(query)}, product ${number(query * key)}`;
  }
  say(text);
}
function point(target) {
  const group = target?.closest("#queries, #keys, #product"), vector = target?.closest(".vector");
  if (!vector || !target.classList.contains("element")) {
    if (dimension !== null) {
      d3.selectAll(".dimension").style("opacity", 0);
      tell(config.index);
    }
    dimension = null;
    return;
  }
  dimension = find(".element", vector).indexOf(target);
  const row = +vector.dataset.index;
  if (group.id !== "queries") {
    mark(dimension, row);
  } else {
    mark(dimension, 0);
    say(`${nameNow()}, dimension ${dimension}: query ${isolate(left[row].text)} ${number(shown.queries[row][dimension])}`);
  }
}

// ---- the menus: another panel may have other tokens, layers and heads

// config.layer and config.head are places in the menus; the menus show the model's own indices.
function fillMenus() {
  const { layers, heads, shape } = panelNow();
  config.vectorSize = shape[3];
  config.layer = Math.min(config.layer, layers.length - 1);
  config.head = Math.min(config.head, heads.length - 1);
  fillMenu("layer", layers, config.layer);
  fillMenu("att_head", heads, config.head);
}
onChange((what) => {
  if (["filter", "words", "hide", "first"].includes(what)) kept = null;
  if (["filter", "words", "hide", "first", "layer", "att_head"].includes(what)) config.index = null;
  Object.assign(config, { layer: +byId("layer").value, head: +byId("att_head").value });
  if (what === "filter") fillMenus();
  render();
});
const { layers, heads } = whole;
Object.assign(config, { layer: layers.indexOf(view.layer), head: heads.indexOf(view.head), index: null, expanded: view.chosen !== null, bidirectional: true });
fillMenus();
render();
