// The figures, the ribbon and the panels; and what opens above them: messages, a summary beside its source, an
// activation, the question before an undo.

import { ask, byId, dollars, madeBy, make, moment, number, openDialog, safely, span, tell, tokens, upper } from "./dom.js";

export function drawFigures(state, info) {
  const share = state.budget ? Math.min(1, state.view_tokens / state.budget) : 0;
  const meter = make("meter", { min: 0, max: 1, high: 0.85, value: share, "aria-label": "share of the budget" });
  const cost = info?.cost === null || info === undefined ? "–" : dollars(info.cost);
  byId("figures").replaceChildren(
    figure("log", number(state.messages), `messages, ${tokens(state.history_tokens)}`),
    figure("view now", number(state.view_tokens), `of ${tokens(state.budget)}`, meter),
    figure("covered", number(state.covered), state.covered ? `messages by ${number(state.blocks.length)} summaries` : "all is in the view as it is"),
    figure("summaries", `${number(state.summaries_ready)}/${number(state.segments.length)}`, `segments ready${state.failed ? `, ${number(state.failed)} failed` : ""}`),
    figure("summary cost", cost, info?.input_tokens ? `${number(info.input_tokens)} tokens in, ${number(info.output_tokens)} out` : "no model was asked"),
    ...(state.cache ? [figure("requests", state.cache.cost === null ? "–" : dollars(state.cache.cost), spentBeside(state.cache))] : []),
  );
}

function spentBeside(cache) {
  const total = Math.max(1, cache.input_tokens + cache.read_tokens + cache.written_tokens);
  const estimated = cache.requests - cache.reported;
  const plain = cache.plain_cost === null ? "" : `; the first ${number(cache.plain_requests)} cost ${dollars(cache.compared_cost)}, with the whole history ${dollars(cache.plain_cost)}`;
  return `${number(cache.requests)} requests, ${Math.round((cache.read_tokens / total) * 100)} % read from the cache, ${number(cache.expiries)} expiries${plain}${estimated ? `; ${number(estimated)} estimated` : ""}`;
}

const figure = (name, value, about, extra) =>
  make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, value), make("span", {}, about), extra));

export function drawActivations(state) {
  const rows = state.activations.map((one) => make("tr", { class: one.is_undone ? "undone" : "" },
    make("th", { scope: "row" }, link(`#${one.number}`, () => showActivation(state.session, one.number), { "aria-label": `Activation ${one.number}: what left the view` })),
    [moment(one.time), one.why, `${number(one.tokens_before)} → ${number(one.tokens_after)}`].map((shown) => make("td", {}, shown)),
    [number(one.prefix_kept), number(one.resent), `${number(one.covered_from)} → ${number(one.covered_to)}`].map((shown) => make("td", { class: "amount" }, shown))));
  const heads = ["no.", "when", "why", "tokens before → after", "prefix kept", "sent again", "messages covered"];
  fill("activations", rows.length
    ? table("activations", "When the view changed, the newest first. Open one to see what left the view.", heads, rows)
    : note(state.covered ? "No activation yet: the next view would be the first." : "No activation yet: the whole log is in the view."));
}

function table(kind, caption, heads, rows) {
  for (const row of rows) [...row.cells].forEach((cell, at) => { cell.dataset.name = heads[at]; }); // of cards on a phone
  const head = make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)));
  return make("table", { class: kind }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, rows));
}

const pressed = (kind) => (text, act, more = {}) => make("button", { type: "button", class: kind, disabled: act === null, onclick: act && safely(act), ...more }, text);

const link = pressed("link"), step = pressed("button");

const opens = (id, start, stop, text = span(start, stop)) => link(text, () => showMessages(id, start, stop));

export function drawView(state) {
  const names = { system: "system prompt", pin: "kept word for word", header: "summaries of the past", block: "rules and memories", tail: "newest messages" };
  const scrolls = { role: "region", "aria-label": names.header, tabindex: 0 };  // by the keyboard too
  fill("view", note("What the next request would send, in this order."), state.view.map((row) =>
    make("div", { class: `part ${row.part}` }, make("span", { class: "tag" }, names[row.part] ?? row.part),
      spoken(state.session, row, row.part === "header" ? scrolls : {}))));
}

