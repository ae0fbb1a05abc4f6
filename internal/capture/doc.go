// Package capture groups what redirects the traffic of a workload through its proxy: the rules
// (iptables, for iptables and nftables) and the CNI plugin that applies them to pods (cni).
//
// It has no code of its own. Start with iptables/plan.go.
package capture
