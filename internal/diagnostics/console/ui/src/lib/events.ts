import { EventSourceParserStream } from 'eventsource-parser/stream'
import { request } from './api'
import { credentials } from './credentials.svelte'

/** The server sends an event at least every 5 seconds. A connection that is silent for longer than this is made again. */
const silence = 20_000
const firstDelay = 1000
const longestDelay = 30_000

/**
 * Follows server-sent events until the returned function is called. It reads them with fetch, because an EventSource cannot send a
 * token. After an error or the end of the stream it connects again, later after each failure, with the ID of the last event: the
 * server does not repeat that. A browser has six connections to a server for all tabs together, so a tab that is not visible, or
 * that shows another page, has none: it connects again when it is shown.
 */
export function follow<T>(url: string, event: string, receive: (value: T) => void, watch: Watch = {}): () => void {
  let open: AbortController | null = null
  const last = { id: '' }
  const disconnect = () => {
    open?.abort()
    open = null
  }
  const connect = () => {
    if (open || document.visibilityState === 'hidden') return
    open = new AbortController()
    void keepReading(open.signal)
  }
  const keepReading = async (signal: AbortSignal) => {
    let delay = firstDelay
    while (!signal.aborted) {
      const token = credentials.token
      const answered = await read(url, event, last, signal, (value: T) => {
        delay = firstDelay
        receive(value)
      }, watch.connected)
      if (signal.aborted) return
      watch.failed?.()
      if (answered === 401) await credentials.changed(token)
      else await wait(delay * (0.75 + Math.random() / 2), signal) // not all consoles at once
      delay = Math.min(2 * delay, longestDelay)
    }
  }
  const update = () => { if (document.visibilityState === 'hidden') disconnect(); else connect() }
  document.addEventListener('visibilitychange', update)
  window.addEventListener('pagehide', disconnect)
  window.addEventListener('pageshow', connect)
  connect()
  return () => {
    document.removeEventListener('visibilitychange', update)
    window.removeEventListener('pagehide', disconnect)
    window.removeEventListener('pageshow', connect)
    disconnect()
  }
}

/** What a follower is told about its connection. */
export interface Watch { connected?: () => void; failed?: () => void }

/**
 * Reads one stream until it ends, fails or is silent, and returns the status of the answer, 0 without one. last has the ID of the last
 * event that was received.
 */
async function read<T>(
  url: string, event: string, last: { id: string }, signal: AbortSignal, receive: (value: T) => void, connected?: () => void,
): Promise<number> {
  const stop = new AbortController()
  const end = () => stop.abort()
  signal.addEventListener('abort', end)
  let timer = setTimeout(end, silence)
  let status = 0
  try {
    const headers: Record<string, string> = { Accept: 'text/event-stream' }
    if (last.id) headers['Last-Event-ID'] = last.id
    const answer = await request(url, { headers, signal: stop.signal, cache: 'no-store' })
    status = answer.status
    if (!answer.ok || !answer.body) return status
    connected?.()
    const events = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader()
    for (let next = await events.read(); !next.done && !stop.signal.aborted; next = await events.read()) {
      clearTimeout(timer)
      timer = setTimeout(end, silence)
      if (next.value.id) last.id = next.value.id
      if ((next.value.event ?? event) === event) receive(JSON.parse(next.value.data) as T)
    }
  } catch { /* the caller connects again */ } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    stop.abort()
  }
  return status
}

/** Waits, or until the signal is aborted. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
  })
}
