package iptables

import (
	"net/netip"
	"slices"
)

const loopbackInterface = "lo"

// outbound is the ISTIO_OUTPUT chain. Its order is its meaning, and is Istio's.
func outbound(o Options, f Family) []Rule {
	rules := excludedPorts(o)
	if o.tproxy() {
		// Envoy's connection to the application in the client's name, where Envoy is not root but has the proxy's uid.
		rules = append(rules, Rule{Out: loopbackInterface, Mark: Mark{Value: o.TProxyMark}})
	}
	// Envoy binds its upstream connections to the application to this address, so they need no look at the owner.
	rules = append(rules, Rule{Out: loopbackInterface, Src: Net{Prefix: passthroughSource(f)}})
	for _, is := range proxyConditions(o) {
		rules = append(rules, fromProxy(o, f, is)...)
	}
	rules = append(rules, ownerGroups(o)...)
	if o.capturesDNS(f) {
		// Before the loopback addresses are let go, for name servers may be there.
		rules = append(rules, Rule{Then: jump(chainIstioOutputDNS)})
	}
	rules = append(rules, Rule{Dst: Net{Prefix: loopback(o, f)}})
	for _, dst := range inFamily(o.ExcludeRanges, f) {
		rules = append(rules, Rule{Dst: dst})
	}
	for _, number := range o.OutboundPorts {
		rules = append(rules, Rule{Proto: TCP, DPort: port(number), Then: jump(chainIstioRedirect)})
	}
	for _, dst := range destinations(o.OutboundRanges, f) {
		rules = append(rules, Rule{Dst: dst, Then: jump(chainIstioRedirect)})
	}
	return rules
}

// excludedPorts come before the rules about the proxy, so that calls of the pod to itself are excluded too.
func excludedPorts(o Options) []Rule {
	rules := make([]Rule, 0, 2*len(o.ExcludeOutbound))
	for _, number := range o.ExcludeOutbound {
		rules = append(rules,
			Rule{Proto: TCP, DPort: port(number)},
			Rule{Proto: UDP, DPort: port(number)})
	}
	return rules
}

// condition adds "comes from the proxy", or with not "does not", to a rule.
type condition func(r Rule, not bool) Rule

// proxyConditions returns one condition for each way in which the proxy is known.
func proxyConditions(o Options) []condition {
	if o.ProxyMark != 0 {
		return []condition{func(r Rule, not bool) Rule {
			r.Mark = Mark{Not: not, Value: o.ProxyMark}
			return r
		}}
	}
	var is []condition
	owner := func(by OwnerKind, id uint32) condition {
		return func(r Rule, not bool) Rule {
			r.Owners = []Owner{{Not: not, By: by, ID: id}}
			return r
		}
	}
	for _, uid := range o.ProxyUIDs {
		is = append(is, owner(UID, uid))
	}
	for _, gid := range o.ProxyGIDs {
		is = append(is, owner(GID, gid))
	}
	return is
}

// fromProxy returns the three rules for one way in which the proxy is known. After the first way the second rule leaves no
// loopback traffic but that way's own, so the first rule of every later way is never reached: a process with the proxy's
// gid but not its uid counts as the application when it calls the pod itself. Istio has it so.
func fromProxy(o Options, f Family, is condition) []Rule {
	var rules []Rule
	notInbound := Ports{Not: true, Numbers: []uint16{o.InboundTunnelPort}}
	toThePod := Rule{Out: loopbackInterface}
	if o.capturesDNS(f) {
		// The agent's questions to a name server on this machine, and the application's, which are captured further on.
		notInbound.Numbers = []uint16{dnsPort, o.InboundTunnelPort}
		toThePod.Proto, toThePod.DPort = TCP, Ports{Not: true, Numbers: []uint16{dnsPort}}
	}
	// The pod calls its own service, and Envoy's outbound side chose the pod's own address: its inbound side comes next.
	rules = append(rules, is(Rule{
		Out:   loopbackInterface,
		Dst:   Net{Not: true, Prefix: loopback(o, f)},
		Proto: TCP,
		DPort: notInbound,
		Then:  jump(chainIstioInRedirect),
	}, false))
	// The application calls the pod's own address. If -i has a loopback range, that is to be captured, so nothing returns.
	if !slices.ContainsFunc(o.OutboundRanges.Only, func(p netip.Prefix) bool { return p.Addr().IsLoopback() }) {
		rules = append(rules, is(toThePod, true))
	}
	return append(rules, is(Rule{}, false))
}

// ownerGroups returns for the groups whose traffic is not captured. A selection is one rule, for a packet is to be left
// alone if it is of none of the groups.
func ownerGroups(o Options) []Rule {
	var rules []Rule
	if o.OwnerGroups.All {
		for _, gid := range o.ExcludeOwnerGroups {
			rules = append(rules, Rule{Owners: []Owner{{By: GID, ID: gid}}})
		}
		return rules
	}
	var none Rule
	for _, gid := range o.OwnerGroups.Only {
		none.Owners = append(none.Owners, Owner{Not: true, By: GID, ID: gid})
	}
	return append(rules, none)
}

// loopback is where the application is reached without Envoy.
func loopback(o Options, f Family) netip.Prefix {
	if f == IPv6 {
		return netip.PrefixFrom(netip.IPv6Loopback(), 128)
	}
	return o.LoopbackCIDR.Masked()
}

// passthroughSource is the address that Envoy's inbound clusters bind to: upstream_bind_config of InboundPassthroughCluster.
func passthroughSource(f Family) netip.Prefix {
	if f == IPv6 {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{15: 6}), 128)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 6}), 32)
}
