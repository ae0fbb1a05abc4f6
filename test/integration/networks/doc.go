// Package networks has two clusters whose pods cannot reach each other, each with a node on which
// pods run, and one mesh over both: calls go from network to network by gateways, with mutual TLS
// from pod to pod. One is the cluster of the control plane, the other a remote one; or the control
// plane is in a cluster of its own.
//
// In: the charts, as users install them. Out: calls that arrive, and where they went through.
package networks
