package iptables

// tproxy reports whether inbound connections are captured by TPROXY.
func (o Options) tproxy() bool { return o.InboundMode == TPROXY && o.capturesInbound() }

// capturesInbound reports whether any inbound port is captured.
func (o Options) capturesInbound() bool { return o.InboundPorts.All || len(o.InboundPorts.Only) > 0 }

// selfCallMark tells the proxy's calls to its own pod from everything else on the loopback interface. It is Istio's 1338
// beside the 1337 of TProxyMark.
func (o Options) selfCallMark() uint32 { return o.TProxyMark + 1 }

// planMangle has the capture of TPROXY, and what --drop-invalid asks for.
//
// Istio has some of these rules right in the kernel's chains. Here all of them are in chains of our own, so that they are known
// for ours whatever options another run has; a packet meets the same decisions.
func planMangle(o Options, f Family) Table {
	t := Table{Family: f, Name: tableMangle}
	if !o.tproxy() && !o.DropInvalid {
		return t
	}
	add := func(c Chain) { t.Chains = append(t.Chains, c) }
	var prerouting []Rule
	if o.DropInvalid {
		prerouting = append(prerouting, Rule{States: []ConnState{Invalid}, Then: jump(chainIstioDrop)})
	}
	if o.tproxy() {
		prerouting = append(prerouting, Rule{Proto: TCP, Then: jump(chainIstioInbound)})
	}
	add(Chain{Name: chainPrerouting, Rules: prerouting})
	if o.tproxy() {
		add(Chain{Name: chainOutput, Rules: []Rule{{Proto: TCP, Then: jump(chainIstioOutput)}}})
		add(Chain{Name: chainIstioDivert, Rules: []Rule{
			{Then: Verdict{Action: SetMark, Mark: o.TProxyMark}},
			{Then: Verdict{Action: Accept}},
		}})
	}
	if o.DropInvalid {
		add(Chain{Name: chainIstioDrop, Rules: append(excludedIn(o), Rule{Then: Verdict{Action: Drop}})})
	}
	if o.tproxy() {
		add(Chain{Name: chainIstioInbound, Rules: inboundTProxy(o, f)})
		add(Chain{Name: chainIstioOutput, Rules: outputTProxy(o, f)})
		add(Chain{Name: chainIstioTProxy, Rules: toProxy(o, f)})
	}
	return t
}

// inboundTProxy is ISTIO_INBOUND of mangle. The order of its first rules is what keeps the hop from Envoy to the application,
// which has the client's address as its source and goes over lo, from being captured again.
func inboundTProxy(o Options, f Family) []Rule {
	rules := []Rule{
		// Envoy's connection to the application in the client's name: the application's answers must find back to Envoy,
		// so the connection keeps the mark.
		{Mark: Mark{Value: o.TProxyMark}, Then: Verdict{Action: SaveMark}},
		{Mark: Mark{Value: o.TProxyMark}},
		{In: loopbackInterface, Src: Net{Prefix: passthroughSource(f)}},
		{In: loopbackInterface, Mark: Mark{Not: true, Value: o.selfCallMark()}},
	}
	rules = append(rules, excludedIn(o)...)
	for _, name := range o.RerouteInterfaces {
		rules = append(rules, Rule{In: name}) // outbound traffic of a virtual machine: see rerouted
	}
	return append(rules, selectInbound(o, func(ports Ports) []Rule {
		return []Rule{
			// A packet of a connection that has a socket already goes to that socket.
			{Proto: TCP, DPort: ports, States: []ConnState{Related, Established}, Then: jump(chainIstioDivert)},
			{Proto: TCP, DPort: ports, Then: jump(chainIstioTProxy)},
		}
	})...)
}

// toProxy is ISTIO_TPROXY. What REDIRECT sent to the proxy already has a loopback address by now.
func toProxy(o Options, f Family) []Rule {
	verdict := func(v Verdict) Rule {
		return Rule{Dst: Net{Not: true, Prefix: loopback(o, f)}, Proto: TCP, Then: v}
	}
	return []Rule{
		verdict(Verdict{Action: TProxyTo, Port: o.InboundCapturePort, Mark: o.TProxyMark}),
		// While nobody listens there iptables drops a packet, but nftables goes on with the next rule: without this one, packets
		// would reach the application past a proxy that is not up yet.
		verdict(Verdict{Action: Drop}),
	}
}

// outputTProxy is ISTIO_OUTPUT of mangle.
func outputTProxy(o Options, f Family) []Rule {
	rules := []Rule{
		// The application's answers to a connection that Envoy made in the client's name.
		{ConnMark: Mark{Value: o.TProxyMark}, Then: Verdict{Action: RestoreMark}},
		{Out: loopbackInterface, Mark: Mark{Value: o.TProxyMark}},
	}
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{Out: name})
	}
	for _, number := range o.ExcludeOutbound {
		rules = append(rules, Rule{Proto: TCP, DPort: port(number)})
	}
	for _, is := range proxyConditions(o) {
		rules = append(rules, is(Rule{
			Out: loopbackInterface, Dst: Net{Not: true, Prefix: loopback(o, f)}, Proto: TCP,
			Then: Verdict{Action: SetMark, Mark: o.selfCallMark()},
		}, false))
	}
	return rules
}

func excludedIn(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{In: name})
	}
	return rules
}
