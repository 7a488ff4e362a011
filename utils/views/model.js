// Runs at the end of bertviz's model_view.js, in the same function: what is defined here replaces what bertviz defines.
// bertviz lays out the grid and the picture that a click opens. The lines of both are drawn on canvases: those of the
// grid beneath bertviz's drawing, those of the opened picture above it.

const DIGITS = 44; // the width of the column of weights, on either side of the opened picture
let AXIS; // the width of the labels before the rows, and above the columns
let left, right; // the lines of text
let pictures; // the small pictures, row by row
let opened = null; // {row, column, ink, sides, tokens}: which is opened, and what was drawn for it
const weightsAt = ({ row, column }) => weightsOf(choiceNow(), left, right, row, column);

function draw() {
  const again = opened && [opened.row, opened.column];
  close();
  DIV_WIDTH = widthOfPage();
  [left, right] = ["left", "right"].map((side) => linesOf(choiceNow(), side));
  const mean = ticked("mean") ? ["mean"] : [];
  HEADING_PADDING = ticked("mean") ? 24 : 5; // the word is wider than an index
  AXIS = HEADING_TEXT_SIZE + HEADING_PADDING + TEXT_SIZE + TEXT_PADDING;
  config.layers = [...view.include_layers, ...mean];
  config.heads = [...view.include_heads, ...mean];
  config.totalHeads = Math.max(view.total_heads, config.heads.length);
  config.mode = view.display_mode;
  config.filter = 0;
  const attn = config.layers.map((_, row) => config.heads.map((_, column) => ({ row, column })));
  config.attention = [{ left_text: left.map(({ text }) => text), right_text: right.map(({ text }) => text), attn }];
  render();
  drawGrid();
  nameParts();
  const [row, column] = again || [];
  if (row < config.layers.length && column < config.heads.length) send(pictureOf(row, column), "click");
}
// The frame of a small picture, and above it what takes the click.
function renderThumbnailAttn(x, y, at, row, column) {
  const group = config.svg.append("g");
  const box = () => group.append("rect").attr("x", x).attr("y", y)
    .attr("width", config.thumbnailWidth).attr("height", config.thumbnailHeight).attr("fill", "transparent");
  box().classed("frame", true).attr("stroke", getLayerColor(row)).attr("stroke-width", 2).attr("stroke-opacity", 0);
  box().style("cursor", "pointer").on("click", () => {
    const again = opened && opened.row === row && opened.column === column;
    close();
    if (!again) renderDetail(at, row, column, group);
  });
}
function drawGrid() {
  const ink = addCanvas(DIV_WIDTH, config.divHeight);
  clear(ink);
  byId("vis").prepend(ink.canvas);
  const { thumbnailWidth: width, thumbnailHeight: height, thumbnailBoxHeight: step } = config;
  for (const { row, column } of config.attn.flat()) {
    const [x, y] = [AXIS + column * width + THUMBNAIL_PADDING, AXIS + row * height + THUMBNAIL_PADDING];
    const place = { left: x, right: x + width - 14, top: y, step };
    drawLines(ink, weightsAt({ row, column }), right.length, getLayerColor(row), exponent(1), place);
  }
}
// Nothing may cover the lines beneath.
function getBackgroundColor() {
  return "transparent";
}
function getLayerColor(row) {
  return config.layers[row] === "mean" ? textColour() : colourOf(config.layers[row]);
}

// --- the picture that a click opens

