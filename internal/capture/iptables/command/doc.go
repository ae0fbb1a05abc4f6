// Package command implements the istio-iptables command: it parses flags and environment variables
// to [iptables.Options] and calls [iptables.Run].
//
// The flags are the same as in Istio's istio-iptables, with its names, defaults and meanings, plus
// two flags of earlier releases and an extension, --proxy-mark. Every flag except --envoy-port can
// be set by the environment variable with its name in capitals (--proxy-uid: PROXY_UID); the
// command line takes precedence. An empty variable counts as not set.
//
// Invariants: an invalid value is an error that names its flag or variable, and nothing is changed;
// only an invalid boolean in a variable is a warning, as in Istio. The environment is read only
// through the function passed to New.
//
// Start with New.
package command
