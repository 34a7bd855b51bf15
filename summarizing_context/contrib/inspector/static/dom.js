// Builds the page's nodes. Text always goes in as text: nothing of a transcript is ever read as HTML.

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node[name] = value;
    else if ((value ?? false) !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => (child ?? false) !== false).map(inert));
  return node;
}

// What would hide text or turn it round is shown as a dot.
const UNSHOWABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

export const inert = (value) => (value instanceof Node ? value : String(value).replace(UNSHOWABLE, "·"));

export const number = (value) => Number(value).toLocaleString("en");
export const counted = (count, what) => `${number(count)} ${what}${count === 1 ? "" : "s"}`;
export const tokens = (value) => counted(value, "token");
export const dollars = (value) => (value === 0 || value >= 0.01 ? `$${value.toFixed(2)}` : `$${value.toPrecision(2)}`);
export const span = (start, stop) => (stop - start === 1 ? `message ${start}` : `messages ${start}–${stop - 1}`);
export const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const DATE = { dateStyle: "medium", timeStyle: "short" };
export const moment = (iso) => make("time", { datetime: iso, title: iso }, new Date(iso).toLocaleString("en-GB", DATE));

export async function ask(path, parameters = {}, options = {}) {
  const answer = await fetch(`api/${path}?${new URLSearchParams(parameters)}`, options);
  const value = await answer.json().catch(() => ({ error: "the server's answer is not readable" }));
  if (!answer.ok) throw new Error(value.error ?? `the server answered ${answer.status}`);
  return value;
}

// What a button sends; it says in `failed` what goes wrong, and may be pressed again.
export async function send(button, failed, path, value, done) {
  button.disabled = true;
  try {
    await ask(path, {}, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });
    done();
  } catch (error) { failed.textContent = ` ${upper(error.message)}`; button.disabled = false; }
}

export function openDialog(title, ...content) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = inert(title);
  byId("dialog-body").replaceChildren(...content);
  if (!dialog.open) dialog.showModal();
  byId("dialog-body").scrollTop = 0;
  byId("dialog-title").focus();
}

// An act of a button; what goes wrong in it is told.
export const safely = (work) => async (...given) => {
  try { await work(...given); } catch (error) { openDialog("That did not work", make("p", { role: "alert" }, upper(error.message))); }
};
