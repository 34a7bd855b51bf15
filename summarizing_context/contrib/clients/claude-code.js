// Claude Code's compactions are made by a running `summarizing-context proxy`, from summaries that were made in the
// background. Without it, Claude Code compacts by itself. Installed by `summarizing-context install claude-code`.
const SERVICE = "{{SERVICE}}"
const TOKEN_FILE = "{{TOKEN_FILE}}"

const callOf = (id, name, input) => ({ id, type: "function", function: { name, arguments: JSON.stringify(input) } })

/** The rows of a session as messages of Chat Completions, each with the rows that it stands for. */
function chatOf(rows) {
  const chat = []
  for (const row of rows) {
    for (const { tool_use_id, text } of row.toolResults ?? [])
      chat.push({ rows: [row], result: tool_use_id, message: { role: "tool", tool_call_id: tool_use_id, content: text } })
    const calls = (row.toolUses ?? []).map(({ tool_use_id, tool, input }) => callOf(tool_use_id, tool, input))
    if (!row.text && !calls.length) continue // thinking alone
    const last = chat.at(-1)
    if (row.role === "assistant" && last?.message.role === "assistant") {
      // blocks of one reply have a row each
      last.rows.push(row)
      last.message.content = [last.message.content, row.text].filter(Boolean).join("\n")
      if (calls.length) last.message.tool_calls = [...(last.message.tool_calls ?? []), ...calls]
    } else {
      chat.push({ rows: [row], message: { role: row.role, content: row.text, ...(calls.length && { tool_calls: calls }) } })
    }
  }
  return chat
}

/**
 * The rows that stay, once each, with those of their parts that the view shows, and without handles: with them, a resumed
 * session would go back behind the compaction.
 */
function rowsBy(items, chat) {
  const rows = new Map()
  for (const { at, content } of items) {
    const own = chat[at]
    if (!own) rows.set({}, { role: "user", text: content, toolUses: [] })
    for (const row of own?.rows ?? []) {
      const { handle, ...plain } = row
      const bare = { ...plain, text: "", toolUses: [], ...(row.toolResults && { toolResults: [] }) }
      const shown = rows.get(row) ?? bare
      if (own.result) {
        const result = row.toolResults.find((one) => one.tool_use_id === own.result)
        shown.toolResults.push({ ...result, text: content ?? result.text })
      } else {
        shown.toolUses = row.toolUses ?? []
        shown.text = content === undefined ? row.text : row === own.rows[0] ? content : ""
      }
      rows.set(row, shown)
    }
  }
  return [...rows.values()]
}

let isSaid = false

/** The rows as a view has them; undefined where that changes nothing, or the service does not answer, as is said once. */
async function viewOf($, rowsNow, compact) {
  try {
    const chat = chatOf(await rowsNow())
    const model = await $.session.model()
    const body = JSON.stringify({ model: model?.id ?? model, compact, messages: chat.map(({ message }) => message) })
    const headers = {
      "content-type": "application/json",
      "x-claude-code-session-id": await $.session.id(),
      "x-summarizing-context-token": (await $.fs.read(TOKEN_FILE)).trim(),
    }
    const answer = await $.http.fetch(`${SERVICE}/_view`, { method: "POST", headers, body })
    if (answer.status >= 300) throw new Error(`it answered ${answer.status}`)
    return answer.status === 204 ? undefined : rowsBy(JSON.parse(answer.body ?? answer.text).messages, chat)
  } catch (error) {
    if (isSaid) return
    isSaid = true
    const start = `Start it with: summarizing-context proxy --store STORE --listen ${SERVICE.slice(7)}`
    $.ui.toast(`Claude Code compacts by itself: ${SERVICE} (${error.message}). ${start}`)
  }
}

export function register(on) {
  // While the session grows, so that the summaries are there when they are needed.
  on("turn.complete", async ($, e, next) => {
    const done = await next(e)
    if (e.agentId === undefined) await viewOf($, () => $.session.messages(), false)
    return done
  })

  on("session.compact", async ($, e, next) => {
    if (e.agentId !== undefined) return next(e)
    if (e.trigger === "precompute") return { skip: "summarizing-context compacts when it is time" }
    const messages = await viewOf($, () => e.messages, true)
    return messages === undefined ? next(e) : { messages }
  })
}
