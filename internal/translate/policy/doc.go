// Package policy selects the traffic policy of one cluster from a DestinationRule, with the mesh's
// defaults.
//
// The inputs are a DestinationRule, the name of a subset and the number of a port. The output is
// one TrafficPolicy, and the [Locality] that is derived from it. The functions are pure. Outputs
// share messages with the inputs, so neither may be modified.
//
// Start with [Of]. File locality.go has the preference for near endpoints, which affects clusters
// and endpoints alike. [TunnelOf] is for the TCP proxies of listeners.
package policy
