// Runs at the end of bertviz's neuron_view.js, in the same function: what is defined here replaces what bertviz defines.

const of = (numbers) => numbers[config.layer][config.head]; // of the head that is shown

// ---- where the columns are

const OPEN = 1112; // the width with the vectors, where there is room; else letters stay as large, and vectors shrink
let QUERIES, KEYS, PRODUCT, SCORE, RIGHT; // where bertviz has its columns, but for the tokens on the right
const FAR = () => 75 + PADDING_WIDTH; // so far these stand from bertviz's place, to leave room for digits
const isNarrow = () => MATRIX_WIDTH < 150;

// Return the width with the vectors, and without.
function layOut() {
  const width = Math.max(440, widthOfPage(OPEN));
  PADDING_WIDTH = 25 - (OPEN - width) / 37;
  BOXWIDTH = 120 - (OPEN - width) / 12.5;
  MATRIX_WIDTH = (width - 2 * BOXWIDTH - 6.5 * PADDING_WIDTH - 109.5) / 3;
  QUERIES = BOXWIDTH + PADDING_WIDTH;
  KEYS = QUERIES + MATRIX_WIDTH + 1.5 * PADDING_WIDTH;
  PRODUCT = KEYS + MATRIX_WIDTH + PADDING_WIDTH;
  SCORE = PRODUCT + MATRIX_WIDTH + PADDING_WIDTH;
  RIGHT = SCORE + BOXHEIGHT + PADDING_WIDTH + FAR();
  return [width, BOXWIDTH + ATTENTION_WIDTH + PADDING_WIDTH + 185];
}
function render() {
  config.mode = view.display_mode;
  config.widths = layOut();
  const panel = choiceNow();
  byId("vis").replaceChildren();
  const svg = d3.select("#vis").append("svg").attr("width", "100%");
  renderVisExpanded(svg, panel.left_text, panel.right_text, of(panel.queries), of(panel.keys));
  renderVisCollapsed(svg, panel.left_text, panel.right_text);
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
  const [open, closed] = ["#expanded", "#collapsed"].map((group) => svg.select(group));
  const { name, right_text: right, left_text: left } = choiceNow();
  const size = config.vectorSize;
  const where = [`layer ${config.layer}, head ${config.head}`, name === "All" ? "(index)" : `(index), ${name.replace(/Sentence /g, "")}`];
  const [first, second] = isNarrow() ? where[0].split(", ") : where;
  write(svg, "where", [first], 2, 18, "start", 13);
  write(svg, "where", [second], 2, 36, "start", isNarrow() ? 13 : 11);

  open.select("#rightText").attr("transform", `translate(${FAR()})`);
  open.selectAll("#hlines3").attr("transform", "translate(44)");
  write(open, "formula", [formula(size)], SCORE - 6, 36, "start", 11);
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((21 * size) / MATRIX_WIDTH))); // no two numbers touch
  const ticks = d3.range(0, size, step);
  for (const column of [QUERIES, KEYS, PRODUCT]) {
    write(open, "ticks", ticks, (i) => column + ((ticks[i] + 0.5) * MATRIX_WIDTH) / size, 37, "middle", 10);
  }
  write(open, "score", right.map(() => ""), SCORE + 29, ROW, "start");
  write(open, "weight", right.map(() => ""), RIGHT - 5.5, ROW, "end");
  write(open, "masked", right.map(() => "masked"), PRODUCT + MATRIX_WIDTH / 2, ROW, "middle").style("opacity", 0);
  write(closed, "weight", right.map(() => ""), config.widths[1] - 60, ROW, "start");
  const line = open.append("g").attr("class", "dimension").style("pointer-events", "none").style("opacity", 0);
  line.selectAll("rect").data([[QUERIES, left], [KEYS, right], [PRODUCT, right]]).enter().append("rect")
    .attr("y", HEADING_HEIGHT - 2).attr("height", ([, tokens]) => tokens.length * BOXHEIGHT)
    .attr("width", MATRIX_WIDTH / size).style("fill", "none").style("stroke", getColor("text"));

  fit(find(".token"), BOXWIDTH - (isNarrow() ? 12 : 38)); // where there is room, for the sign before a word too

  closed.selectAll("#leftText > g").call(choose);
  open.selectAll("#leftText > g").call(choose);
  svg.on("mousemove", () => point(d3.event.target)).on("mouseleave", () => point(null));
  const tokens = ["#collapsed", "#expanded"].map((group) => find(`${group} #leftText > g`));
  tokens.forEach((own, which) => reachTokens(own, tokens[1 - which]));
}

