// The figures, the ribbon and the panels; and what opens above them: messages, a summary beside its source, an
// activation, the question before an undo.

import { ask, byId, counted, dollars, make, moment, number, openDialog, safely, send, span, tokens, upper } from "./dom.js";

const MADE_BY = {
  model: "by a model", extractive: "without a model", verbatim: "word for word",
  "stand-in": "stand-in until the model's is ready", provisional: "provisional", none: "left out",
};

const madeBy = (block, ...more) => [MADE_BY[block.made_by] ?? block.made_by, ...more, tokens(block.tokens)].join(", ");

const pressed = (kind) => (text, act, more = {}) => make("button", { type: "button", class: kind, disabled: act === null, onclick: act && safely(act), ...more }, text);
const link = pressed("link"), step = pressed("button");
const opens = (id, start, stop, text = span(start, stop)) => link(text, () => showMessages(id, start, stop));

const paragraph = (kind) => (...said) => make("p", { class: kind }, said);
const note = paragraph("note"), about = paragraph("by");
const cards = (rows) => make("ul", { class: "cards" }, rows);
const summary = (text, more = "") => make("pre", { class: `summary${more}` }, text);

const listed = (rows, none, shown) => (rows.length ? shown(rows) : note(none));

// A part that scrolls by itself, by the keyboard too, so that both sides stay in sight.
const scrolls = (name) => ({ role: "region", "aria-label": name, tabindex: 0 });
const scrolled = (name, kind, content = []) => make("div", { class: `${kind} scroll`, ...scrolls(name) }, content);
const beside = (...sides) => make("div", { class: "beside" }, sides.map(([title, side]) => make("section", {}, make("h3", {}, title), side)));

// Rows are whether they are past, and their cells; on a phone each cell has its head. The first is a `lead`.
function table(kind, lead, caption, heads, rows) {
  const lines = rows.map(([isPast, ...cells]) => make("tr", { class: isPast && "undone" }, cells.map((shown, at) =>
    make(at ? "td" : lead, { scope: !at && lead === "th" && "row", "data-name": heads[at] }, shown))));
  const head = make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)));
  return make("table", { class: kind }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, lines));
}

export function drawFigures(state, info) {
  const { cache, budget, covered } = state, share = budget ? Math.min(1, state.view_tokens / budget) : 0;
  const cost = info?.cost === null || info === undefined ? "–" : dollars(info.cost);
  const figures = [
    ["log", number(state.messages), `messages, ${tokens(state.history_tokens)}`],
    ["view now", number(state.view_tokens), `of ${tokens(budget)}`, make("meter", { min: 0, max: 1, high: 0.85, value: share, "aria-label": "share of the budget" })],
    ["covered", number(covered), covered ? `messages by ${number(state.blocks.length)} summaries` : "all is in the view as it is"],
    ["summaries", `${number(state.summaries_ready)}/${number(state.segments.length)}`, `segments ready${state.failed ? `, ${number(state.failed)} failed` : ""}`],
    ["summary cost", cost, info?.input_tokens ? `${number(info.input_tokens)} tokens in, ${number(info.output_tokens)} out` : "no model was asked"],
    ...(cache ? [["requests", cache.cost === null ? "–" : dollars(cache.cost), spentBeside(cache)]] : []),
  ];
  byId("figures").replaceChildren(...figures.map(([name, value, words, meter]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, value), make("span", {}, words), meter))));
}

function spentBeside(cache) {
  const total = Math.max(1, cache.input_tokens + cache.read_tokens + cache.written_tokens);
  const estimated = cache.requests - cache.reported;
  const plain = cache.plain_cost === null ? "" : `; the first ${number(cache.plain_requests)} cost ${dollars(cache.compared_cost)}, with the whole history ${dollars(cache.plain_cost)}`;
  return `${number(cache.requests)} requests, ${Math.round((cache.read_tokens / total) * 100)} % read from the cache, ${number(cache.expiries)} expiries${plain}${estimated ? `; ${number(estimated)} estimated` : ""}`;
}

