// OpenCode sees views of long sessions, which a running `summarizing-context proxy` makes. Without it, requests go on as
// they are. Installed by `summarizing-context install opencode`, and removed by `uninstall`.
import { readFile } from "node:fs/promises"

const SERVICE = "{{SERVICE}}"
const TOKEN_FILE = "{{TOKEN_FILE}}"

const callOf = (id, name, input) => ({ id, type: "function", function: { name, arguments: JSON.stringify(input) } })

/** A message as rows of Chat Completions: what was said, and a row for each result of a tool. */
function rowsOf(message) {
  const { info, parts } = message
  const read = parts.filter((part) => part.type === "file" || (part.type === "text" && !part.ignored))
  const said = read.map((part) => part.text ?? `[file ${part.filename ?? part.mime}]`)
  const rows = [{ message, row: { role: info.role, content: said.join("\n") } }]
  const calls = parts.filter((part) => part.type === "tool")
  if (!calls.length) return rows
  rows[0].row.tool_calls = calls.map((part) => callOf(part.callID, part.tool, part.state.input ?? {}))
  for (const part of calls) {
    const content = part.state.status === "completed" ? part.state.output : part.state.error
    if (content !== undefined) rows.push({ message, part, row: { role: "tool", tool_call_id: part.callID, content } })
  }
  return rows
}

/** The messages that a view shows: the client's own, some with shorter texts, and texts of ours. */
function shownBy(items, rows) {
  const [shown, { info }] = [[], rows.find(({ row }) => row.role === "user").message]
  for (const { at, content } of items) {
    const own = rows[at]
    if (own?.part) {
      const part = shown.at(-1).parts.find((one) => one.callID === own.part.callID)
      if (content !== undefined) part.state = { ...part.state, output: content, error: content }
    } else if (own) {
      const texts = content ? [{ ...textOf(own.message), text: content }] : []
      const others = own.message.parts.filter((part) => content === undefined || part.type !== "text")
      shown.push({ info: own.message.info, parts: [...texts, ...others.map((part) => ({ ...part }))] })
    } else {
      const id = `msg_summarizing_context_${shown.length}`
      const part = { id: `prt_${id}`, sessionID: info.sessionID, messageID: id, type: "text", text: content }
      shown.push({ info: { ...info, id }, parts: [part] })
    }
  }
  return shown
}

const textOf = ({ info, parts }) =>
  parts.find((part) => part.type === "text") ?? { id: `prt_${info.id}`, sessionID: info.sessionID, messageID: info.id, type: "text" }

export const SummarizingContext = async ({ client }) => {
  const tools = new Map() // by name, as they are sent
  const systems = new Map() // the system prompt of each session, as it was sent last
  const limits = new Map() // of models, by name
  let isSaid = false

  return {
    "tool.definition": async ({ toolID }, { description }) => {
      tools.set(toolID, { type: "function", function: { name: toolID, description } })
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (sessionID) systems.set(sessionID, system.join("\n"))
    },
    "experimental.chat.messages.transform": async (_, { messages }) => {
      const session = messages[0]?.info.sessionID
      const last = messages.findLast(({ info }) => info.role === "user")?.info
      if (!last) return
      const lead = systems.has(session) ? [{ role: "system", content: systems.get(session) }] : []
      const rows = messages.flatMap(rowsOf)
      const model = last.model?.modelID
      try {
        if (!limits.has(model)) {
          const { data } = await client.config.providers()
          const known = data?.providers.find(({ id }) => id === last.model?.providerID)
          limits.set(model, known?.models[model]?.limit ?? {})
        }
        const { context: context_window, output: max_tokens } = limits.get(model)
        const said = { tools: [...tools.values()], messages: [...lead, ...rows.map(({ row }) => row)] }
        const body = JSON.stringify({ model, context_window, max_tokens, ...said })
        const token = (await readFile(TOKEN_FILE, "utf8")).trim()
        const headers = { "content-type": "application/json", "x-session-id": session, "x-summarizing-context-token": token }
        const answer = await fetch(`${SERVICE}/_view`, { method: "POST", headers, body, signal: AbortSignal.timeout(8_000) })
        if (answer.status === 204) return
        if (!answer.ok) throw new Error(`it answered ${answer.status}`)
        const items = (await answer.json()).messages.map((item) => ({ ...item, at: item.at - lead.length }))
        messages.splice(0, messages.length, ...shownBy(items, rows))
      } catch (error) {
        if (isSaid) return
        isSaid = true
        const start = `Start it with: summarizing-context proxy --store STORE --listen ${SERVICE.slice(7)}`
        const message = `No views: ${SERVICE} (${error.message}). ${start}`
        const body = { service: "summarizing-context", level: "warn", message }
        await Promise.allSettled([client.app.log({ body }), client.tui.showToast({ body: { message, variant: "warning" } })])
      }
    },
  }
}
