// Shared by the three views: the numbers, unpacked, and the way by keyboard. Runs before bertviz's code.
// bertviz asks require.js for its two libraries, in this order. They are already here.
const requirejs = (names, draw) => draw(jQuery, d3);

// Numbers arrive as base64: weights as one byte each (0 to 255), vectors as float32. They leave as nested arrays.
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
function nest(numbers, [layers, heads, rows, columns]) {
  const times = (count, make) => Array.from({ length: count }, make);
  let next = 0;
  return times(layers, () => times(heads, () => times(rows, () => times(columns, () => numbers[next++]))));
}
// Part of a panel that a menu offers: some of its rows (queries) and columns (keys).
const cut = (all, [from, to], row) => all.map((layer) => layer.map((head) => head.slice(from, to).map(row)));
view.attention.forEach((panel, _, [whole]) => {
  if (panel.weights) {
    panel.attn = nest(Array.from(bytes(panel.weights), (level) => level / 255), panel.shape);
  } else if (whole.weights) {
    panel.attn = cut(whole.attn, panel.rows, (row) => row.slice(...panel.columns));
  }
});
window.bertviz_params = view;

// What bertviz draws for the mouse alone can be reached by keyboard too: Tab goes to a group, the arrows go through
// it, Enter and the space bar do what a click does. Each part has a name that a screen reader says.
const find = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const send = (part, type) => part.dispatchEvent(new MouseEvent(type, { bubbles: true }));
const hover = (part, leave = part) => ({
  onfocus: () => send(part, "mouseover"),
  onblur: () => send(leave, "mouseleave"),
});

function reach(parts, name, act, perRow = 1) {
  parts.forEach((part, index) => {
    const set = { tabindex: index ? -1 : 0, role: act(part, index).press ? "button" : "img", "aria-label": name(part, index) };
    Object.entries(set).forEach(([key, value]) => part.setAttribute(key, value));
    const { press, onfocus, onblur } = act(part, index);
    Object.assign(part, { onfocus, onblur });
    part.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowDown: perRow, ArrowLeft: -1, ArrowUp: -perRow }[event.key];
      const next = parts[index + step];
      if (next) {
        parts.forEach((other) => other.setAttribute("tabindex", other === next ? 0 : -1));
        next.focus();
      } else if (press && (event.key === "Enter" || event.key === " ")) {
        press(event.key);
      } else if (!step) {
        return;
      }
      event.preventDefault();
    };
  });
}

const tokenName = (part, index) => `${part.textContent || "empty"}, index ${index}`;
// bertviz draws these two at a fixed width. Here they shrink to the width of the frame.
function fit(svg, width) {
  svg.setAttribute("viewBox", `0 0 ${width} ${parseFloat(svg.getAttribute("height"))}`);
  svg.setAttribute("width", "100%");
  svg.removeAttribute("height");
  svg.style.maxWidth = `${width}px`;
}
// bertviz keeps the chosen token when another part of a pair is shown, which may have no such token. Let go of it.
const letGo = () => find("#leftText > g").forEach((token) => send(token, "mouseleave"));
find("#filter").forEach((menu) => menu.addEventListener("change", letGo, true));
