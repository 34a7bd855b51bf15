// The panels below the ribbon, and what opens in the dialog.

import { ask, byId, dollars, madeBy, make, moment, number, openDialog, span, spoken, tell, tokens } from "./dom.js";

const REASONS = {
  high_water: "the view was nearly full", budget_lowered: "a smaller budget", provider_changed: "another provider",
  system_changed: "another system prompt", log_replaced: "the log was replaced", idle: "the prompt cache was cold",
  explicit: "asked for", restored: "went back",
};

export function drawFigures(state, info) {
  const share = state.budget ? Math.min(1, state.view_tokens / state.budget) : 0;
  const meter = make("meter", { min: 0, max: 1, high: 0.85, value: share, "aria-label": "share of the budget" });
  const cost = info?.cost === null || info === undefined ? "–" : dollars(info.cost);
  byId("figures").replaceChildren(
    figure("log", number(state.messages), `messages, ${tokens(state.history_tokens)}`),
    figure("view now", number(state.view_tokens), `of ${tokens(state.budget)}`, meter),
    figure("covered", number(state.covered), `messages by ${number(state.blocks.length)} summaries`),
    figure("summaries", `${number(state.summaries_ready)}/${number(state.segments.length)}`, "segments ready"),
    figure("summary cost", cost, info ? `${number(info.input_tokens)} in, ${number(info.output_tokens)} out` : ""),
  );
}

function figure(name, value, about, extra) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, value), make("span", {}, about), extra));
}

export function drawActivations(state, open) {
  const rows = state.activations.map((one) => make("tr", { class: one.is_undone ? "undone" : "" },
    make("th", { scope: "row" }, make("button", { type: "button", class: "link", onclick: () => open.activation(one.number), "aria-label": `Activation ${one.number}: what left the view` }, `#${one.number}`)),
    cell("when", moment(one.time)),
    cell("why", one.undoes ? `undo of #${one.undoes}` : REASONS[one.reason] ?? one.reason, one.is_undone ? make("em", {}, " undone") : null),
    cell("tokens", sizes(one)),
    cell("prefix kept", `${number(one.prefix_kept)}`),
    cell("sent anew", number(one.resent), one.cost === null ? null : ` ${dollars(one.cost)}`),
    cell("covered", `${number(one.covered_from)} → ${number(one.covered_to)}`)));
  const heads = ["no.", "when", "why", "tokens before → after", "prefix kept", "sent anew", "messages covered"];
  fill("activations", rows.length
    ? make("table", {}, make("caption", {}, "When the view changed, the newest first. Open one to see what left the view."),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, rows))
    : note("No activation yet: the whole log is in the view."));
}

function sizes(one) {
  const most = Math.max(one.tokens_before, one.tokens_after, 1);
  const bars = [one.tokens_before, one.tokens_after].map((value, at) => {
    const bar = make("i", { class: at ? "after" : "before", "aria-hidden": true });
    bar.style.width = `${(value / most) * 100}%`;
    return bar;
  });
  return [make("span", {}, `${number(one.tokens_before)} → ${number(one.tokens_after)}`), make("span", { class: "bars" }, bars)];
}

const cell = (name, ...content) => make("td", { "data-name": name }, ...content);

export function drawView(state) {
  const names = { system: "system prompt", pin: "kept word for word", header: "summaries of the past", tail: "newest messages" };
  fill("view", note("What the next request would send, in this order."), state.view.map((row) =>
    make("div", { class: `part ${row.part}` }, make("span", { class: "tag" }, names[row.part] ?? row.part), spoken(row))));
}

export function drawRules(state) {
  const rows = state.rules.map((rule) => make("li", { class: rule.ended_by === null ? "" : "undone" },
    make("blockquote", {}, rule.quote),
    make("p", { class: "by" }, `said by the user in message ${rule.message} · ${rule.strength === "must" ? "has to hold" : "preferred"} · found by ${rule.source === "model" ? "a model" : "cue words"}`,
      rule.ended_by === null ? "" : ` · ended by message ${rule.ended_by}`)));
  fill("rules", rows.length ? make("ul", { class: "cards" }, rows) : note("The user has set no standing rule."));
}

export function drawPlan(state) {
  fill("plan", state.plan
    ? [note(`The newest plan, from message ${state.plan.message}. It stays word for word in every view.`), make("pre", { class: "plan" }, state.plan.text)]
    : note("The session has no plan or to-do list."));
}

