// The page: which session is shown, news of changes, tabs.

import { ask, byId, inert, make, moment, number, safely, upper } from "./dom.js";
import * as panels from "./panels.js";

const TABS = ["activations", "view", "search", "rules", "plan", "ledger"];
const page = { sessions: [], id: null, tab: "activations", state: null, busy: false, again: false, drawn: new Map(), said: null };

function notice(text) {
  byId("notice").textContent = inert(text ?? "");
  byId("notice").hidden = !text;
}

async function refresh() {
  if (page.busy) { page.again = true; return; }
  page.busy = true;
  const begun = performance.now();
  try {
    const { sessions, store } = await ask("sessions");
    page.sessions = sessions;
    byId("store").textContent = inert(store);
    if (!sessions.some((one) => one.session_id === page.id)) page.id = sessions[0]?.session_id ?? null;
    redraw(drawSessions, [page.id, sessions]);
    if (page.id !== null) await show(page.id);
    byId("empty").hidden = page.id !== null;
    byId("session").hidden = page.id === null;
  } catch (error) { notice(error.message); }
  // A large session takes its time: leave the server twice as long alone.
  setTimeout(() => {
    page.busy = false;
    if (page.again) { page.again = false; refresh(); }
  }, Math.max(150, 2 * (performance.now() - begun)));
}

async function show(id) {
  const fresh = page.state?.session !== id;
  byId("reading").hidden = !fresh;
  const state = await ask("session", { id }).finally(() => { byId("reading").hidden = true; });
  if (id !== page.id) return;
  page.state = state;
  notice(page.said ?? state.failure);
  document.title = inert(`${state.title || id} · inspector`);
  byId("title").textContent = inert(state.title || id);
  byId("title").title = inert(id);
  const info = page.sessions.find((one) => one.session_id === id);
  panels.drawFigures(state, info);
  redraw(panels.drawRibbon, [id, state.log, state.segments, state.blocks, state.view.length], state);
  for (const name of ["activations", "view", "rules", "plan"]) redraw(panels[`draw${upper(name)}`], [id, state[name]], state);
  if (fresh) panels.drawSearch(state);
  if (page.tab === "ledger") await panels.drawLedger(state);
  byId("undo").disabled = !state.activations.some((one) => one.can_undo && !one.is_undone && !one.undoes);
  document.body.dataset.messages = state.messages;
  document.body.dataset.activations = state.activations.length;
}

// Only what has changed is drawn, so that nobody loses the focus or a place in a list.
function redraw(draw, value, state) {
  const text = JSON.stringify(value);
  if (page.drawn.get(draw) !== text) draw(state);
  page.drawn.set(draw, text);
}

function drawSessions() {
  byId("sessions").replaceChildren(...page.sessions.map((one) => make("li", {}, make("button", {
    type: "button", "aria-current": one.session_id === page.id ? "true" : null, onclick: () => choose(one.session_id),
  }, make("b", {}, one.title || one.session_id), make("span", {}, one.title ? one.session_id : null), make("span", {}, `${number(one.messages)} messages · `, moment(one.updated_at)), make("span", {}, one.writer_pid ? make("i", { class: "open", title: `open in process ${one.writer_pid}` }, "open") : null)))));
  byId("pick").replaceChildren(...page.sessions.map((one) => make("option", { value: one.session_id, selected: one.session_id === page.id }, `${one.title || one.session_id} (${number(one.messages)})`)));
}

const choose = safely(async (id) => {
  if (id === page.id) return;
  page.id = id;
  page.state = null;
  page.said = null;
  location.hash = encodeURIComponent(id);
  redraw(drawSessions, [id, page.sessions]);
  byId("pointed").textContent = "";
  await show(id);
  byId("main").focus();
});

function chooseTab(name, focus) {
  page.tab = name;
  for (const tab of TABS) {
    const button = byId(`tab-${tab}`);
    button.setAttribute("aria-selected", tab === name);
    button.tabIndex = tab === name ? 0 : -1;
    byId(`panel-${tab}`).hidden = tab !== name;
  }
  if (focus) byId(`tab-${name}`).focus();
  if (name === "ledger" && page.state) safely(panels.drawLedger)(page.state);
}

function named() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

byId("pick").addEventListener("change", (event) => choose(event.target.value));
byId("undo").addEventListener("click", safely(() => panels.askUndo(page.state, (text) => { page.said = text; refresh(); })));
byId("close").addEventListener("click", () => byId("dialog").close());
byId("dialog").addEventListener("click", (event) => { if (event.target === byId("dialog")) byId("dialog").close(); });
for (const tab of TABS) byId(`tab-${tab}`).addEventListener("click", () => chooseTab(tab));
document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) chooseTab(TABS[(TABS.indexOf(page.tab) + step + TABS.length) % TABS.length], true);
});
addEventListener("hashchange", () => { if (page.sessions.some((one) => one.session_id === named())) choose(named()); });
page.id = named() || null;
chooseTab("activations");
const events = new EventSource("api/events");
events.onmessage = () => { byId("live").textContent = "Live"; refresh(); };
events.onerror = () => { byId("live").textContent = "Waiting for the server…"; };
