package iptables

import (
	"net/netip"
	"slices"
)

const (
	dnsPort = 53
	// agentDNSPort is where pilot-agent answers DNS, over UDP and TCP, at loopback addresses. Istio has no option for it.
	agentDNSPort = 15053

	// upstreamZone has the agent's own questions to name servers and their answers, clientZone those of the application to
	// the agent. Otherwise an application's question, sent from the port that the agent sends on its own from, would be the
	// same connection to the kernel, and the agent would be answered by itself.
	upstreamZone = 1
	clientZone   = 2
)

// capturesDNS reports whether a family's DNS is captured: all of it, or what goes to the name servers of that family.
func (o Options) capturesDNS(f Family) bool {
	return o.RedirectDNS && (o.CaptureAllDNS || len(o.nameservers(f)) > 0)
}

// nameservers are conditions on addresses: the name servers of a family, or anybody.
func (o Options) nameservers(f Family) []Net {
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

// redirectedDNS is ISTIO_OUTPUT_DNS of nat. What gets there does not come from the proxy.
func redirectedDNS(o Options, f Family) []Rule {
	var rules []Rule
	for _, proto := range []Proto{TCP, UDP} {
		for _, server := range o.nameservers(f) {
			rules = append(rules, Rule{Dst: server, Proto: proto, DPort: port(dnsPort), Then: redirect(agentDNSPort)})
		}
	}
	return rules
}

// planRaw puts DNS over UDP into zones. TCP needs none: the kernel gives no two connections the same ports at a time.
func planRaw(o Options, f Family) Table {
	t := Table{Family: f, Name: tableRaw}
	if !o.capturesDNS(f) {
		return t
	}
	zone := func(number uint16) Verdict { return Verdict{Action: SetZone, Zone: number} }
	// Of several rules that give a zone the first one counts.
	var sent, received []Rule
	for _, is := range proxyConditions(o) {
		sent = append(sent,
			is(Rule{Proto: UDP, DPort: port(dnsPort), Then: zone(upstreamZone)}, false),
			is(Rule{Proto: UDP, SPort: agentDNSPort, Then: zone(clientZone)}, false))
	}
	for _, server := range o.nameservers(f) {
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