export async function drawLedger(id) {
  const { facts } = await ask("ledger", { id });
  const rows = facts.map((fact) => make("tr", { class: fact.superseded ? "undone" : "" },
    cell("kind", fact.kind), cell("what", make("code", {}, fact.value)), cell("last", fact.operation),
    cell("where", span(fact.start, fact.stop))));
  fill("ledger", rows.length
    ? make("table", {}, make("caption", {}, "Paths, commands, errors and values, read off without a model, the newest first."),
      make("thead", {}, make("tr", {}, ["kind", "what", "last", "where"].map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, rows))
    : note("The ledger is empty."));
}

export function drawSearch(id, open) {
  const results = make("div", { id: "hits", "aria-live": "polite" });
  const input = make("input", { type: "search", id: "query", autocomplete: "off", maxlength: 500 });
  const form = make("form", { role: "search", onsubmit: async (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    try {
      const { hits } = await ask("search", { id, query: input.value });
      results.replaceChildren(hits.length ? make("ul", { class: "cards" }, hits.map((hit) => make("li", {},
        make("button", { type: "button", class: "link", onclick: () => open.messages(hit.start, hit.stop) }, `${hit.kind}: ${span(hit.start, hit.stop)}`),
        make("p", {}, hit.snippet)))) : note("Nothing holds any of these words."));
    } catch (error) { results.replaceChildren(note(error.message)); }
  } }, make("label", { for: "query" }, "Words in messages and summaries"), make("div", { class: "line" }, input, make("button", { class: "button" }, "Search")));
  fill("search", form, results);
}

// A part of the dialog that scrolls by itself, so that both sides stay in sight.
function scrolled(name, kind, content = []) {
  return make("div", { class: `${kind} scroll`, role: "region", "aria-label": name, tabindex: 0 }, content);
}

const note = (text) => make("p", { class: "note" }, text);

function fill(panel, ...content) {
  byId(`panel-${panel}`).replaceChildren(...content.flat(2));
}

// The dialog

export async function showMessages(id, start, stop) {
  const list = make("div", { class: "list" });
  openDialog(upper(span(start, stop)), list);
  await addMessages(list, id, start, stop);
}

async function addMessages(list, id, start, stop) {
  const page = await ask("messages", { id, start, stop });
  list.append(...page.messages.map((row) => spoken(row)));
  if (page.next !== null) {
    const more = make("button", { type: "button", class: "button", onclick: async () => { more.remove(); await addMessages(list, id, page.next, stop); } }, `Show more (${number(stop - page.next)} left)`);
    list.append(more);
  }
}

export async function showBlock(id, block) {
  const full = block.text === undefined ? await ask("segment", { id, start: block.start, stop: block.stop }) : block;
  const source = scrolled("Messages of its source", "list");
  openDialog(`Summary of ${span(full.start, full.stop)}`, make("p", { class: "by" }, `${madeBy(full)}, ${tokens(full.tokens)}`),
    make("div", { class: "beside" },
      make("section", {}, make("h3", {}, "The summary"), make("pre", { class: "summary" }, full.text), dropped(full)),
      make("section", {}, make("h3", {}, "Its source"), source)));
  await addMessages(source, id, full.start, full.stop);
}

function dropped(block) {
  if (!block.drops.length) return make("p", { class: "note" }, "It names no exact value of its source as missing.");
  return make("details", { open: block.drops.length < 30 }, make("summary", {}, `${number(block.drops.length)} exact values of the source are not in it`),
    make("ul", { class: "drops" }, block.drops.map((value) => make("li", {}, make("code", {}, value)))));
}

export async function showActivation(id, number_) {
  const one = await ask("activation", { id, number: number_ });
  const left = one.left.length
    ? scrolled("Messages that left the view", "list", one.left.map((row) => spoken(row)))
    : note(one.covered_to < one.covered_from ? "An undo: these messages came back word for word." : "No message left the view.");
  const blocks = one.blocks === null ? note("What the blocks held is no longer kept.") : scrolled("Summaries of the past", "cards", one.blocks.map((block) =>
    make("div", { class: "one" }, make("button", { type: "button", class: "link", onclick: () => showBlock(id, block) }, `${upper(span(block.start, block.stop))}`),
      make("p", { class: "by" }, `${madeBy(block)}, ${tokens(block.tokens)}, ${number(block.drops.length)} exact values not in it`),
      make("pre", { class: "summary short" }, block.text))));
  openDialog(`Activation ${one.number}`,
    make("p", { class: "by" }, `${REASONS[one.reason] ?? one.reason}: ${tokens(one.tokens_before)} before, ${number(one.tokens_after)} after; the first ${number(one.prefix_kept)} stayed in the prompt cache.`),
    make("div", { class: "beside" },
      make("section", {}, make("h3", {}, `What left the view (${number(one.left.length)} messages)`), left),
      make("section", {}, make("h3", {}, "What stands for the past since"), blocks)));
}

export function askUndo(state, done) {
  const last = state.activations.find((one) => one.can_undo && !one.is_undone && !one.undoes);
  if (!last) return;
  const input = make("input", { id: "confirm", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const button = make("button", { class: "button danger", disabled: true }, "Undo it");
  const said = make("p", { class: "note", role: "alert" });
  input.addEventListener("input", () => { button.disabled = input.value !== state.session; });
  const form = make("form", { class: "confirm", onsubmit: async (event) => {
    event.preventDefault();
    if (input.value !== state.session) return;
    button.disabled = true;
    try {
      await tell("undo", { session: state.session, confirm: input.value });
      byId("dialog").close();
      done(`Activation ${last.number} is undone.`);
    } catch (error) { said.textContent = upper(error.message); button.disabled = false; }
  } },
    make("p", {}, `The view goes back from ${tokens(last.tokens_after)} to about ${number(last.tokens_before)}: messages ${last.covered_from}–${last.covered_to - 1} come back word for word. It stays so until it needs another activation.`),
    make("p", {}, "No message and no summary is lost. The session must not be open elsewhere."),
    make("label", { for: "confirm" }, "Type ", make("code", {}, state.session), " to confirm"), make("div", { class: "line" }, input, button), said);
  openDialog(`Undo activation ${last.number}?`, form);
  input.focus();
}

const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
