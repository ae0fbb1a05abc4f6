// Package iptables captures a pod's traffic for its sidecar proxy: it is what the istio-iptables program and the CNI plugin do.
//
// In -> out: [Options] -> [Plan] -> [Ruleset] (plain data) -> [Render] or [RenderNft] (text) -> [Run], which puts the
// rules into the network namespace, either with the iptables programs or, where there are none or the user asks for it,
// with nftables over netlink. A dry run prints what Render gives.
//
// Law: Plan and the Render functions are pure. Everything that touches the system goes through the fields of
// [Environment]; the process environment is never read. What cannot be is one error, before anything is changed. All rules are in
// chains of our own, so that another run knows them whatever options it has; in the kernel's chains there are jumps to them, and
// what exempts an interface.
//
// # The rules
//
// In each address family's nat table, PREROUTING sends TCP to ISTIO_INBOUND, OUTPUT sends everything to
// ISTIO_OUTPUT; ISTIO_REDIRECT ends at Envoy's outbound listener (15001) and ISTIO_IN_REDIRECT at its inbound one (15006).
// What ISTIO_OUTPUT decides, for a pod with the address P and a proxy known by uid, by gid or by packet mark:
//
//	from              to           goes to
//	the application   off the pod  15001
//	the proxy         off the pod  where it wants: this is what breaks the loop
//	the application   P, over lo   the application
//	the proxy         P, over lo   15006: the pod called its own service, so its inbound side must see the call
//	127.0.0.6, ::6    P, over lo   the application: Envoy binds its inbound upstream connections to that address
//	anyone            127.0.0.1    the application
//
// Rules of nat are asked once, for a connection's first packet; answers and later packets follow.
//
// # TPROXY
//
// With TPROXY inbound connections are captured in mangle, which is asked for every packet and changes none but for a mark
// ([Options.TProxyMark], 1337). So Envoy sees both addresses, and connects to the application in the client's name (its listener
// filter original_src), with that mark. Three things keep this from going round in circles: what has the mark is not captured
// again; the connection keeps the mark, and the application's answers are given it; and marked packets are routed to this machine,
// whoever they are for ([Divert]). Envoy's calls to its own pod have the number after it as their mark. Outbound connections
// are redirected in nat as ever.
//
// # DNS
//
// ISTIO_OUTPUT_DNS, in nat, sends questions that are not the proxy's to the agent (15053). In raw, the questions and answers over UDP
// are put into two zones of connection tracking: between the application and the agent, and between the agent and name servers.
//
// # Uid or mark
//
// Istio knows the proxy by its uid and gid (1337). In an unprivileged user namespace only one uid is mapped, so nobody can
// be 1337 there. [Options.ProxyMark] is for that case, and is no part of Istio: the proxy sets SO_MARK on its upstream
// sockets (Envoy: upstream_bind_config.socket_options, level SOL_SOCKET=1, name SO_MARK=36), and each rule that would ask for the
// uid asks for the mark. The connections that Envoy binds to 127.0.0.6 return before any rule asks, so it does not matter
// whether they carry the mark.
//
// Start reading at plan.go, then run.go. The package is for Linux only.
package iptables
