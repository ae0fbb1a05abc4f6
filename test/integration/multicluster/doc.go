// Package multicluster tests the control plane at one API server and at several: what gateways are given of Secrets and who is not,
// and services, networks and gateways of several clusters, as real Envoys see them.
package multicluster
