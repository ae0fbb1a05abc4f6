// Package multicluster tests the control plane at one API server and at several: which Secrets
// gateways are sent and which are denied, and services, networks and gateways of several clusters,
// as real Envoys see them.
package multicluster
