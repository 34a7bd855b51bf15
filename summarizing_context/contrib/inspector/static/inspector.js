// The page: which session is shown, news of changes, tabs.

import { ask, byId, inert, make, moment, number, safely } from "./dom.js";
import { askUndo, drawFigures, drawRibbon, panels } from "./panels.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
const page = { sessions: [], id: null, state: null, busy: false, again: false, drawn: new Map(), said: null };
const say = (name, text) => { byId(name).textContent = inert(text ?? ""); byId(name).hidden = !text; };

async function refresh() {
  page.again = page.busy;
  if (page.busy) return;
  page.busy = true;
  const begun = performance.now();
  try {
    const { sessions, store } = await ask("sessions");
    page.sessions = sessions;
    say("store", store);
    if (!sessions.some((one) => one.session_id === page.id)) page.id = named() ?? sessions[0]?.session_id ?? null;
    redraw("sessions", [page.id, sessions], drawSessions);
    if (page.id !== null) await show(page.id);
    byId("empty").hidden = page.id !== null;
    byId("session").hidden = page.id === null;
  } catch (error) { say("notice", error.message); }
  // A large session takes its time: leave the server twice as long alone.
  setTimeout(() => {
    page.busy = false;
    if (page.again) refresh();
  }, Math.max(150, 2 * (performance.now() - begun)));
}

async function show(id) {
  const fresh = page.state?.session !== id;
  byId("reading").hidden = !fresh;
  const state = await ask("session", { id }).finally(() => { byId("reading").hidden = true; });
  if (id !== page.id) return;
  page.state = state;
  say("notice", page.said ?? state.failure);
  say("title", state.title || id);
  byId("title").title = inert(id);
  document.title = `${byId("title").textContent} · inspector`;
  drawFigures(state, page.sessions.find((one) => one.session_id === id));
  redraw("ribbon", [id, state.log, state.segments, state.blocks, state.view.length], () => drawRibbon(state));
  for (const name of ["activations", "view", "rules", "plan", "search"]) redraw(name, [id, state[name]], () => fill(name));
  if (!byId("panel-ledger").hidden) await fill("ledger");
  byId("undo").disabled = !state.activations.some((one) => one.can_undo && !one.is_undone && !one.undoes);
  document.body.dataset.messages = state.messages;
  document.body.dataset.activations = state.activations.length;
}

// Only what has changed is drawn, so that the focus and places in lists stay.
function redraw(name, value, draw) {
  const text = JSON.stringify(value);
  if (page.drawn.get(name) !== text) draw();
  page.drawn.set(name, text);
}

const fill = async (name) => byId(`panel-${name}`).replaceChildren(...[await panels[name](page.state)].flat());

function drawSessions() {
  const shown = page.sessions.map(({ session_id: id, title, messages, updated_at, writer_pid: writer }) => [
    make("li", {}, make("button", { type: "button", "aria-current": id === page.id && "true", onclick: () => choose(id) },
      make("b", {}, title || id), make("span", {}, title && id), make("span", {}, `${number(messages)} messages · `, moment(updated_at)),
      make("span", {}, writer && make("i", { class: "open", title: `open in process ${writer}` }, "open")))),
    make("option", { value: id, selected: id === page.id }, `${title || id} (${number(messages)})`),
  ]);
  for (const [at, list] of ["sessions", "pick"].entries()) byId(list).replaceChildren(...shown.map((nodes) => nodes[at]));
}

const choose = safely(async (id) => {
  if (id === page.id) return;
  Object.assign(page, { id, state: null, said: null });
  location.hash = id;
  redraw("sessions", [id, page.sessions], drawSessions);
  byId("pointed").textContent = "";
  await show(id);
  byId("main").focus();
});

function chooseTab(chosen) {
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", tab === chosen);
    tab.tabIndex = tab === chosen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
  }
  if (chosen.id === "tab-ledger" && page.state) safely(fill)("ledger");
  return chosen;
}

// Ids have no signs that an address writes otherwise, but for the colon, which it may.
const named = () => page.sessions.find((one) => one.session_id === location.hash.slice(1).replaceAll("%3A", ":"))?.session_id;

byId("pick").onchange = (event) => choose(event.target.value);
byId("undo").onclick = safely(() => askUndo(page.state, (text) => { page.said = text; refresh(); }));
byId("close").onclick = () => byId("dialog").close();
byId("dialog").onclick = (event) => { if (event.target === byId("dialog")) byId("dialog").close(); };
for (const tab of tabs) tab.onclick = () => chooseTab(tab);
document.querySelector("[role=tablist]").onkeydown = (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) chooseTab(tabs.at((tabs.indexOf(event.target) + step) % tabs.length)).focus();
};
addEventListener("hashchange", () => { if (named()) choose(named()); });
chooseTab(tabs[0]);
const events = new EventSource("api/events");
events.onmessage = () => { say("live", "Live"); refresh(); };
events.onerror = () => say("live", "Waiting for the server…");
