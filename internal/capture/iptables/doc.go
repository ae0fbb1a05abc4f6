// Package iptables captures a pod's traffic for its sidecar proxy. The program istio-iptables and
// the CNI plugin use it.
//
// [Plan] turns [Options] into a [Ruleset] (plain data). [Render] and [RenderNft] print it. [Run]
// applies it to the network namespace, by the iptables programs or, if there are none or the user
// requests it, by nftables over netlink. A dry run prints the output of Render.
//
// Invariants: Plan and the Render functions are pure. All access to the system goes through the
// fields of [Environment]; environment variables are never read. Impossible options are an error
// before anything is changed. All rules are in chains of our own, so that another run recognizes
// them whatever its options; the kernel's chains contain only jumps to them and exemptions of
// interfaces.
//
// # The rules
//
// In the nat table of each address family, PREROUTING jumps to ISTIO_INBOUND for TCP, and OUTPUT to
// ISTIO_OUTPUT for everything; ISTIO_REDIRECT redirects to Envoy's outbound listener (15001) and
// ISTIO_IN_REDIRECT to its inbound listener (15006). What ISTIO_OUTPUT decides, for a pod with the
// address P and a proxy identified by uid, gid or packet mark:
//
//	from              to           goes to
//	the application   off the pod  15001
//	the proxy         off the pod  its destination: this prevents the loop
//	the application   P, over lo   the application
//	the proxy         P, over lo   15006: a call of the pod's own service is inbound too
//	127.0.0.6, ::6    P, over lo   the application: Envoy's own inbound connections
//	anyone            127.0.0.1    the application
//
// Rules of nat are evaluated only for the first packet of a connection; replies and later packets
// follow.
//
// # TPROXY
//
// With TPROXY inbound connections are captured in mangle, which is evaluated for every packet and
// changes only a mark ([Options.TProxyMark], 1337). Envoy sees both addresses, and connects to the
// application with the client's address (listener filter original_src) and that mark. Three rules
// prevent loops: packets with the mark are not captured again; the connection keeps the mark, and
// the application's replies get it; and marked packets are routed to this host whatever their
// destination ([Divert]). Envoy's calls to its own pod have the next higher number as mark.
// Outbound connections are redirected in nat as usual.
//
// # DNS
//
// ISTIO_OUTPUT_DNS, in nat, redirects queries that are not the proxy's to the agent (15053). In
// raw, queries and replies over UDP are assigned to two conntrack zones: between application and
// agent, and between agent and name servers.
//
// # Uid or mark
//
// Istio identifies the proxy by its uid and gid (1337). In an unprivileged user namespace only one
// uid is mapped, so no process can have 1337. [Options.ProxyMark] is for that case, and is an
// extension of Istio: the proxy sets SO_MARK on its upstream sockets (Envoy:
// upstream_bind_config.socket_options, level SOL_SOCKET=1, name SO_MARK=36), and each rule that
// would match the uid matches the mark. Connections that Envoy binds to 127.0.0.6 return before
// those rules, so they need no mark.
//
// Start with plan.go, then run.go. The package supports Linux only.
package iptables