// A message of a list.
function spoken(id, row, attributes) {
  const more = ` … (${number(row.left)} more characters)`;
  const rest = row.message === null ? more : opens(id, row.message, row.message + 1, more);
  return make("article", { class: `said ${row.kind}` },
    make("header", {}, make("b", {}, row.kind === "tool" ? "tool result" : row.role),
      row.message !== null && make("span", { class: "where" }, `#${row.message}`),
      row.part === "log" && pinning(id, row.message), make("span", { class: "size" }, tokens(row.tokens))),
    make("pre", attributes, row.text, row.left > 0 && rest));
}

function pinning(session, message) {
  const failed = make("span", { role: "alert" });
  const button = make("button", { type: "button", class: "link", title: "Keep this message in every view", onclick: async () => {
    button.disabled = true;
    try {
      await tell("pin", { session, message });
      button.textContent = "Pinned";
    } catch (error) { failed.textContent = ` ${upper(error.message)}`; button.disabled = false; }
  } }, "Pin");
  return make("span", {}, button, failed);
}

export function drawRules(state) {
  const rows = state.rules.map((rule) => make("li", { class: rule.ended_by === null ? "" : "undone" },
    make("blockquote", {}, rule.quote),
    make("p", { class: "by" }, "said by the user in ", opens(state.session, rule.message, rule.message + 1),
      ` · ${rule.strength === "must" ? "has to hold" : "preferred"} · found by ${rule.source === "model" ? "a model" : "cue words"}`,
      rule.ended_by === null ? null : [" · ended by ", opens(state.session, rule.ended_by, rule.ended_by + 1)])));
  fill("rules", rows.length
    ? [note("What the user has asked for for good, word for word. Views show each rule until the user lifts it."), make("ul", { class: "cards" }, rows)]
    : note("The user has set no standing rule."));
}

export function drawPlan(state) {
  const at = state.plan?.message;
  fill("plan", state.plan
    ? [note("The newest plan, from ", opens(state.session, at, at + 1), ". It stays word for word in every view."), make("pre", { class: "summary" }, state.plan.text)]
    : note("The session has no plan or to-do list."));
}

export async function drawLedger(state) {
  const { facts } = await ask("ledger", { id: state.session });
  const rows = facts.map((fact) => make("tr", { class: fact.superseded ? "undone" : "" },
    make("td", {}, fact.kind), make("td", { class: "what" }, make("code", {}, fact.value)), make("td", {}, fact.operation, fact.superseded ? ", superseded" : null),
    make("td", {}, opens(state.session, fact.start, fact.stop, upper(span(fact.start, fact.stop))))));
  fill("ledger", rows.length
    ? table("ledger", "Paths, commands, errors and values, read off without a model, the newest first.", ["kind", "what", "last", "where"], rows)
    : note("The ledger is empty."));
}

export function drawSearch(state) {
  const results = make("div", { id: "hits", "aria-live": "polite" });
  const input = make("input", { type: "search", id: "query", autocomplete: "off", maxlength: 500 });
  const form = make("form", { role: "search", onsubmit: safely(async (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    const { hits } = await ask("search", { id: state.session, query: input.value });
    results.replaceChildren(hits.length ? make("ul", { class: "cards" }, hits.map((hit) => make("li", {},
      hit.stop > hit.start ? opens(state.session, hit.start, hit.stop, hitName(hit)) : make("b", {}, upper(hit.kind)),
      make("p", {}, hit.snippet)))) : note("Nothing holds any of these words."));
  }) }, make("label", { for: "query" }, "Words in messages and summaries"), make("div", { class: "line" }, input, make("button", { class: "button" }, "Search")));
  fill("search", form, results);
}

const hitName = (hit) => (hit.kind === "message" ? upper(span(hit.start, hit.stop)) : `${upper(hit.kind)} of ${span(hit.start, hit.stop)}`);

const note = (...said) => make("p", { class: "note" }, said);

function fill(panel, ...content) {
  byId(`panel-${panel}`).replaceChildren(...content.flat(2));
}

