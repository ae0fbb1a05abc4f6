package iptables

import (
	"net/netip"
	"slices"
)

const loopbackInterface = "lo"

// outboundRules returns the rules of ISTIO_OUTPUT in nat, in Istio's order, which is significant.
// First excluded ports, Envoy's inbound connections, the proxy's traffic and other owner groups are
// exempt. DNS comes next, then loopback addresses and excluded ranges return. Last, the selected
// ports and ranges are redirected to the proxy.
func outboundRules(o Options, f Family) []Rule {
	rules := excludedPortRules(o)
	if o.usesTProxy() {
		// Envoy's connection to the application with the client's address, if Envoy is not root but
		// has the proxy's uid.
		rules = append(rules, Rule{Out: loopbackInterface, Mark: Mark{Value: o.TProxyMark}})
	}
	// Envoy binds its connections to the application to this address, so their owner need not be
	// matched.
	rules = append(rules, Rule{Out: loopbackInterface, Src: Net{Prefix: passthroughSource(f)}})
	for _, is := range proxyConditions(o) {
		rules = append(rules, proxyRules(o, f, is)...)
	}
	rules = append(rules, ownerGroupRules(o)...)
	if o.capturesDNS(f) {
		// Before loopback addresses return, because name servers may be there.
		rules = append(rules, Rule{Then: jump(chainIstioOutputDNS)})
	}
	rules = append(rules, Rule{Dst: Net{Prefix: loopbackPrefix(o, f)}})
	for _, dst := range inFamily(o.ExcludeRanges, f) {
		rules = append(rules, Rule{Dst: dst})
	}
	for _, ports := range o.OutboundPorts {
		rules = append(rules, Rule{Proto: TCP, DPort: portRange(ports), Then: jump(chainIstioRedirect)})
	}
	for _, dst := range destinationNets(o.OutboundRanges, f) {
		rules = append(rules, Rule{Dst: dst, Then: jump(chainIstioRedirect)})
	}
	return rules
}

// excludedPortRules returns the rules for excluded ports, of TCP and UDP. They precede the rules
// for the proxy, so that the pod's calls to itself are excluded too.
func excludedPortRules(o Options) []Rule {
	rules := make([]Rule, 0, 2*len(o.ExcludeOutbound))
	for _, ports := range o.ExcludeOutbound {
		rules = append(rules,
			Rule{Proto: TCP, DPort: portRange(ports)},
			Rule{Proto: UDP, DPort: portRange(ports)})
	}
	return rules
}

// condition adds "is from the proxy" to a rule, or "is not" if not is set.
type condition func(r Rule, not bool) Rule

// proxyConditions returns one condition for each uid and gid of the proxy, or only one for its mark
// if that is set.
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

// proxyRules returns the rules for one condition (is) that identifies the proxy. The first
// redirects its TCP over lo to the pod's own address to the inbound listener. The second, left out
// if -i selects a loopback range, returns all loopback traffic that does not meet the condition. So
// the first rule of a later condition is never reached, as in Istio; the last rule returns the
// proxy's other traffic.
func proxyRules(o Options, f Family, is condition) []Rule {
	var rules []Rule
	notInbound := Ports{Not: true, List: []PortRange{SinglePort(o.InboundTunnelPort)}}
	toThePod := Rule{Out: loopbackInterface}
	if o.capturesDNS(f) {
		// Except DNS: the agent's queries to a name server on this host, and the application's,
		// which are captured later.
		notInbound.List = []PortRange{SinglePort(dnsPort), SinglePort(o.InboundTunnelPort)}
		toThePod.Proto, toThePod.DPort = TCP, Ports{Not: true, List: []PortRange{SinglePort(dnsPort)}}
	}
	// The pod calls its own service, and Envoy's outbound side chose the pod's own address:
	// redirect to its inbound side.
	rules = append(rules, is(Rule{
		Out:   loopbackInterface,
		Dst:   Net{Not: true, Prefix: loopbackPrefix(o, f)},
		Proto: TCP,
		DPort: notInbound,
		Then:  jump(chainIstioInRedirect),
	}, false))
	// The application calls the pod's own address. If -i selects a loopback range for capture,
	// nothing returns.
	if !slices.ContainsFunc(o.OutboundRanges.Only, func(p netip.Prefix) bool { return p.Addr().IsLoopback() }) {
		rules = append(rules, is(toThePod, true))
	}
	return append(rules, is(Rule{}, false))
}

// ownerGroupRules returns rules that return traffic of groups that are not captured. If all groups
// are selected, these are one rule for each excluded group. Otherwise it is a single rule that
// returns packets of none of the selected groups, which is all traffic if none is selected.
func ownerGroupRules(o Options) []Rule {
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

// loopbackPrefix returns the addresses at which the application is reached without Envoy. For IPv6
// it is ::1, for IPv4 LoopbackCIDR.
func loopbackPrefix(o Options, f Family) netip.Prefix {
	if f == IPv6 {
		return netip.PrefixFrom(netip.IPv6Loopback(), 128)
	}
	return o.LoopbackCIDR.Masked()
}

// passthroughSource returns the address that Envoy's inbound clusters bind to: upstream_bind_config
// of InboundPassthroughCluster. It is 127.0.0.6 or ::6.
func passthroughSource(f Family) netip.Prefix {
	if f == IPv6 {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{15: 6}), 128)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 6}), 32)
}
