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
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(inert));
  return node;
}

// What would hide text or turn it round is shown as a dot.
const UNSHOWABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

export const inert = (value) => (value instanceof Node ? value : String(value).replace(UNSHOWABLE, "·"));

export const number = (value) => Number(value).toLocaleString("en");

export const tokens = (value) => `${number(value)} token${value === 1 ? "" : "s"}`;

export const dollars = (value) => (value === 0 || value >= 0.01 ? `$${value.toFixed(2)}` : `$${value.toPrecision(2)}`);

export const span = (start, stop) => (stop - start === 1 ? `message ${start}` : `messages ${start}–${stop - 1}`);

export const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export const moment = (iso) => make("time", { datetime: iso, title: iso }, new Date(iso).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }));

const MADE_BY = {
  model: "by a model", extractive: "without a model", verbatim: "word for word",
  "stand-in": "stand-in until the model's is ready", provisional: "provisional", none: "left out",
};

export const madeBy = (block) => MADE_BY[block.made_by] ?? block.made_by;

export async function ask(path, parameters = {}, options = {}) {
  const answer = await fetch(`api/${path}?${new URLSearchParams(parameters)}`, options);
  const value = await answer.json().catch(() => ({ error: "the server's answer is not readable" }));
  if (!answer.ok) throw new Error(value.error ?? `the server answered ${answer.status}`);
  return value;
}

export const tell = (path, value) =>
  ask(path, {}, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });

export function openDialog(title, ...content) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = inert(title);
  byId("dialog-body").replaceChildren(...content.filter(Boolean));
  if (!dialog.open) dialog.showModal();
  byId("dialog-body").scrollTop = 0;
  byId("dialog-title").focus();
}

// An act of a button; what goes wrong in it is told.
export const safely = (work) => async (...given) => {
  try { await work(...given); } catch (error) { openDialog("That did not work", make("p", { role: "alert" }, upper(error.message))); }
};
