import { address } from './api'
import { follow } from './events'
import type { Overview, OverviewAnswer } from './types'

/** The state of the mesh, followed by server-sent events. */
class Live {
  overview = $state.raw<OverviewAnswer | null>(null)
  connected = $state(false)
  failed = $state(false)

  constructor() {
    follow<OverviewAnswer>(address('/overview/events'), 'overview', (o) => {
      this.overview = o
    }, {
      connected: () => { this.connected = true; this.failed = false },
      failed: () => { this.connected = false; this.failed = true },
    })
  }

  /** A proxy, object or problem differs if this text does. */
  get revision(): string {
    return this.replicas.map((r) => [r.replica, r.snapshot, r.revision, r.proxies, r.behind, r.rejecting].join()).join(';')
  }

  /** All replicas that answer. */
  get replicas(): Overview[] {
    return this.overview ? [this.overview, ...(this.overview.peers ?? [])] : []
  }

  /** Adds up a number of all replicas. */
  sum(of: (o: Overview) => number): number { return this.replicas.reduce((n, r) => n + of(r), 0) }
}

export const live = new Live()
