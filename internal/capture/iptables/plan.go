package iptables

import (
	"net/netip"
)

// Plan returns the rules for the options: tables that have chains, for IPv4 and, with o.IPv6, IPv6,
// and the routing for TPROXY. It is pure. It returns an error if and only if o.Validate does.
func Plan(o Options) (Ruleset, error) {
	if err := o.Validate(); err != nil {
		return Ruleset{}, err
	}
	families := []Family{IPv4}
	if o.IPv6 {
		families = append(families, IPv6)
	}
	var rs Ruleset
	for _, f := range families {
		for _, t := range []Table{planRaw(o, f), planMangle(o, f), planNAT(o, f)} {
			if len(t.Chains) > 0 {
				rs.Tables = append(rs.Tables, t)
			}
		}
		if o.usesTProxy() {
			rs.Diverts = append(rs.Diverts, Divert{Family: f, Mark: o.TProxyMark, Table: o.TProxyRouteTable})
		}
	}
	return rs, nil
}

// planNAT returns the rules that redirect connections and DNS. Its chains exist even if nothing is
// sent to them. Exceptions are ISTIO_INBOUND with TPROXY, and the chain for DNS if it is not
// captured.
func planNAT(o Options, f Family) Table {
	t := Table{Family: f, Name: tableNAT}
	add := func(c Chain) { t.Chains = append(t.Chains, c) }
	add(Chain{Name: chainPrerouting, First: rerouteRules(o, f), Rules: preroutingRules(o)})
	add(Chain{Name: chainOutput, Rules: outputRules(o)})
	if !o.usesTProxy() {
		add(Chain{Name: chainIstioInbound, Rules: inboundRules(o)})
	}
	add(Chain{Name: chainIstioInRedirect, Rules: []Rule{{Proto: TCP, Then: redirect(o.InboundCapturePort)}}})
	add(Chain{Name: chainIstioOutput, Rules: outboundRules(o, f)})
	if o.capturesDNS(f) {
		add(Chain{Name: chainIstioOutputDNS, Rules: redirectDNSRules(o, f)})
	}
	add(Chain{Name: chainIstioRedirect, Rules: []Rule{{Proto: TCP, Then: redirect(o.ProxyPort)}}})
	return t
}

// preroutingRules returns the rules for the chain PREROUTING of the table nat. They exclude
// interfaces, and send TCP to ISTIO_INBOUND if inbound traffic is captured by REDIRECT.
func preroutingRules(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{In: name})
	}
	if o.capturesInbound() && !o.usesTProxy() {
		rules = append(rules, Rule{Proto: TCP, Then: jump(chainIstioInbound)})
	}
	return rules
}

// outputRules returns the rules for the chain OUTPUT of the table nat. They exclude interfaces, and
// send all other traffic to ISTIO_OUTPUT.
func outputRules(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{Out: name})
	}
	// All protocols, not only TCP: capture of DNS has rules for UDP in ISTIO_OUTPUT, and -o
	// excludes ports from it.
	return append(rules, Rule{Then: jump(chainIstioOutput)})
}

// rerouteRules returns the rules for interfaces of virtual machines in the pod, whose incoming
// packets are the machine's outbound traffic: destinations selected by -i are redirected to the
// outbound listener, and nothing to the inbound one. They must precede KubeVirt's masquerading
// rules. The last interface in the option is first, as in Istio.
func rerouteRules(o Options, f Family) []Rule {
	var rules []Rule
	first := func(r Rule) { rules = append([]Rule{r}, rules...) }
	for _, name := range o.RerouteInterfaces {
		first(Rule{In: name})
	}
	for _, dst := range destinationNets(o.OutboundRanges, f) {
		for _, name := range o.RerouteInterfaces {
			first(Rule{In: name, Dst: dst, Then: jump(chainIstioRedirect)})
		}
	}
	return rules
}

// inboundRules returns the rules of ISTIO_INBOUND in mode REDIRECT.
func inboundRules(o Options) []Rule {
	return selectInboundPorts(o, func(ports Ports) []Rule {
		return []Rule{{Proto: TCP, DPort: ports, Then: jump(chainIstioInRedirect)}}
	})
}

// selectInboundPorts returns the rules of a chain for all inbound TCP: it excludes the tunnel's
// port, and adds the rules of capture for the selected ports. ExcludeInbound has an effect only if
// all ports are selected.
func selectInboundPorts(o Options, capture func(Ports) []Rule) []Rule {
	rules := []Rule{{Proto: TCP, DPort: port(o.InboundTunnelPort)}}
	if !o.InboundPorts.All {
		for _, ports := range o.InboundPorts.Only {
			rules = append(rules, capture(portRange(ports))...)
		}
		return rules
	}
	for _, ports := range o.ExcludeInbound {
		rules = append(rules, Rule{Proto: TCP, DPort: portRange(ports)})
	}
	return append(rules, capture(Ports{})...)
}

// destinationNets returns the conditions of a family for a selection, or a single condition that
// matches everything for "*". It returns nil if the selection has nothing of the family.
func destinationNets(ranges Selection[netip.Prefix], f Family) []Net {
	if ranges.All {
		return []Net{{}}
	}
	return inFamily(ranges.Only, f)
}

// inFamily returns the prefixes of one address family, or nil if there are none. The bits after the
// prefix are cleared.
func inFamily(prefixes []netip.Prefix, f Family) []Net {
	var nets []Net
	for _, p := range prefixes {
		if p.Addr().Is4() == (f == IPv4) {
			nets = append(nets, Net{Prefix: p.Masked()})
		}
	}
	return nets
}
