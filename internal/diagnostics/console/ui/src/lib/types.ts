// The documents of the read API that the console shows; docs/openapi.yaml describes them.

export interface Source { kind: string; namespace?: string; name: string }
export interface Unanswered { address: string; reason: string; refused?: boolean }

export interface Overview {
  replica?: string; version: string; snapshot: number; services: number; proxies: number; behind: number
  rejecting: number; errors: number; warnings: number; revision: string
}
export interface OverviewAnswer extends Overview { peers?: Overview[]; unanswered?: Unanswered[] }

export interface Problem {
  kind?: string; namespace?: string; name?: string; origin?: string; field?: string; reason: string
  severity: 'error' | 'warning'; code?: string; title?: string; meaning?: string; advice?: string; since?: string
}

export type ProxyState = 'SYNCED' | 'STALE' | 'NOT SENT' | 'QUARANTINED' | 'ERROR'
export interface Proxy {
  proxy: string; namespace: string; type: string; state: ProxyState; types: Record<string, ProxyState>; refused?: string
  cluster?: string; address?: string; locality?: string; istioVersion?: string; envoyVersion?: string
  connectedAt: string; replica?: string
}
export interface ProxyList { proxies: Proxy[]; total: number; unanswered?: Unanswered[] }
export interface ProxyVersion { envoyVersion?: string; istioVersion?: string; proxies: number }
export interface Sources { from?: Source[]; fromOmitted?: number }
export interface ClusterRow extends Sources {
  name: string; host?: string; port?: number; subset?: string; direction?: string; type: string
}
export interface ListenerRow extends Sources {
  name: string; address: string; port?: number; match: string; destination?: string; route?: string
}
export interface RouteRow extends Sources {
  config: string; virtualHost: string; domains: string[]; match: string; action: string
}
export interface EndpointRow {
  cluster: string; address: string; health: string; weight: number; priority?: number; locality?: string
}
export interface ProxyDetails extends Proxy {
  labels?: Record<string, string>; identity?: string; secrets?: Source[]; clusters: ClusterRow[]; listeners: ListenerRow[]; routes: RouteRow[]
  endpoints: EndpointRow[]; omitted?: number
}

export interface ObjectSummary extends Source { absent?: boolean; origin?: string; errors?: number; warnings?: number }
export interface MeshObject extends Source {
  present: boolean; generation?: number; hash?: string; origin?: string; problems?: Problem[]; replica?: string
}
export interface ObjectAnswer extends MeshObject { manifest?: string; peers?: MeshObject[]; unanswered?: Unanswered[] }
export interface Rollout {
  object: MeshObject; state: 'waiting' | 'invalid' | 'pushing' | 'distributing' | 'refused' | 'reached'; reason?: string
  proxies: number; upToDate: number; behind?: { proxy: string; reason: string }[]
  refusals?: { type: string; resource?: string; message: string; quarantined: boolean; proxies?: string[] }[]
}

export interface ObjectEffect {
  connected: number; proxies: number; upToDate: number
  relations?: { effect: string; kind: string; namespace?: string; name: string; about?: string; reason?: string }[]
  resources?: { type: string; name: string; proxies: number }[]
  uses?: { proxy: string; resources: number; behind?: string; rejected?: boolean }[]
}

export interface Ending {
  share: number; kind: string; reason?: string; details?: string; flags?: string; cluster?: string; status?: number
  body?: string; transport?: string; protocol?: string; timeout?: number; delay?: number
  endpoints?: { address: string; locality?: string; share: number }[]
  upstream?: { method: string; authority: string; path: string }
  retries?: { attempts: number; on: string }
}
export interface Step {
  stage: string; resource?: string; matched?: string; decided: string; by?: (Source & { rule?: string })[]; missed?: string[]
}
export interface Path { steps: Step[] | null; notes?: string[]; endings: Ending[] | null; callee?: Path }
export interface ExplainAnswer { path: Path; text: string }

