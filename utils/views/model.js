// Runs at the end of bertviz's model_view.js, in the same function: what is defined here replaces what bertviz defines.
function dress(svg) {
  fit(svg, 970);
  find(":scope > text", svg).forEach((text) => {
    text.textContent = text.textContent.replace(/^(Head|Layer)s$/, "$1 (index)");
  });
  const pictures = find(":scope > g > rect:last-of-type", svg);
  const heads = view.include_heads.length;
  const name = (_, i) =>
    `Layer index ${view.include_layers[Math.floor(i / heads)]}, head index ${view.include_heads[i % heads]}. ` +
    "Enter opens or closes it.";
  reach(pictures, name, (picture) => ({ press: () => send(picture, "click") }), heads);
}

new MutationObserver(() => find("#vis > svg").forEach(dress)).observe($("#vis")[0], { childList: true });
initialize();
render();
