package iptables

import (
	"net/netip"
	"slices"
)

const (
	dnsPort = 53
	// agentDNSPort is where pilot-agent serves DNS, over UDP and TCP, on loopback. Istio has no
	// option for it.
	agentDNSPort = 15053

	// upstreamZone is the conntrack zone of the agent's own queries to name servers, clientZone the
	// zone of the application's queries to the agent. Otherwise a query of the application from the
	// agent's source port would be the same connection for the kernel, and the agent would receive
	// its own reply.
	upstreamZone = 1
	clientZone   = 2
)

// capturesDNS reports whether a family's DNS is captured, either all of it or only queries to name
// servers of the family. It returns false without RedirectDNS.
func (o Options) capturesDNS(f Family) bool {
	return o.RedirectDNS && (o.CaptureAllDNS || len(o.nameserverNets(f)) > 0)
}

// nameserverNets returns conditions that match the name servers of a family, or all addresses with
// CaptureAllDNS. It does not look at RedirectDNS.
func (o Options) nameserverNets(f Family) []Net {
	if o.CaptureAllDNS {
		return []Net{{}}
	}
	var nets []Net
	for _, a := range o.Nameservers {
		if a.Is4() == (f == IPv4) {
			nets = append(nets, Net{Prefix: netip.PrefixFrom(a, a.BitLen())})
		}
	}
	return nets
}

// redirectDNSRules returns the rules of ISTIO_OUTPUT_DNS in nat. They redirect TCP and UDP to port
// 53 of the name servers (nameserverNets) to the agent. The proxy's own queries do not reach that
// chain.
func redirectDNSRules(o Options, f Family) []Rule {
	var rules []Rule
	for _, proto := range []Proto{TCP, UDP} {
		for _, server := range o.nameserverNets(f) {
			rules = append(rules, Rule{Dst: server, Proto: proto, DPort: port(dnsPort), Then: redirect(agentDNSPort)})
		}
	}
	return rules
}

// planRaw returns the rules that assign DNS over UDP to conntrack zones, and a table without chains
// if DNS is not captured. TCP needs none: the kernel never has two connections with the same
// addresses and ports.
func planRaw(o Options, f Family) Table {
	t := Table{Family: f, Name: tableRaw}
	if !o.capturesDNS(f) {
		return t
	}
	zone := func(number uint16) Verdict { return Verdict{Action: SetZone, Zone: number} }
	// If several rules set a zone, the first one applies.
	var sent, received []Rule
	for _, is := range proxyConditions(o) {
		sent = append(sent,
			is(Rule{Proto: UDP, DPort: port(dnsPort), Then: zone(upstreamZone)}, false),
			is(Rule{Proto: UDP, SPort: agentDNSPort, Then: zone(clientZone)}, false))
	}
	for _, server := range o.nameserverNets(f) {
		sent = append(sent, Rule{Dst: server, Proto: UDP, DPort: port(dnsPort), Then: zone(clientZone)})
		received = append(received, Rule{Src: server, Proto: UDP, SPort: dnsPort, Then: zone(upstreamZone)})
	}
	t.Chains = []Chain{
		{Name: chainPrerouting, Rules: []Rule{{Then: jump(chainIstioInbound)}}},
		{Name: chainOutput, Rules: []Rule{{Then: jump(chainIstioOutputDNS)}}},
		{Name: chainIstioInbound, Rules: received},
		{Name: chainIstioOutputDNS, Rules: slices.Clip(sent)},
	}
	return t
}