const PARTS = { system: "system prompt", pin: "kept word for word", header: "summaries of the past", block: "rules and memories", tail: "newest messages" };
const CHANGES = ["no.", "when", "why", "tokens before → after", "prefix kept", "sent again", "messages covered"];

// What each panel shows of a state.
export const panels = {
  activations: ({ session, covered, activations }) => listed(activations.map((one) => [
    one.is_undone, link(`#${one.number}`, () => showActivation(session, one.number), { "aria-label": `Activation ${one.number}: what left the view` }),
    moment(one.time), one.why, `${number(one.tokens_before)} → ${number(one.tokens_after)}`,
    number(one.prefix_kept), number(one.resent), `${number(one.covered_from)} → ${number(one.covered_to)}`,
  ]), `No activation yet: ${covered ? "the next view would be the first" : "the whole log is in the view"}.`,
  (rows) => table("activations", "th", "When the view changed, the newest first. Open one to see what left the view.", CHANGES, rows)),

  view: ({ session, view }) => [note("What the next request would send, in this order."), ...view.map((row) =>
    make("div", { class: `part ${row.part}` }, make("span", { class: "tag" }, PARTS[row.part] ?? row.part),
      spoken(session, row, row.part === "header" ? scrolls(PARTS.header) : {})))],

  rules: ({ session, rules }) => listed(rules.map((rule) => make("li", { class: rule.ended_by !== null && "undone" },
    make("blockquote", {}, rule.quote),
    about("said by the user in ", opens(session, rule.message, rule.message + 1),
      ` · ${rule.strength === "must" ? "has to hold" : "preferred"} · found by ${rule.source === "model" ? "a model" : "cue words"}`,
      rule.ended_by !== null && [" · ended by ", opens(session, rule.ended_by, rule.ended_by + 1)]))),
  "The user has set no standing rule.",
  (rows) => [note("What the user has asked for for good, word for word. Views show each rule until the user lifts it."), cards(rows)]),

  plan: ({ session, plan }) => (plan === null ? note("The session has no plan or to-do list.") : [
    note("The newest plan, from ", opens(session, plan.message, plan.message + 1), ". It stays word for word in every view."), summary(plan.text)]),

  ledger: async ({ session }) => listed((await ask("ledger", { id: session })).facts.map(({ superseded, kind, value, operation, start, stop }) => [
    superseded, kind, make("code", {}, value), [operation, superseded && ", superseded"], opens(session, start, stop, upper(span(start, stop))),
  ]), "The ledger is empty.",
  (rows) => table("ledger", "td", "Paths, commands, errors and values, read off without a model, the newest first.", ["kind", "what", "last", "where"], rows)),

  search({ session }) {
    const results = make("div", { id: "hits", "aria-live": "polite" });
    const input = make("input", { type: "search", id: "query", autocomplete: "off", maxlength: 500 });
    const hit = ({ kind, start, stop, snippet }) => {
      const name = upper(stop <= start ? kind : kind === "message" ? span(start, stop) : `${kind} of ${span(start, stop)}`);
      return make("li", {}, stop > start ? opens(session, start, stop, name) : make("b", {}, name), make("p", {}, snippet));
    };
    const search = async (event) => {
      event.preventDefault();
      if (!input.value.trim()) return;
      const { hits } = await ask("search", { id: session, query: input.value });
      results.replaceChildren(listed(hits.map(hit), "Nothing holds any of these words.", cards));
    };
    return [make("form", { role: "search", onsubmit: safely(search) }, make("label", { for: "query" }, "Words in messages and summaries"),
      make("div", { class: "line" }, input, make("button", { class: "button" }, "Search"))), results];
  },
};