// The log, its segments, the nodes of the tree of summaries that the header shows, and the present view, aligned by the tokens of the log.
export function drawRibbon(state) {
  const places = offsets(state);
  const rows = [
    band("Log", state.log.map((bin) => ({
      ...bin, kind: `mark ${bin.kind}`, act: () => showMessages(state.session, bin.start, bin.stop),
      says: `${span(bin.start, bin.stop)}, ${bin.stop - bin.start === 1 ? kindName(bin.kind) + ", " : ""}${tokens(bin.tokens)}`,
    })), places),
    band("Segments", state.segments.map((one, at) => ({
      ...one, kind: `block ${shade(one)}`, act: () => showBlock(state.session, state.segments, at, "segments"),
      says: `segment of ${span(one.start, one.stop)}, its summary ${madeBy(one)}, ${tokens(one.tokens)}`,
    })), places, "Segments are cut as the log grows."),
    band("Tree", state.blocks.map((one, at) => ({
      ...one, kind: `block ${shade(one)}${one.form === "full" ? "" : " short"}`, act: () => showBlock(state.session, state.blocks, at, "tree"),
      says: `${one.rank > 0 ? "merge" : "summary"} of ${span(one.start, one.stop)} ${madeBy(one)}, ${one.form}, ${tokens(one.tokens)}`,
    })), places, "Nothing is covered: the view holds the whole log."),
    band("View", viewParts(state), places),
  ];
  const ribbon = byId("ribbon");
  const held = ribbon.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  ribbon.replaceChildren(...rows);
  [...ribbon.querySelectorAll("button")].find((button) => button.getAttribute("aria-label") === held)?.focus();
}

// Where a message begins, from 0 to 1: where the bin of the log ends that holds the one before.
function offsets(state) {
  const total = state.log.reduce((sum, bin) => sum + bin.tokens, 0) || 1;
  let at = 0;
  const marks = state.log.map((bin) => ({ message: bin.stop, at: (at += bin.tokens / total) }));
  return (message) => (message === 0 ? 0 : marks.find((mark) => mark.message >= message)?.at ?? 1);
}

function viewParts(state) {
  const pins = state.view.filter((row) => row.part === "pin" && row.message !== null && row.message < state.covered);
  const part = (kind, start, stop, says, act = () => showMessages(state.session, start, stop)) => ({ kind, start, stop, says: `${span(start, stop)} ${says}`, act });
  return [
    part("covered", 0, state.covered, `stand in the view as ${number(state.blocks.length)} summaries`, () => byId("tab-view").click()),
    ...pins.map((row) => part("pinned", row.message, row.message + 1, `is kept word for word, ${tokens(row.tokens)}`)),
    part("block newest", state.covered, state.messages, "are in the view word for word"),
  ].filter(({ start, stop }) => start < stop);
}

const shade = (block) => (block.made_by === "model" ? "model" : block.made_by === "verbatim" ? "verbatim" : "extractive");

const kindName = (kind) => (kind === "tool" ? "tool result" : kind);

function band(name, parts, places, none = "Nothing yet.") {
  const track = make("div", { class: "track", role: "group", "aria-label": name });
  parts.forEach((part, at) => {
    const button = make("button", { type: "button", class: part.kind, "aria-label": part.says, tabindex: at ? -1 : 0, onclick: safely(part.act) });
    const left = places(part.start), right = places(part.stop);
    button.style.left = `${left * 100}%`;
    button.style.width = `${Math.max(right - left, 0) * 100}%`;
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => { byId("pointed").textContent = part.says; });
    track.append(button);
  });
  if (!parts.length) track.append(make("span", { class: "none" }, none));
  track.addEventListener("keydown", move);
  return make("div", { class: "band" }, make("span", { class: "name", "aria-hidden": true }, name), track);
}

function move(event) {
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (to === undefined || at < 0 || !buttons[to]) return;
  event.preventDefault();
  buttons[at].tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
}

// A part that scrolls by itself, so that both sides stay in sight.
const scrolled = (name, kind, content = []) =>
  make("div", { class: `${kind} scroll`, role: "region", "aria-label": name, tabindex: 0 }, content);

export async function showMessages(id, start, stop) {
  const list = make("div", { class: "list" });
  openDialog(upper(span(start, stop)), list);
  await addMessages(list, id, start, stop);
}

async function addMessages(list, id, start, stop) {
  const page = await ask("messages", { id, start, stop });
  list.append(...page.messages.map((row) => spoken(id, row)));
  if (page.next !== null) {
    const more = step(`Show more (${number(stop - page.next)} left)`, async () => { more.remove(); await addMessages(list, id, page.next, stop); });
    list.append(more);
  }
}

