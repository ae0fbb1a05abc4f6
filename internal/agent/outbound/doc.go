// Package outbound creates the dialer for the agent's own connections to the network, and the
// listeners of its DNS proxy.
//
// Traffic capture lets Envoy's connections pass by their socket mark, so the agent's connections
// must carry the same mark. The DNS proxy's answers must carry it too: capture puts them into the
// conntrack zone of the redirected requests by it. Start with [NewDialer].
package outbound