// A message of a list.
function spoken(id, row, attributes) {
  const failed = make("span", { role: "alert" });
  const keep = () => send(pin, failed, "pin", { session: id, message: row.message }, () => { pin.textContent = "Pinned"; });
  const pin = link("Pin", keep, { title: "Keep this message in every view" });
  const more = ` … (${number(row.left)} more characters)`;
  const rest = row.message === null ? more : opens(id, row.message, row.message + 1, more);
  return make("article", { class: `said ${{ header: "model", pin: "pin" }[row.part] ?? row.kind}` },
    make("header", {}, make("b", {}, row.kind === "tool" ? "tool result" : row.role),
      row.message !== null && make("span", { class: "where" }, `#${row.message}`),
      row.part === "log" && make("span", {}, pin, failed), make("span", { class: "size" }, tokens(row.tokens))),
    make("pre", attributes, row.text, row.left > 0 && rest));
}

const EMPTY = { Segments: "Segments are cut as the log grows.", Tree: "Nothing is covered: the view holds the whole log." };

// The log, its segments, the nodes of the tree of summaries that the header shows, and the present view, aligned by the tokens of the log.
export function drawRibbon({ session, log, segments, blocks, view, covered, messages }) {
  const alone = ({ start, stop, kind }) => (stop - start > 1 ? "" : kind === "tool" ? "tool result, " : `${kind}, `);
  const pins = view.filter((row) => row.part === "pin" && row.message !== null && row.message < covered);
  const bands = {
    Log: log.map((bin) => [bin.start, bin.stop, `mark ${bin.kind}`, (words) => `${words}, ${alone(bin)}${tokens(bin.tokens)}`]),
    Segments: segments.map((one, at) => [one.start, one.stop, `block ${one.made_by}`,
      (words) => `segment of ${words}, its summary ${madeBy(one)}`, () => showBlock(session, segments, at, "segments")]),
    Tree: blocks.map((one, at) => [one.start, one.stop, `block ${one.made_by}${one.form === "full" ? "" : " short"}`,
      (words) => `${one.rank > 0 ? "merge" : "summary"} of ${words} ${madeBy(one, one.form)}`, () => showBlock(session, blocks, at, "tree")]),
    View: [
      [0, covered, "covered", (words) => `${words} stand in the view as ${number(blocks.length)} summaries`, () => byId("tab-view").click()],
      ...pins.map((row) => [row.message, row.message + 1, "pinned", (words) => `${words} is kept word for word, ${tokens(row.tokens)}`]),
      [covered, messages, "block newest", (words) => `${words} are in the view word for word`],
    ].filter(([start, stop]) => start < stop),
  };
  // Where a message begins: where the bin of the log ends that holds the one before.
  const before = (message) => log.reduce((sum, bin) => sum + (bin.start < message ? bin.tokens : 0), 0);
  const total = before(messages) || 1;
  const rows = Object.entries(bands).map(([name, parts]) => {
    const buttons = parts.map(([start, stop, kind, says, act = () => showMessages(session, start, stop)], at) => {
      const label = says(span(start, stop)), point = () => { byId("pointed").textContent = label; };
      const button = pressed(kind)("", act, { "aria-label": label, tabindex: at ? -1 : 0, onpointerenter: point, onfocus: point });
      button.style.left = `${(before(start) / total) * 100}%`;
      button.style.width = `${((before(stop) - before(start)) / total) * 100}%`;
      return button;
    });
    return make("div", { class: "band" }, make("span", { class: "name", "aria-hidden": true }, name),
      make("div", { class: "track", role: "group", "aria-label": name, onkeydown: (event) => move(event, buttons) },
        buttons.length ? buttons : make("span", {}, EMPTY[name] ?? "Nothing yet.")));
  });
  const ribbon = byId("ribbon"), held = ribbon.contains(document.activeElement) && document.activeElement.ariaLabel;
  ribbon.replaceChildren(...rows);
  [...ribbon.querySelectorAll("button")].find((button) => button.ariaLabel === held)?.focus();
}

