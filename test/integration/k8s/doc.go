// Package k8s tests the whole on a cluster with a node: real API server, webhooks, pods, iptables
// and Envoy.
//
// What happens is package story's; `make demo-k8s` plays it on a terminal.
package k8s
