/** The time, for ages that grow while a page is open. */
class Clock {
  now = $state(Date.now())

  constructor() { setInterval(() => { this.now = Date.now() }, 10_000) }
}

export const clock = new Clock()
