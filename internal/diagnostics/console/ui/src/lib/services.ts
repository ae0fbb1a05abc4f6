// The documents about services and their neighbours.
import type { Source } from './types'

export interface ServiceSummary {
  service: string; namespace: string; registry: string; ports: number[]; workloads: number; noProxy?: number; policies?: number
}
export interface ServiceList { services: ServiceSummary[]; omitted?: number }
export interface WorkloadCallees {
  namespace: string; name: string; proxy: 'sidecar' | 'gateway' | 'none'; sidecar?: Source
  services: { service: string; namespace: string }[]; omitted?: number
}
export interface ServiceCallees { service: string; workloads: WorkloadCallees[] }

/** A box of the picture of a service: a namespace of callers or callees. */
export interface Neighbour { namespace: string; text: string; tone: 'good' | 'warning' | 'error' | '' }
