// Package outbound creates the dialer for the agent's own connections to the network.
//
// Traffic capture lets Envoy's connections pass by their socket mark, so the agent's connections
// must carry the same mark. Start with [NewDialer].
package outbound