function move(event, buttons) {
  const at = buttons.indexOf(document.activeElement);
  const next = buttons[{ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key]];
  if (!next) return;
  event.preventDefault();
  buttons[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

export async function showMessages(id, start, stop) {
  const list = make("div", { class: "list" });
  openDialog(upper(span(start, stop)), list);
  await addMessages(list, id, start, stop);
}

async function addMessages(list, id, start, stop) {
  const page = await ask("messages", { id, start, stop });
  list.append(...page.messages.map((row) => spoken(id, row)));
  if (page.next === null) return;
  const more = step(`Show more (${number(stop - page.next)} left)`, async () => { more.remove(); await addMessages(list, id, page.next, stop); });
  list.append(more);
}

// One of several blocks, of `of` (tree or segments), or of an activation that tells them whole.
export async function showBlock(id, blocks, at, of, back = null) {
  const { start, stop, text } = blocks[at];
  const block = text === undefined ? await ask("block", { id, of, start, stop }) : blocks[at];
  const to = (next) => (blocks[next] ? () => showBlock(id, blocks, next, of, back) : null);
  const source = scrolled("Messages of its source", "list");
  openDialog(`Summary of ${span(start, stop)}`,
    make("div", { class: "steps" }, back && step(`← Activation ${back}`, () => showActivation(id, back)), step("← Older", to(at - 1)), step("Newer →", to(at + 1)),
      about(`${upper(madeBy(block))}; number ${number(at + 1)} of ${number(blocks.length)}`)),
    beside(["The summary", scrolled("The summary", "whole", summary(block.text))], ["Its source", source]));
  await addMessages(source, id, start, stop);
}

export async function showActivation(id, number_) {
  const one = await ask("activation", { id, number: number_ });
  const left = one.left.length ? scrolled("Messages that left the view", "list", one.left.map((row) => spoken(id, row))) : note(whyNone(one));
  const blocks = one.blocks === null ? note("What the blocks held is no longer kept.") : scrolled("Summaries of the past", "cards", one.blocks.map((block, at) =>
    make("div", { class: "one" }, link(upper(span(block.start, block.stop)), () => showBlock(id, one.blocks, at, "tree", number_)),
      about(madeBy(block)), summary(block.text, " short"))));
  openDialog(`Activation ${one.number}`,
    about(`${upper(one.why)}: ${tokens(one.tokens_before)} before, ${number(one.tokens_after)} after; the first ${number(one.prefix_kept)} stayed in the prompt cache.`),
    beside([`What left the view (${counted(one.left.length, "message")})`, left], ["What stands for the past since", blocks]));
}

function whyNone(one) {
  if (one.blocks === null) return "The log was replaced since: its messages are no longer told.";
  if (one.covered_to < one.covered_from) return "An undo: these messages came back word for word.";
  if (one.ends_turn) return "No message left the view. Only the signed thinking of a finished turn did.";
  if (one.reason === "high_water") return "No message left the view. What was too long for it is shown shortened.";
  return "No message left the view. Only what it begins with has changed: pins, notes or memories.";
}

export async function askUndo({ session }, done) {
  const last = await ask("undo", { id: session });
  const typed = session.slice(-8); // the end of a long name
  const button = make("button", { class: "button danger", disabled: true }, "Undo it");
  const input = make("input", { id: "confirm", autocomplete: "off", spellcheck: "false", autocapitalize: "off",
    oninput: () => { button.disabled = ![typed, session].includes(input.value); } });
  const said = make("p", { class: "note", role: "alert" });
  const undone = () => { byId("dialog").close(); done(`Activation ${last.undoes} is undone.`); };
  const undo = (event) => { event.preventDefault(); send(button, said, "undo", { session, confirm: input.value }, undone); };
  openDialog(`Undo activation ${last.undoes}?`, make("form", { class: "confirm", onsubmit: undo },
    make("p", {}, `The view goes from about ${number(last.tokens_before)} back to about ${tokens(last.tokens_after)}, of a budget of ${number(last.budget)}: ${span(last.covered_to, last.covered_from)} come back word for word. It stays so until it needs another activation.`),
    make("p", {}, "No message and no summary is lost. The session must not be open elsewhere."),
    make("label", { for: "confirm" }, "Type ", make("code", {}, typed), " to confirm"), make("div", { class: "line" }, input, button), said));
  input.focus();
}
