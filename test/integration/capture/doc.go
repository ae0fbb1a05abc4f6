// Package capture tests captured traffic end to end: calls through real Envoys, under the rules of
// istio-iptables and the configuration of pilot-discovery, over IPv4 and IPv6. With REDIRECT the
// application sees its own proxy as its client, with TPROXY the client's address.
//
// The rules themselves, packet by packet, are shown in internal/capture/iptables.
package capture