export interface DiffReport {
  proxies: number; changed: number; newProxies?: string[]; goneProxies?: string[]; newProblems?: Problem[]
  resolvedProblems?: Problem[]; unanswered?: Unanswered[]
  groups?: {
    proxies: string[]; omittedChanges?: number
    changes: {
      type: string; name: string; operation: string; objects?: string[]; omittedFields?: number
      fields?: { path: string; before?: string; after?: string }[]
    }[]
    drains?: { resource: string; chain?: string; effect: string }[]
    calls?: { call: string; before: string[] | null; after: string[] | null }[]
  }[]
}

export interface Registry {
  name: string; state: 'waiting' | 'synced' | 'stale'; lastSync?: string; lastChange?: string; lagSeconds?: number
  error?: string; failures?: number; services?: number; instances?: number; held?: number; problems?: number
}

export interface Certificate {
  use: 'root' | 'signing' | 'serving' | 'gateway' | 'trusted' | 'workload'; name: string; object?: Source; names?: string[]
  issuer?: string; serial: string; notBefore: string; notAfter: string
  state: 'expired' | 'not yet valid' | 'expiring' | 'valid'; from?: Source[]; replica?: string; namespace?: string
}
export interface CertificateList { certificates: Certificate[]; omitted?: number; unanswered?: Unanswered[] }

export interface PlainTextCall {
  service: string; port: number; subset?: string; namespaces: string[]; callers: number; rules?: Source[]; refused?: boolean
}
export interface WorkloadTLS {
  namespace: string; name: string; account?: string; instances: number; proxy: 'sidecar' | 'gateway' | 'none'
  mutualTLS?: { mode: string; ports?: Record<string, string>; from?: string[] }; plainText?: PlainTextCall[]
}
export interface MutualTLS {
  replica?: string; snapshot: number; automatic: boolean; strict: number; permissive: number; disabled: number; gateways: number
  noProxy: number; workloads: WorkloadTLS[]; omitted?: number; incomplete?: boolean
}

export interface ChangeCause { what: string; kind?: string; namespace?: string; name?: string }
export type ChangeState = 'generating' | 'distributing' | 'rejected' | 'done'
export interface Change {
  id: string; replica?: string; snapshot: number; time: string; state: ChangeState; causes: ChangeCause[]; moreCauses?: number
  classes: number; resources?: Record<string, number>; proxies: number; acknowledged: number; rejected: number; disconnected: number
  pending: number; generatedMillis?: number; firstMillis?: number; lastMillis?: number; slowest?: string
  behind?: { proxy: string; reason: string }[]
  refusals?: { type: string; resource?: string; message: string; proxies?: string[] }[]
}
export interface ChangesAnswer { changes: Change[]; unanswered?: Unanswered[] }
export type Verdict = 'allowed' | 'denied' | 'partly' | 'unknown' | 'out of scope'
export interface CallDecision {
  server: string; request?: string; verdict: Verdict; reason?: string; by?: (Source & { rule?: string })[]
}
export interface ServiceCaller {
  namespace: string; name: string; account?: string; instances: number; proxy: 'sidecar' | 'gateway' | 'none'; verdict: Verdict
  scope?: string; transport?: string; decisions?: CallDecision[]
}
export interface ServiceCallers {
  replica?: string; snapshot: number; service: string; namespace: string; port: number
  ports: { name: string; number: number; protocol: string }[]; requests?: string[]; servers: WorkloadTLS[]
  allowed: number; partly: number; denied: number; unknown: number; outOfScope: number; callers: ServiceCaller[]; omitted?: number
}

export interface ObjectVersion {
  time?: string; deleted?: boolean; generation?: number; hash?: string; origin?: string; manifest?: string
  edits?: { field: string; before?: string; after?: string }[]
}
export interface ObjectHistory { replica?: string; versions: ObjectVersion[]; evicted?: boolean }
