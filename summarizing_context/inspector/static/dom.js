// Builds the page's nodes. Text always goes in as text: nothing of a transcript is ever read as HTML.

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const number = (value) => Number(value).toLocaleString("en");

export const tokens = (value) => `${number(value)} token${value === 1 ? "" : "s"}`;

export const dollars = (value) => (value === 0 || value >= 0.01 ? `$${value.toFixed(2)}` : `$${value.toPrecision(2)}`);

export function span(start, stop) {
  return stop - start === 1 ? `message ${start}` : `messages ${start}–${stop - 1}`;
}

export function moment(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  const words = date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  return make("time", { datetime: iso, title: iso }, words);
}

const MADE_BY = {
  model: "by a model", extractive: "without a model", verbatim: "word for word",
  "stand-in": "stand-in until the model's is ready", provisional: "provisional", none: "left out",
};

export const madeBy = (block) => MADE_BY[block.made_by] ?? block.made_by;

export async function ask(path, parameters = {}) {
  const answer = await fetch(`api/${path}?${new URLSearchParams(parameters)}`, { headers: { accept: "application/json" } });
  return told(answer);
}

export async function tell(path, value) {
  return told(await fetch(`api/${path}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value),
  }));
}

async function told(answer) {
  const value = await answer.json().catch(() => ({ error: "the server's answer is not readable" }));
  if (!answer.ok) throw new Error(value.error ?? `the server answered ${answer.status}`);
  return value;
}

export function spoken(row, attributes = {}) {
  const where = row.message === null ? null : make("span", { class: "where" }, `#${row.message}`);
  return make("article", { class: `said ${row.kind}`, ...attributes },
    make("header", {}, make("b", {}, row.kind === "tool" ? "tool result" : row.role), where,
      make("span", { class: "size" }, tokens(row.tokens))),
    make("pre", {}, row.text + (row.cut ? " …" : "")));
}

export function openDialog(title, ...content) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...content);
  if (!dialog.open) dialog.showModal();
  byId("dialog-title").focus();
}
