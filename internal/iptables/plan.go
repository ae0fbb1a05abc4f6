package iptables

import (
	"net/netip"
)

// Plan returns the rules that o asks for. It is a pure function; the error is that of o.Validate.
func Plan(o Options) (Ruleset, error) {
	if err := o.Validate(); err != nil {
		return Ruleset{}, err
	}
	rs := Ruleset{Tables: []Table{planTable(o, IPv4)}}
	if o.IPv6 {
		rs.Tables = append(rs.Tables, planTable(o, IPv6))
	}
	return rs, nil
}

func planTable(o Options, f Family) Table {
	toRedirect := Rule{Proto: TCP, Then: Verdict{RedirectTo: o.ProxyPort}}
	toInRedirect := Rule{Proto: TCP, Then: Verdict{RedirectTo: o.InboundCapturePort}}
	return Table{
		Family: f,
		Name:   tableNAT,
		Chains: []Chain{
			{Name: chainPrerouting, First: rerouted(o, f), Rules: prerouting(o)},
			{Name: chainOutput, Rules: output(o)},
			{Name: chainIstioInbound, Rules: inbound(o)},
			{Name: chainIstioInRedirect, Rules: []Rule{toInRedirect}},
			{Name: chainIstioOutput, Rules: outbound(o, f)},
			{Name: chainIstioRedirect, Rules: []Rule{toRedirect}},
		},
	}
}

func prerouting(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{In: name})
	}
	if o.InboundPorts.All || len(o.InboundPorts.Only) > 0 {
		rules = append(rules, Rule{Proto: TCP, Then: Verdict{Jump: chainIstioInbound}})
	}
	return rules
}

func output(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{Out: name})
	}
	// All protocols, not only TCP: capture of DNS has rules for UDP in ISTIO_OUTPUT, and -o excludes ports from it.
	return append(rules, Rule{Then: Verdict{Jump: chainIstioOutput}})
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
			first(Rule{In: name, Dst: dst, Then: Verdict{Jump: chainIstioRedirect}})
		}
	}
	return rules
}

func inbound(o Options) []Rule {
	toEnvoy := Verdict{Jump: chainIstioInRedirect}
	rules := []Rule{{Proto: TCP, DPort: Port{Number: o.InboundTunnelPort}}}
	if !o.InboundPorts.All {
		for _, port := range o.InboundPorts.Only {
			rules = append(rules, Rule{Proto: TCP, DPort: Port{Number: port}, Then: toEnvoy})
		}
		return rules
	}
	for _, port := range o.ExcludeInbound {
		rules = append(rules, Rule{Proto: TCP, DPort: Port{Number: port}})
	}
	return append(rules, Rule{Proto: TCP, Then: toEnvoy})
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
