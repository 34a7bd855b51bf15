// The figures and the panels around the ribbon.

import { ask, byId, dollars, make, moment, number, span, spoken, tokens, upper } from "./dom.js";

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

function figure(name, value, about, extra) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, value), make("span", {}, about), extra));
}

export function drawActivations(state, open) {
  const rows = state.activations.map((one) => make("tr", { class: one.is_undone ? "undone" : "" },
    make("th", { scope: "row" }, make("button", { type: "button", class: "link", onclick: () => open.activation(one.number), "aria-label": `Activation ${one.number}: what left the view` }, `#${one.number}`)),
    [moment(one.time), one.why, sizes(one)].map((shown) => make("td", {}, shown)),
    [number(one.prefix_kept), [number(one.resent), one.cost === null ? null : make("small", {}, dollars(one.cost))],
      `${number(one.covered_from)} → ${number(one.covered_to)}`].map((shown) => make("td", { class: "amount" }, shown))));
  const heads = ["no.", "when", "why", "tokens before → after", "prefix kept", "sent anew", "messages covered"];
  fill("activations", rows.length
    ? table("activations", "When the view changed, the newest first. Open one to see what left the view.", heads, rows)
    : note(state.covered ? "No activation yet: the next view would be the first." : "No activation yet: the whole log is in the view."));
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

const table = (kind, caption, heads, rows) => make("table", { class: kind }, make("caption", {}, caption),
  make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, rows));

const link = (text, act) => make("button", { type: "button", class: "link", onclick: act }, text);

export function drawView(state) {
  const names = { system: "system prompt", pin: "kept word for word", header: "summaries of the past", block: "rules and memories", tail: "newest messages" };
  fill("view", note("What the next request would send, in this order."), state.view.map((row) => {
    const said = spoken(state.session, row);
    if (row.part === "header") {  // it scrolls, by the keyboard too
      const text = said.querySelector("pre");
      text.tabIndex = 0;
      text.setAttribute("role", "region");
      text.setAttribute("aria-label", names.header);
    }
    return make("div", { class: `part ${row.part}` }, make("span", { class: "tag" }, names[row.part] ?? row.part), said);
  }));
}

export function drawRules(state, open) {
  const rows = state.rules.map((rule) => make("li", { class: rule.ended_by === null ? "" : "undone" },
    make("blockquote", {}, rule.quote),
    make("p", { class: "by" }, "said by the user in ", link(`message ${rule.message}`, () => open.messages(rule.message, rule.message + 1)),
      ` · ${rule.strength === "must" ? "has to hold" : "preferred"} · found by ${rule.source === "model" ? "a model" : "cue words"}`,
      rule.ended_by === null ? null : [" · ended by ", link(`message ${rule.ended_by}`, () => open.messages(rule.ended_by, rule.ended_by + 1))])));
  fill("rules", rows.length
    ? [note("What the user has asked for for good, word for word. Views show each rule until the user lifts it."), make("ul", { class: "cards" }, rows)]
    : note("The user has set no standing rule."));
}

export function drawPlan(state, open) {
  const at = state.plan?.message;
  fill("plan", state.plan
    ? [make("p", { class: "note" }, "The newest plan, from ", link(`message ${at}`, () => open.messages(at, at + 1)), ". It stays word for word in every view."), make("pre", { class: "plan" }, state.plan.text)]
    : note("The session has no plan or to-do list."));
}

export async function drawLedger(id, open) {
  const { facts } = await ask("ledger", { id });
  const rows = facts.map((fact) => make("tr", { class: fact.superseded ? "undone" : "" },
    make("td", {}, fact.kind), make("td", { class: "what" }, make("code", {}, fact.value)), make("td", {}, fact.operation, fact.superseded ? ", superseded" : null),
    make("td", {}, link(upper(span(fact.start, fact.stop)), () => open.messages(fact.start, fact.stop)))));
  fill("ledger", rows.length
    ? table("ledger", "Paths, commands, errors and values, read off without a model, the newest first.", ["kind", "what", "last", "where"], rows)
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
        hit.stop > hit.start ? link(hitName(hit), () => open.messages(hit.start, hit.stop)) : make("b", {}, upper(hit.kind)),
        make("p", {}, hit.snippet)))) : note("Nothing holds any of these words."));
    } catch (error) { results.replaceChildren(note(error.message)); }
  } }, make("label", { for: "query" }, "Words in messages and summaries"), make("div", { class: "line" }, input, make("button", { class: "button" }, "Search")));
  fill("search", form, results);
}

const hitName = (hit) => (hit.kind === "message" ? upper(span(hit.start, hit.stop)) : `${upper(hit.kind)} of ${span(hit.start, hit.stop)}`);

const note = (text) => make("p", { class: "note" }, text);

function fill(panel, ...content) {
  byId(`panel-${panel}`).replaceChildren(...content.flat(2));
}
