// What opens above the page: messages, a summary beside its source, an activation, the question before an undo.

import { ask, byId, madeBy, make, number, openDialog, safely, span, spoken, tell, tokens, upper } from "./dom.js";


// A part that scrolls by itself, so that both sides stay in sight.
function scrolled(name, kind, content = []) {
  return make("div", { class: `${kind} scroll`, role: "region", "aria-label": name, tabindex: 0 }, content);
}

const note = (text) => make("p", { class: "note" }, text);

const step = (text, act) => make("button", { type: "button", class: "button", disabled: act === null, onclick: act && safely(act) }, text);

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
    make("div", { class: "one" }, make("button", { type: "button", class: "link", onclick: safely(() => showBlock(id, one.blocks, at, "tree", back)) }, upper(span(block.start, block.stop))),
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
    if (button.disabled) return;
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
