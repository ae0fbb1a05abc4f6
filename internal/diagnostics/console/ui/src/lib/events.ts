/**
 * Follows server-sent events until the returned function is called. A browser has six connections to a server for all
 * tabs together, so a tab that is not visible, or that shows another page, has none: it connects again when it is shown.
 */
export function follow<T>(url: string, event: string, receive: (value: T) => void, fail: () => void = () => {}): () => void {
  let source: EventSource | null = null
  const disconnect = () => {
    source?.close()
    source = null
  }
  const connect = () => {
    if (source || document.visibilityState === 'hidden') return
    source = new EventSource(url)
    const take = (e: MessageEvent<string>) => receive(JSON.parse(e.data) as T)
    source.addEventListener('message', take)
    source.addEventListener(event, take)
    source.addEventListener('error', fail)
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
