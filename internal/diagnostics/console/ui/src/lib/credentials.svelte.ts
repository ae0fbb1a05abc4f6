const key = 'meshpilot-token'

/** The token that this tab sends with each request, if the control plane needs one. It is forgotten when the tab is closed. */
class Credentials {
  token = $state(sessionStorage.getItem(key) ?? '')
  /** Why the user has to sign in; '' if not. */
  refused = $state('')
  #waiting = new Set<() => void>()

  /** Uses a token from now on. */
  signIn(token: string) {
    this.token = token
    this.refused = ''
    sessionStorage.setItem(key, token)
    for (const go of this.#waiting) go()
    this.#waiting.clear()
  }

  /** Forgets the token, and what was read with it. */
  signOut() {
    sessionStorage.removeItem(key)
    window.location.reload()
  }

  /** Records that the control plane refused a request with this token. It does nothing if another one is in use by now. */
  refuse(token: string) {
    if (token !== this.token) return
    this.refused = token ? 'The control plane does not accept this token: it has expired, or is for another audience.'
      : 'This control plane is reached over a network, and needs a token.'
  }

  /** Resolves when the token in use is another one. */
  async changed(from: string): Promise<void> {
    if (this.token === from) await new Promise<void>((resolve) => { this.#waiting.add(resolve) })
  }
}

export const credentials = new Credentials()
