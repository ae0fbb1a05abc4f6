import { awaitTurn, errorText, madeAfter } from './api'

/** A document is read for at most a fifth of the time, unless that is long. */
const rest = 4
const longestRest = 5000
/** The server keeps an expensive document for up to 5 seconds, with an age in whole seconds. */
const keptAtMost = 6500

/**
 * A document that is read again when what it depends on changes. The last one stays until then. One request is sent at a time: when
 * something changes meanwhile, the document is read once more after that. If the server answers with a document that it has made before
 * the change, it is read again later.
 */
export class Resource<T> {
  value = $state.raw<T | null>(null)
  error = $state('')
  loading = $state(false)
  #again = $state(0)

  /**
   * load is called in an effect: it is called again when state that it reads before it awaits changes. When the result of clear changes,
   * the document is another one, and a request for the one before is aborted.
   */
  constructor(load: (signal: AbortSignal) => Promise<T> | null, clear?: () => unknown) {
    let subject: unknown
    let again = 0
    let changed = performance.now()
    let reading: { stop: AbortController; done: Promise<void> } | null = null
    let next: AbortController | null = null
    let later = 0

    $effect(() => {
      const now = clear?.()
      if (now !== subject) {
        subject = now
        this.value = null
        reading?.stop.abort()
        reading = null
      }
      if (again === this.#again) changed = performance.now()
      again = this.#again
      window.clearTimeout(later)
      next?.abort()
      const stop = next = new AbortController()
      const turn = reading?.done ?? Promise.resolve()
      const answer = load(awaitTurn(stop.signal, turn))
      if (!answer) {
        reading?.stop.abort()
        reading = null
        this.value = null
        this.error = ''
        return
      }
      answer.catch(() => undefined) // also if its turn never comes
      void turn.then(() => {
        if (stop.signal.aborted) return
        next = null
        const since = changed
        const started = performance.now()
        this.loading = true
        const done = answer.then(
          (value) => {
            if (stop.signal.aborted) return
            this.value = value
            this.error = ''
            if (!madeAfter(value, since)) later = window.setTimeout(() => { this.#again++ }, keptAtMost)
          },
          (e: unknown) => { if (!stop.signal.aborted) this.error = errorText(e) },
        ).then(() => {
          if (!stop.signal.aborted) this.loading = false
          return new Promise<void>((resolve) => setTimeout(resolve, Math.min(rest * (performance.now() - started), longestRest)))
        })
        reading = { stop, done }
        void done.then(() => { if (reading?.stop === stop) reading = null })
      })
    })
    $effect(() => () => {
      window.clearTimeout(later)
      next?.abort()
      reading?.stop.abort()
    })
  }
}
