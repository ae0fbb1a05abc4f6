// Package outbound is how the agent itself opens connections to the network.
//
// In: the mark that the proxy's own connections have. Out: a dialer. Law: what Envoy's connections have to have, for capture to
// let them pass, the agent's have too.
package outbound
