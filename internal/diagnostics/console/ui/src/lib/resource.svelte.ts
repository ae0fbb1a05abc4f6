import { errorText } from './api'

/** A document that is read again when what it depends on changes. The last one stays until then. */
export class Resource<T> {
  value = $state.raw<T | null>(null)
  error = $state('')
  loading = $state(false)

  /** load is called in an effect: it is called again when state that it reads before it awaits changes. */
  constructor(load: (signal: AbortSignal) => Promise<T> | null, clear?: () => unknown) {
    let subject: unknown
    $effect(() => {
      const now = clear?.()
      if (now !== subject) {
        subject = now
        this.value = null
      }
      const stop = new AbortController()
      const answer = load(stop.signal)
      if (!answer) {
        this.value = null
        this.error = ''
        return
      }
      this.loading = true
      answer.then(
        (value) => { this.value = value; this.error = ''; this.loading = false },
        (e: unknown) => {
          if (stop.signal.aborted) return
          this.error = errorText(e)
          this.loading = false
        },
      )
      return () => stop.abort()
    })
  }
}
