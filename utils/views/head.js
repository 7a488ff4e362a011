// Runs at the end of bertviz's head_view.js, in the same function: what is defined here replaces what bertviz defines.
function dress(svg) {
  const squares = find("g:last-of-type > rect", svg).filter((square) => square.parentNode.parentNode === svg);
  const name = (_, i) => `Head index ${i}. Space shows or hides it, Enter shows it alone.`;
  reach(squares, name, (square) => ({ press: (key) => send(square, key === "Enter" ? "dblclick" : "click") }));
  for (const side of find("#left, #right", svg)) {
    reach(find(":scope > g:last-child > g", side), tokenName, (token) => hover(token, side));
  }
}

new MutationObserver(() => find("#vis > svg").forEach(dress)).observe($("#vis")[0], { childList: true });
initialize();
renderVis();
