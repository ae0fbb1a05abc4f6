const base = '/ui'

/** The page that the address names: the parts of its path below /ui, decoded, and its query. */
class Location {
  parts = $state.raw<string[]>([])
  query = $state.raw(new URLSearchParams())

  constructor() {
    this.#read()
    window.addEventListener('popstate', () => this.#read())
    document.addEventListener('click', (e) => this.#follow(e))
  }

  /** Opens a page. With replace, the history keeps no entry of the page before. */
  open(href: string, replace = false) {
    if (replace) history.replaceState(null, '', href)
    else history.pushState(null, '', href)
    this.#read()
    if (!replace) {
      window.scrollTo(0, 0)
      document.getElementById('page')?.focus({ preventScroll: true })
    }
  }

  #read() {
    this.parts = window.location.pathname.slice(base.length).split('/').filter(Boolean).map(decode)
    this.query = new URLSearchParams(window.location.search)
  }

  #follow(e: MouseEvent) {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
    const link = (e.target as Element).closest('a')
    if (!link || link.target || link.origin !== window.location.origin || !link.pathname.startsWith(base + '/')) return
    e.preventDefault()
    this.open(link.href)
  }
}

function decode(part: string): string {
  try { return decodeURIComponent(part) } catch { return part }
}

export const location = new Location()

/** Returns the address of a page: href('proxies', 'web.shop'). */
export function href(...parts: string[]): string {
  return base + '/' + parts.map(encodeURIComponent).join('/')
}

/** Returns the address of an object's page, with the lines of a field marked if one is given. */
export function objectHref(o: { kind: string; namespace?: string; name: string }, field = ''): string {
  const page = o.namespace ? href('objects', o.kind, o.namespace, o.name) : href('objects', o.kind, o.name)
  return page + (field && '?field=' + encodeURIComponent(field))
}