// One of several blocks, of `of` (tree or segments), or of an activation that tells them whole.
export async function showBlock(id, blocks, at, of, back = null) {
  const one = blocks[at];
  const block = one.text === undefined ? await ask("block", { id, of, start: one.start, stop: one.stop }) : one;
  const to = (next) => (blocks[next] ? () => showBlock(id, blocks, next, of, back) : null);
  const source = scrolled("Messages of its source", "list");
  openDialog(`Summary of ${span(block.start, block.stop)}`,
    make("div", { class: "steps" }, back && step(`← Activation ${back.number}`, back.act), step("← Older", to(at - 1)), step("Newer →", to(at + 1)),
      make("p", { class: "by" }, `${upper(madeBy(block))}, ${tokens(block.tokens)}; number ${number(at + 1)} of ${number(blocks.length)}`)),
    make("div", { class: "beside" },
      make("section", {}, make("h3", {}, "The summary"), scrolled("The summary", "whole", [make("pre", { class: "summary" }, block.text)])),
      make("section", {}, make("h3", {}, "Its source"), source)));
  await addMessages(source, id, block.start, block.stop);
}

export async function showActivation(id, number_) {
  const one = await ask("activation", { id, number: number_ });
  const back = { number: one.number, act: () => showActivation(id, number_) };
  const left = one.left.length ? scrolled("Messages that left the view", "list", one.left.map((row) => spoken(id, row))) : note(whyNone(one));
  const blocks = one.blocks === null ? note("What the blocks held is no longer kept.") : scrolled("Summaries of the past", "cards", one.blocks.map((block, at) =>
    make("div", { class: "one" }, link(upper(span(block.start, block.stop)), () => showBlock(id, one.blocks, at, "tree", back)),
      make("p", { class: "by" }, `${madeBy(block)}, ${tokens(block.tokens)}`),
      make("pre", { class: "summary short" }, block.text))));
  openDialog(`Activation ${one.number}`,
    make("p", { class: "by" }, `${upper(one.why)}: ${tokens(one.tokens_before)} before, ${number(one.tokens_after)} after; the first ${number(one.prefix_kept)} stayed in the prompt cache.`),
    make("div", { class: "beside" },
      make("section", {}, make("h3", {}, `What left the view (${number(one.left.length)} message${one.left.length === 1 ? "" : "s"})`), left),
      make("section", {}, make("h3", {}, "What stands for the past since"), blocks)));
}

function whyNone(one) {
  if (one.blocks === null) return "The log was replaced since: its messages are no longer told.";
  if (one.covered_to < one.covered_from) return "An undo: these messages came back word for word.";
  if (one.ends_turn) return "No message left the view. Only the signed thinking of a finished turn did.";
  if (one.reason === "high_water") return "No message left the view. What was too long for it is shown shortened.";
  return "No message left the view. Only what it begins with has changed: pins, notes or memories.";
}

export async function askUndo(state, done) {
  const last = await ask("undo", { id: state.session });
  const typed = state.session.slice(-8); // the end of a long name
  const input = make("input", { id: "confirm", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const button = make("button", { class: "button danger", disabled: true }, "Undo it");
  const said = make("p", { class: "note", role: "alert" });
  input.addEventListener("input", () => { button.disabled = ![typed, state.session].includes(input.value); });
  const form = make("form", { class: "confirm", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await tell("undo", { session: state.session, confirm: input.value });
      byId("dialog").close();
      done(`Activation ${last.undoes} is undone.`);
    } catch (error) { said.textContent = upper(error.message); button.disabled = false; }
  } },
    make("p", {}, `The view goes from about ${number(last.tokens_before)} back to about ${tokens(last.tokens_after)}, of a budget of ${number(last.budget)}: ${span(last.covered_to, last.covered_from)} come back word for word. It stays so until it needs another activation.`),
    make("p", {}, "No message and no summary is lost. The session must not be open elsewhere."),
    make("label", { for: "confirm" }, "Type ", make("code", {}, typed), " to confirm"), make("div", { class: "line" }, input, button), said);
  openDialog(`Undo activation ${last.undoes}?`, form);
  input.focus();
}
