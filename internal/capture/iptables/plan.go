package iptables

import (
	"net/netip"
)

// Plan returns the rules that o asks for. It is a pure function; the error is that of o.Validate.
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
		if o.tproxy() {
			rs.Diverts = append(rs.Diverts, Divert{Family: f, Mark: o.TProxyMark, Table: o.TProxyRouteTable})
		}
	}
	return rs, nil
}

func planNAT(o Options, f Family) Table {
	t := Table{Family: f, Name: tableNAT}
	add := func(c Chain) { t.Chains = append(t.Chains, c) }
	add(Chain{Name: chainPrerouting, First: rerouted(o, f), Rules: prerouting(o)})
	add(Chain{Name: chainOutput, Rules: output(o)})
	if !o.tproxy() {
		add(Chain{Name: chainIstioInbound, Rules: inbound(o)})
	}
	add(Chain{Name: chainIstioInRedirect, Rules: []Rule{{Proto: TCP, Then: redirect(o.InboundCapturePort)}}})
	add(Chain{Name: chainIstioOutput, Rules: outbound(o, f)})
	if o.capturesDNS(f) {
		add(Chain{Name: chainIstioOutputDNS, Rules: redirectedDNS(o, f)})
	}
	add(Chain{Name: chainIstioRedirect, Rules: []Rule{{Proto: TCP, Then: redirect(o.ProxyPort)}}})
	return t
}

func prerouting(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{In: name})
	}
	if o.capturesInbound() && !o.tproxy() {
		rules = append(rules, Rule{Proto: TCP, Then: jump(chainIstioInbound)})
	}
	return rules
}

func output(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{Out: name})
	}
	// All protocols, not only TCP: capture of DNS has rules for UDP in ISTIO_OUTPUT, and -o excludes ports from it.
	return append(rules, Rule{Then: jump(chainIstioOutput)})
}

// rerouted is about the interfaces of virtual machines in the pod: what comes in there is the machine's outbound traffic,
// so what -i selects goes to the outbound listener, and nothing goes to the inbound one. These rules must come before
// those by which KubeVirt masquerades the machine. The last one given comes first, as in Istio.
func rerouted(o Options, f Family) []Rule {
	var rules []Rule
	first := func(r Rule) { rules = append([]Rule{r}, rules...) }
	for _, name := range o.RerouteInterfaces {
		first(Rule{In: name})
	}
	for _, dst := range destinations(o.OutboundRanges, f) {
		for _, name := range o.RerouteInterfaces {
			first(Rule{In: name, Dst: dst, Then: jump(chainIstioRedirect)})
		}
	}
	return rules
}

// inbound is ISTIO_INBOUND of REDIRECT.
func inbound(o Options) []Rule {
	return selectInbound(o, func(ports Ports) []Rule {
		return []Rule{{Proto: TCP, DPort: ports, Then: jump(chainIstioInRedirect)}}
	})
}

// selectInbound has the rules of a chain that all inbound TCP comes to: which ports are left alone, and what is done with the
// others.
func selectInbound(o Options, capture func(Ports) []Rule) []Rule {
	rules := []Rule{{Proto: TCP, DPort: port(o.InboundTunnelPort)}}
	if !o.InboundPorts.All {
		for _, number := range o.InboundPorts.Only {
			rules = append(rules, capture(port(number))...)
		}
		return rules
	}
	for _, number := range o.ExcludeInbound {
		rules = append(rules, Rule{Proto: TCP, DPort: port(number)})
	}
	return append(rules, capture(Ports{})...)
}

// destinations returns the conditions of a family that a selection amounts to: one that always holds for "*".
func destinations(ranges Selection[netip.Prefix], f Family) []Net {
	if ranges.All {
		return []Net{{}}
	}
	return inFamily(ranges.Only, f)
}

func inFamily(prefixes []netip.Prefix, f Family) []Net {
	var nets []Net
	for _, p := range prefixes {
		if p.Addr().Is4() == (f == IPv4) {
			nets = append(nets, Net{Prefix: p.Masked()})
		}
	}
	return nets
}