function renderHeadingsExpanded(svg) {
  const product = isNarrow() ? "q \u00d7 k" : "q \u00d7 k (elementwise)";
  const middles = [QUERIES, KEYS, PRODUCT].map((column) => column + MATRIX_WIDTH / 2);
  write(svg, "headings", ["Query q", "Key k", product], (i) => middles[i], 18, "middle", 16);
  write(svg, "headings", ["q \u2219 k"], SCORE - 6, 18, "start", 16);
  write(svg, "headings", ["Softmax"], RIGHT - 58.5, 18, "start", 16);
  write(svg, "nothing", ["No token selected"], middles[2], HEADING_HEIGHT + 55, "middle", 20).attr("id", "placeholder");
}

// bertviz draws these for every query token, and shows those of one. Here they are drawn for that one.
function renderHorizLines(svg, id, start, end) {
  svg.append("g").attr("id", id).selectAll("line").data(choiceNow().right_text).enter().append("line")
    .attr("x1", start).attr("x2", end).attr("y1", (_, row) => middle(row)).attr("y2", (_, row) => middle(row))
    .call(connect);
}
function renderQueryKeyLines(svg, start, end) {
  svg.append("g").attr("id", "qk-lines").selectAll("path").data(choiceNow().right_text).enter().append("path")
    .attr("data-ends", `${start},${(start + end) / 2 + 1},${end}`).attr("fill", "none").call(connect);
}
function renderVectorHighlights(svg, id, start) {
  svg.append("g").attr("id", id).selectAll("rect").data(choiceNow().right_text).enter().append("rect")
    .attr("x", start - 1).attr("y", (_, row) => row * BOXHEIGHT + HEADING_HEIGHT)
    .attr("width", MATRIX_WIDTH + 3).attr("height", BOXHEIGHT - 5).attr("fill", "none").call(connect);
}
const middle = (row) => row * BOXHEIGHT + HEADING_HEIGHT + BOXHEIGHT / 2;
const CONNECTORS = ["#hlines1", "#hlines2", "#hlines3", "#qk-lines", "#key-vector-highlights", "#product-vector-highlights"];
function connect(lines) {
  lines.attr("stroke", getColor("connector")).attr("stroke-width", 2).attr("stroke-opacity", 0)
    .style("pointer-events", "none");
}
function drawConnectors(svg, row, weights) {
  CONNECTORS.forEach((id) => svg.select(id).selectAll("*")
    .attr("stroke-opacity", (_, column) => (weights ? Math.tanh(1.8 * weights[column]) : 0)));
  svg.select("#qk-lines").selectAll("path").attr("d", function (_, column) {
    const [start, elbow, end] = this.dataset.ends.split(",");
    return `M${start},${middle(row)}H${elbow}V${middle(column)}H${end}`;
  });
}

// What is done to q·k before softmax, in a few signs: "/ √32", "× 0.25 + bias".
function formula(size) {
  const { scale, softcap, tables } = choiceNow().whole;
  const isBias = (number) => number !== 0 && number > -1e38;
  return [
    scale ? `× ${+scale[config.layer].toPrecision(3)}` : `/ √${size}`,
    softcap ? `within ±${softcap}` : "",
    tables?.flat(3).some(isBias) ? "+ bias" : "",
  ].join(" ");
}

function showComputation(svg, row) {
  const panel = choiceNow(), where = [panel, config.layer, config.head, row];
  const query = of(panel.queries)[row], keys = of(panel.keys), weights = of(panel.attn)[row];
  const scores = scoresOf(...where);
  const hidden = keys.map((_, column) => masked(...where, column));
  updateVectors(svg, "product", keys.map((key) => key.map((number, i) => number * query[i])));
  updateDotProducts(svg, scores.map((score, column) => (hidden[column] ? 0 : score)));
  updateTextAttention(svg, weights);
  drawConnectors(svg, row, weights);
  svg.select("#placeholder").style("opacity", 0);
  const seen = (_, column) => (hidden[column] ? 0 : 1);
  svg.selectAll("#product .vector").style("opacity", seen);
  svg.selectAll(".dotproduct").style("opacity", seen);
  svg.selectAll(".masked text").style("opacity", (_, column) => (hidden[column] ? 0.6 : 0));
  svg.selectAll(".score text").text((_, column) => (hidden[column] ? "" : short(scores[column])));
  svg.selectAll(".weight text").text((_, column) => weights[column].toFixed(3));
}

