// Pi's compactions are made by a running `summarizing-context proxy`, from summaries that were made in the background.
// Without it, Pi compacts by itself. Installed by `summarizing-context install pi`, and removed by `uninstall`.
import { readFile } from "node:fs/promises"

const SERVICE = "{{SERVICE}}"
const TOKEN_FILE = "{{TOKEN_FILE}}"

const textOf = (content) =>
  typeof content === "string"
    ? content
    : content.map((block) => (block.type === "text" ? block.text : block.type === "image" ? "[image]" : "")).join("")

const callOf = (id, name, input) => ({ id, type: "function", function: { name, arguments: JSON.stringify(input) } })

/** An entry of a session as a row of Chat Completions; undefined for what no model reads. */
function rowOf(entry) {
  if (entry.type === "custom_message") return { role: "user", content: textOf(entry.content) }
  if (entry.type === "branch_summary") return { role: "user", content: entry.summary }
  if (entry.type !== "message") return undefined
  const { role, content, toolCallId, command, output } = entry.message
  if (role === "user") return { role, content: textOf(content) }
  if (role === "toolResult") return { role: "tool", tool_call_id: toolCallId, content: textOf(content) }
  if (role === "bashExecution") return { role: "user", content: `$ ${command}\n${output}` }
  if (role !== "assistant") return undefined
  const calls = content.filter((block) => block.type === "toolCall")
  const tool_calls = calls.map(({ id, name, arguments: given }) => callOf(id, name, given))
  return { role, content: textOf(content), ...(calls.length && { tool_calls }) }
}

export default function (pi) {
  let isSaid = false
  let ahead // a request that no compaction waits for; each holds the whole history, so one at a time will do

  /** What the service says of a branch of the session; undefined where it does not answer, or has nothing to change. */
  async function ask(branch, ctx, compact, signal = AbortSignal.timeout(8_000)) {
    const entries = branch.filter(rowOf)
    const { id: model, contextWindow: context_window, maxTokens: max_tokens } = ctx.model ?? {}
    const body = JSON.stringify({ model, context_window, max_tokens, compact, messages: entries.map(rowOf) })
    const session = ctx.sessionManager.getSessionId()
    try {
      const token = (await readFile(TOKEN_FILE, "utf8")).trim()
      const headers = { "content-type": "application/json", "x-pi-session-id": session, "x-summarizing-context-token": token }
      const answer = await fetch(`${SERVICE}/_view`, { method: "POST", headers, body, signal })
      if (!answer.ok) throw new Error(`it answered ${answer.status}`)
      return answer.status === 204 ? undefined : { entries, items: (await answer.json()).messages }
    } catch (error) {
      if (isSaid) return
      const start = `Start it with: summarizing-context proxy --store STORE --listen ${SERVICE.slice(7)}`
      const words = `Pi compacts by itself: ${SERVICE} (${error.message}). ${start}`
      if (ctx.hasUI === false) console.error(words)
      else ctx.ui.notify(words, "warning") // throws where the session has ended: then it is still to be said
      isSaid = true
    }
  }

  // While the session grows, so that the summaries are there when they are needed. It may end before the answer comes;
  // then its context throws.
  pi.on("turn_end", (_, ctx) => {
    const end = () => (ahead = undefined)
    ahead ??= ask(ctx.sessionManager.getBranch(), ctx, false).then(end, end)
  })

  pi.on("session_before_compact", async ({ branchEntries, preparation, signal }, ctx) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(30_000)])
    const found = await ask(branchEntries, ctx, true, within)
    if (!found) return undefined
    const [{ content: summary }, first] = found.items
    const firstKeptEntryId = found.entries[first?.at]?.id ?? "none" // the text may stand for all of it
    return { compaction: { summary, firstKeptEntryId, tokensBefore: preparation.tokensBefore } }
  })
}