function renderDetail(at, row, column, group) {
  group.select(".frame").attr("stroke-opacity", 0.8);
  DETAIL_WIDTH = Math.min(2 * DIGITS + 300, DIV_WIDTH - 2);
  DETAIL_ATTENTION_WIDTH = DETAIL_WIDTH - 2 * (DIGITS + DETAIL_BOX_WIDTH);
  const start = AXIS + column * config.thumbnailWidth;
  const beside = [start + 0.8 * config.thumbnailWidth + 5, start - DETAIL_WIDTH + 13];
  const x = beside.find((x) => x > 0 && x + DETAIL_WIDTH <= DIV_WIDTH) ?? DIV_WIDTH - DETAIL_WIDTH - 1;
  const y = Math.max(1, Math.min(row * config.thumbnailHeight + 25, config.divHeight - 3 - config.detailHeight));
  const top = y + DETAIL_PADDING + DETAIL_HEADING_HEIGHT;
  renderDetailFrame(x, y, row);
  renderDetailHeading(x, y + DETAIL_PADDING, row, column);
  const attention = x + DIGITS + DETAIL_BOX_WIDTH;
  renderDetailText(config.leftText, "leftText", x + DIGITS, top);
  renderDetailText(config.rightText, "rightText", attention + DETAIL_ATTENTION_WIDTH, top);
  config.svg.append("g").attr("id", "digits").classed("detail", true);
  const sides = find("g.detail").slice(0, 2);
  const tokens = sides.map((side) => find(":scope > g", side));
  fit(find("g.detail .token"), DETAIL_BOX_WIDTH - 4);
  const ink = addCanvas(DIV_WIDTH, config.divHeight);
  const place = { left: attention, right: attention + DETAIL_ATTENTION_WIDTH, top, step: DETAIL_BOX_HEIGHT };
  const weights = weightsAt(at);
  const show = (isLeft, index) => {
    const others = isLeft ? right : left;
    const ends = others.map((_, other) => (isLeft ? [index, other] : [other, index]));
    const shown = ends.map(([query, key]) => weights[query * right.length + key]);
    ink.clearRect(0, 0, 1e5, 1e5);
    ends.forEach((end, i) => drawLine(ink, shown[i] ** exponent(1), ...end, place));
    const [edge, anchor] = isLeft ? [x + DETAIL_WIDTH - DIGITS + 4, "start"] : [x + DIGITS - 4, "end"];
    drawDigits(d3.select("#digits"), shown, edge, anchor, (i) => top + i * DETAIL_BOX_HEIGHT + 13);
    tokens.forEach((list, side) => list.forEach((token, i) => token.classList.toggle("now", side !== +isLeft && i === index)));
    sayWeights((isLeft ? left : right)[index], isLeft, others, shown, titleOf(row, column));
  };
  const rest = () => {
    ink.clearRect(0, 0, 1e5, 1e5);
    drawLines(ink, weights, right.length, getLayerColor(row), exponent(1), place);
    d3.select("#digits").selectAll("text").remove();
    find(".now").forEach((token) => token.classList.remove("now"));
    say(HINT);
  };
  watch(sides, tokens, [left, right], show, rest);
  config.svg.select("rect.detail").on("click", close);
  opened = { row, column, ink, sides, tokens };
  rest();
}
// What `watch` does here.
function highlightSelection() {}
function unhighlightSelection() {}
const named = (what, index) => (index === "mean" ? `mean of the ${what}s` : `${what} index ${index}`);
const titleOf = (row, column) => `${named("layer", config.layers[row])}, ${named("head", config.heads[column])}`;
function close() {
  if (!opened) return;
  letGo(opened.sides, opened.tokens);
  opened.ink.canvas.remove();
  config.svg.selectAll(".detail").remove();
  config.svg.selectAll(".frame").attr("stroke-opacity", 0);
  opened = null;
  say("");
}
const pictureOf = (row, column) => pictures[row * config.heads.length + column];
function nameParts() {
  const [svg] = find("#vis > svg");
  const labels = find(":scope > text", svg);
  labels.forEach((text) => (text.textContent = text.textContent.replace(/^(Head|Layer)s$/, "$1 (index)")));
  fit(labels.filter((text) => text.hasAttribute("transform")), config.divHeight - AXIS);
  pictures = find(":scope > g > rect:last-of-type", svg);
  const name = (_, i) => {
    const title = titleOf(Math.floor(i / config.heads.length), i % config.heads.length);
    return `${title[0].toUpperCase()}${title.slice(1)}. Enter opens or closes it.`;
  };
  reach(pictures, name, (picture) => ({ press: () => send(picture, "click") }), config.heads.length);
}

config.rootDivId = "view";
find("#filter").forEach((menu) => menu.addEventListener("change", draw));
document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape" || !opened) return;
  if (pointed.kept) {
    letGo(opened.sides, opened.tokens);
    return;
  }
  pictureOf(opened.row, opened.column).focus();
  close();
});
onChange(draw);
draw();