// ---- choosing: pointing at a token shows its weights, a click keeps it, Escape lets go

let kept = view.chosen;
const svgs = () => ["#expanded", "#collapsed"].map((group) => d3.select(group));
function light(row) {
  config.index = row;
  svgs().forEach((svg) => {
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
  svgs().forEach((svg) => svg.selectAll("#leftText > g").attr("aria-pressed", (_, index) => index === kept));
  say(row === null ? HINT : strongest(row));
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
  const width = config.widths[config.expanded ? 0 : 1];
  const most = Math.max(...view.attention.map((panel) => Math.max(panel.left_text.length, panel.right_text.length)));
  d3.select("#vis > svg").attr("viewBox", `0 0 ${width} ${most * BOXHEIGHT + HEADING_HEIGHT + 8}`)
    .style("max-width", `${width}px`);
  d3.select("#expanded").attr("visibility", config.expanded ? "visible" : "hidden");
  d3.select("#collapsed").attr("visibility", config.expanded ? "hidden" : "visible");
  light(config.index ?? kept);
}
// The plus and the minus beside a token of bertviz's call these two.
function showExpanded() {
  show();
}
function showCollapsed() {
  show();
}
document.addEventListener("keydown", (event) => event.key === "Escape" && keep(null));

function reachTokens(tokens, others) {
  const keys = "Enter shows or hides its vectors. The space bar keeps it, Escape lets go. Left and right: dimensions.";
  reach(tokens, (part, index) => `${part.textContent || "empty"}, index ${index}. ${keys}`, (token, index) => ({
    ...hover(token),
    press: (key) => {
      if (key === " ") {
        keep(index);
      } else {
        send(token.lastElementChild, "click");
        others[index].focus();
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
      const weights = of(choiceNow().attn)[row];
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
const number = (value) => value.toFixed(3).replace("-", "\u2212");
function strongest(row) {
  const panel = choiceNow(), weights = of(panel.attn)[row];
  const order = d3.range(weights.length).sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  const each = order.map((column) => `${isolate(panel.right_text[column])} ${number(weights[column])}`);
  return `${isolate(panel.left_text[row])} attends most to ${each.join(", ")}`;
}
// Mark a dimension of all vectors, and say its numbers for one key.
function mark(index, column) {
  const panel = choiceNow(), key = of(panel.keys)[column][index];
  d3.selectAll(".dimension").style("opacity", 1).selectAll("rect")
    .attr("x", ([start]) => start + (index * MATRIX_WIDTH) / config.vectorSize);
  let text = `dimension ${index} (index): key ${isolate(panel.right_text[column])} ${number(key)}`;
  if (config.index !== null) {
    const query = of(panel.queries)[config.index][index];
    text += `, query ${isolate(panel.left_text[config.index])} ${number(query)}, product ${number(query * key)}`;
  }
  say(text);
}
function point(target) {
  const group = target?.closest("#queries, #keys, #product"), vector = target?.closest(".vector");
  if (!vector || !target.classList.contains("element")) {
    if (dimension !== null) {
      d3.selectAll(".dimension").style("opacity", 0);
      say(config.index === null ? HINT : strongest(config.index));
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
    say(`dimension ${dimension} (index): query ${isolate(choiceNow().left_text[row])} ${number(of(choiceNow().queries)[row][dimension])}`);
  }
}

// ---- the menus: another panel may have other tokens, layers and heads

function fillMenus() {
  const { attn, queries } = choiceNow();
  config.vectorSize = queries[0][0][0].length;
  for (const [id, name, count] of [["layer", "layer", attn.length], ["att_head", "head", attn[0].length]]) {
    config[name] = Math.min(config[name], count - 1);
    fillMenu(id, d3.range(count).map((index) => [index, index]), config[name]);
  }
}
find("#filter").forEach((menu) => menu.addEventListener("change", () => {
  keep(null);
  config.filter = menu.value;
  fillMenus();
  render();
}));
find("#layer, #att_head").forEach((menu) => menu.addEventListener("change", () => {
  config[menu.id === "layer" ? "layer" : "head"] = +menu.value;
  config.index = null;
  render();
}));
onChange(render);
const { attention, layer, head, chosen } = view;
Object.assign(config, { attention, layer, head, filter: 0, index: null, expanded: chosen !== null, bidirectional: true });
fillMenus();
render();
