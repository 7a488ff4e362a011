// A result of the search shows the sentence that has most of the words, not the letters round the last of them.
addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  Search.makeSearchSummary = (html, words, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html"), all = [...words];
    const article = page.querySelector("article"), part = (anchor && page.querySelector(anchor)) || article;
    page.querySelectorAll(".headerlink, math, script, style, iframe").forEach((one) => one.remove());
    const texts = (place) => [...place.querySelectorAll("p, li, tr, summary, pre")].flatMap(({ tagName, textContent }) =>
      tagName === "TR" ? textContent : textContent.split(tagName === "PRE" ? "\n" : /(?<=[.?!])\s+/));
    const count = (text) => all.filter((word) => text.toLowerCase().includes(word)).length;
    const best = [...texts(part), ...texts(article)].reduce((a, b) => (count(b) > count(a) ? b : a), "");
    const shown = document.createElement("p");
    shown.className = "context";
    shown.textContent = best.trim(); // Sphinx marks the words
    return shown;
  };
});

// The theme says light or dark at the page's root; a view's frame looks at the body.
const root = document.documentElement;
const tell = () => document.body?.setAttribute("data-theme", root.dataset.theme);
new MutationObserver(tell).observe(root, { attributeFilter: ["data-theme"] });
addEventListener("DOMContentLoaded", tell);

// What a notebook is for, in a box of its own, so that it can stand beside the first picture (course.css).
addEventListener("DOMContentLoaded", () => {
  const parts = [...document.querySelectorAll("article section:has(> h1) > *")];
  const from = parts.findIndex((one) => one.textContent === "You will be able to");
  if (from < 0) return;
  const to = parts.findIndex((one, i) => i > from && !one.matches("p, ul"));
  const box = (className, inside) => {
    const made = Object.assign(document.createElement("div"), { className });
    made.append(...inside);
    return made;
  };
  parts[0].after(box("opening", [box("idea", parts.slice(1, from)), box("aims", parts.slice(from, to))]));
});

// The theme scrolls the list of pages to the one that is open, though it is seen without: search and title stay.
addEventListener("load", () => {
  const list = document.getElementById("pst-primary-sidebar"), open = list && [...list.querySelectorAll(".active")].pop();
  if (open && open.getBoundingClientRect().bottom + list.scrollTop < list.getBoundingClientRect().bottom) list.scrollTop = 0;
});

// Some drawings have a second form, for phones.
const phone = matchMedia("(max-width: 560px)");
const choose = () => document.querySelectorAll("article img.has-narrow").forEach((one) => {
  one.src = one.src.replace(/(-narrow)?\.svg$/, phone.matches ? "-narrow.svg" : ".svg");
});
phone.addEventListener("change", choose);
addEventListener("DOMContentLoaded", choose);

// On a phone a row of a table stands as lines, each with its column's name (course.css).
addEventListener("DOMContentLoaded", () => document.querySelectorAll("article table.table").forEach((table) => {
  const names = [...table.querySelectorAll("thead th")].map((one) => one.textContent.trim());
  table.querySelectorAll("tbody tr").forEach(({ cells }) => [...cells].forEach((cell, i) => i && names[i] && cell.textContent.trim() && (cell.dataset.column = `${names[i]}: `)));
}));

// The words for queries, keys and values, where they stand alone, in code or as a symbol of the paper.
const ROLES = { query: "query", key: "key", value: "value", Q: "query", K: "key", V: "value" };
addEventListener("DOMContentLoaded", () => document.querySelectorAll("article :is(code.literal, strong, td math, p math)").forEach((one) => {
  const role = ROLES[one.textContent.trim()];
  if (role) one.classList.add(role);
}));

// A line of code that is too long goes on below, two letters further in than it begins (course.css): after a bracket or
// before a dot, not in mid-name.
addEventListener("DOMContentLoaded", () => document.querySelectorAll(".cell_input pre").forEach((pre) => {
  const lines = pre.innerHTML.replace(/\n$/, "").split("\n"), texts = pre.textContent.split("\n");
  const begins = (text) => text.match(/^ */)[0].length + 2;
  pre.innerHTML = lines.map((line, i) => `<span class="line" style="--hanging: ${begins(texts[i])}ch">${line.replace(/(<span class="o">\.<)/g, "<wbr>$1").replace(/(<span class="p">[([]+<\/span>)/g, "$1<wbr>")}\n</span>`).join("");
}));

// An output with columns: two lines or more that begin with spaces, or have some in a row.
addEventListener("DOMContentLoaded", () => document.querySelectorAll(".cell_output pre").forEach((pre) => {
  const lines = pre.textContent.split("\n").filter((line) => /^ +\S|\S {2,}\S/.test(line));
  pre.classList.toggle("columns", lines.length > 1);
  pre.style.setProperty("--columns", Math.max(...pre.textContent.split("\n").map((line) => line.length)));
}));

// A command that is too long goes on below after a space, or a slash in a path: not in mid-word.
addEventListener("DOMContentLoaded", () => document.querySelectorAll(".highlight-sh pre").forEach((pre) => {
  const texts = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT), all = [];
  while (texts.nextNode()) all.push(texts.currentNode);
  const whole = (textContent) => Object.assign(document.createElement("span"), { className: "whole", textContent });
  const parts = (word) => word.split(/(?<=\/)/).flatMap((part, i) => [i ? document.createElement("wbr") : "", whole(part)]);
  all.forEach((text) => text.replaceWith(...text.data.split(/(\s+)/).flatMap((one) => (one.trim() ? parts(one) : one))));
}));
