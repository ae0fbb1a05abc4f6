package iptables

// usesTProxy reports whether inbound connections are captured by TPROXY.
func (o Options) usesTProxy() bool { return o.InboundMode == TPROXY && o.capturesInbound() }

// capturesInbound reports whether any inbound port is captured.
func (o Options) capturesInbound() bool { return o.InboundPorts.All || len(o.InboundPorts.Only) > 0 }

// selfCallMark returns the mark of the proxy's calls to its own pod, which distinguishes them from
// other loopback traffic. It is Istio's 1338 beside the 1337 of TProxyMark.
func (o Options) selfCallMark() uint32 { return o.TProxyMark + 1 }

// planMangle returns the rules of TPROXY and of --drop-invalid. It returns an empty table if both
// are disabled.
//
// Istio has some of these rules directly in the kernel's chains. Here all are in chains of our own,
// so that another run recognizes them whatever its options. The decisions for a packet are the
// same.
func planMangle(o Options, f Family) Table {
	t := Table{Family: f, Name: tableMangle}
	if !o.usesTProxy() && !o.DropInvalid {
		return t
	}
	add := func(c Chain) { t.Chains = append(t.Chains, c) }
	var prerouting []Rule
	if o.DropInvalid {
		prerouting = append(prerouting, Rule{States: []ConnState{Invalid}, Then: jump(chainIstioDrop)})
	}
	if o.usesTProxy() {
		prerouting = append(prerouting, Rule{Proto: TCP, Then: jump(chainIstioInbound)})
	}
	add(Chain{Name: chainPrerouting, Rules: prerouting})
	if o.usesTProxy() {
		add(Chain{Name: chainOutput, Rules: []Rule{{Proto: TCP, Then: jump(chainIstioOutput)}}})
		add(Chain{Name: chainIstioDivert, Rules: []Rule{
			{Then: Verdict{Action: SetMark, Mark: o.TProxyMark}},
			{Then: Verdict{Action: Accept}},
		}})
	}
	if o.DropInvalid {
		add(Chain{Name: chainIstioDrop, Rules: append(excludedInterfaceRules(o), Rule{Then: Verdict{Action: Drop}})})
	}
	if o.usesTProxy() {
		add(Chain{Name: chainIstioInbound, Rules: inboundTProxyRules(o, f)})
		add(Chain{Name: chainIstioOutput, Rules: outputTProxyRules(o, f)})
		add(Chain{Name: chainIstioTProxy, Rules: tproxyRules(o, f)})
	}
	return t
}

// inboundTProxyRules returns the rules of ISTIO_INBOUND in mangle. The first ones exempt Envoy's
// connection to the application, which has the client's address as source and uses lo. Excluded
// interfaces and virtual machines are exempt too. For the selected ports, packets of existing
// connections then jump to ISTIO_DIVERT and others to ISTIO_TPROXY.
func inboundTProxyRules(o Options, f Family) []Rule {
	rules := []Rule{
		// Envoy's connection to the application with the client's address: the connection keeps the
		// mark, so that the application's replies return to Envoy.
		{Mark: Mark{Value: o.TProxyMark}, Then: Verdict{Action: SaveMark}},
		{Mark: Mark{Value: o.TProxyMark}},
		{In: loopbackInterface, Src: Net{Prefix: passthroughSource(f)}},
		{In: loopbackInterface, Mark: Mark{Not: true, Value: o.selfCallMark()}},
	}
	rules = append(rules, excludedInterfaceRules(o)...)
	for _, name := range o.RerouteInterfaces {
		rules = append(rules, Rule{In: name}) // outbound traffic of a virtual machine: see rerouteRules
	}
	return append(rules, selectInboundPorts(o, func(ports Ports) []Rule {
		return []Rule{
			// Packets of a connection that has a socket are delivered to that socket.
			{Proto: TCP, DPort: ports, States: []ConnState{Related, Established}, Then: jump(chainIstioDivert)},
			{Proto: TCP, DPort: ports, Then: jump(chainIstioTProxy)},
		}
	})...)
}

// tproxyRules returns the rules of ISTIO_TPROXY. TCP to a destination that is not loopback is
// delivered to the inbound capture port with TProxyMark, or dropped if nothing listens there.
// Packets that REDIRECT sent to the proxy already have a loopback address here.
func tproxyRules(o Options, f Family) []Rule {
	verdict := func(v Verdict) Rule {
		return Rule{Dst: Net{Not: true, Prefix: loopbackPrefix(o, f)}, Proto: TCP, Then: v}
	}
	return []Rule{
		verdict(Verdict{Action: TProxyTo, Port: o.InboundCapturePort, Mark: o.TProxyMark}),
		// Without a listening socket iptables drops the packet, but nftables continues with the
		// next rule: without this rule, packets would reach the application while the proxy is not
		// yet listening.
		verdict(Verdict{Action: Drop}),
	}
}

// outputTProxyRules returns the rules of ISTIO_OUTPUT in mangle, for TPROXY. The application's
// replies on connections that Envoy made get the connection's mark. Excluded interfaces and ports
// return. Last, the proxy's TCP over lo to an address of the pod that is not loopback gets
// selfCallMark.
func outputTProxyRules(o Options, f Family) []Rule {
	rules := []Rule{
		// The application's replies on a connection that Envoy made with the client's address.
		{ConnMark: Mark{Value: o.TProxyMark}, Then: Verdict{Action: RestoreMark}},
		{Out: loopbackInterface, Mark: Mark{Value: o.TProxyMark}},
	}
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{Out: name})
	}
	for _, ports := range o.ExcludeOutbound {
		rules = append(rules, Rule{Proto: TCP, DPort: portRange(ports)})
	}
	for _, is := range proxyConditions(o) {
		rules = append(rules, is(Rule{
			Out: loopbackInterface, Dst: Net{Not: true, Prefix: loopbackPrefix(o, f)}, Proto: TCP,
			Then: Verdict{Action: SetMark, Mark: o.selfCallMark()},
		}, false))
	}
	return rules
}

// excludedInterfaceRules returns rules that return packets from excluded interfaces.
func excludedInterfaceRules(o Options) []Rule {
	var rules []Rule
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, Rule{In: name})
	}
	return rules
}
