package iptables_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// selections are what options exclude and include. The listener at 9999 is the application's
// second.
var selections = []struct {
	name string
	// TPROXY has its own rules for this; outbound traffic is captured by the same rules in either
	// mode.
	tproxy bool
	set    func(*iptables.Options)
	rows   []truth
}{
	{"-i of other ranges", false, func(o *iptables.Options) { o.OutboundRanges = ranges("192.0.2.0/24", "2001:db8::/32") }, []truth{
		{"out", "app", "REMOTE:8080", "remote -"}, {"in", "outside", "POD:8080", "15006 POD:8080"},
	}},
	{"-i of the range", false, func(o *iptables.Options) { o.OutboundRanges = ranges("10.1.0.0/16", "fd00:10::/32") }, []truth{
		{"out", "app", "REMOTE:8080", "15001 REMOTE:8080"},
	}},
	{"no -i", false, func(o *iptables.Options) { o.OutboundRanges.All = false }, []truth{
		{"out", "app", "REMOTE:8080", "remote -"},
	}},
	{"-q", false, func(o *iptables.Options) { o.OutboundRanges.All, o.OutboundPorts = false, ports(8080).Only }, []truth{
		{"out", "app", "REMOTE:8080", "15001 REMOTE:8080"}, {"another port", "app", "REMOTE:9999", "remote -"},
	}},
	{"-x", false, func(o *iptables.Options) { o.ExcludeRanges = ranges("10.1.2.3/32", "fd00:10::3/128").Only }, []truth{
		{"out", "app", "REMOTE:8080", "remote -"}, {"self", "proxy", "POD:8080", "15006 POD:8080"},
	}},
	{"-o", true, func(o *iptables.Options) { o.ExcludeOutbound = ports(8080).Only }, []truth{
		{"out", "app", "REMOTE:8080", "remote -"}, {"another port", "app", "REMOTE:9999", "15001 REMOTE:9999"}, {"self", "proxy", "POD:8080", "app -"},
	}},
	{"-b of a port", true, func(o *iptables.Options) { o.InboundPorts = ports(8080) }, []truth{
		{"in", "outside", "POD:8080", "15006 POD:8080"}, {"another port", "outside", "POD:9999", "second -"},
	}},
	{"no -b", true, func(o *iptables.Options) { o.InboundPorts = ports() }, []truth{
		{"in", "outside", "POD:8080", "app -"}, {"out", "app", "REMOTE:8080", "15001 REMOTE:8080"},
	}},
	{"-d", true, func(o *iptables.Options) { o.ExcludeInbound = ports(8080).Only }, []truth{
		{"in", "outside", "POD:8080", "app -"}, {"another port", "outside", "POD:9999", "15006 POD:9999"},
	}},
	{"-d of a range", true, func(o *iptables.Options) { o.ExcludeInbound = portRanges(8000, 8080, 9998, 9998) }, []truth{
		{"its last port", "outside", "POD:8080", "app -"}, {"above another", "outside", "POD:9999", "15006 POD:9999"},
	}},
	{"-d of ranges beside it", true, func(o *iptables.Options) { o.ExcludeInbound = portRanges(0, 0, 1, 8079, 8081, 9999) }, []truth{
		{"in", "outside", "POD:8080", "15006 POD:8080"}, {"the last port of one", "outside", "POD:9999", "second -"},
	}},
	{"-b of a range", true, func(o *iptables.Options) { o.InboundPorts.All, o.InboundPorts.Only = false, portRanges(8080, 9998) }, []truth{
		{"its first port", "outside", "POD:8080", "15006 POD:8080"}, {"above it", "outside", "POD:9999", "second -"},
	}},
	{"-b of all ports", true, func(o *iptables.Options) { o.InboundPorts.All, o.InboundPorts.Only = false, portRanges(0, 65535) }, []truth{
		{"in", "outside", "POD:8080", "15006 POD:8080"},
	}},
	{"-q of a range", false, func(o *iptables.Options) { o.OutboundRanges.All, o.OutboundPorts = false, portRanges(8000, 8100) }, []truth{
		{"out", "app", "REMOTE:8080", "15001 REMOTE:8080"}, {"another port", "app", "REMOTE:9999", "remote -"},
	}},
	{"-o of a range", true, func(o *iptables.Options) { o.ExcludeOutbound = portRanges(8000, 8100) }, []truth{
		{"out", "app", "REMOTE:8080", "remote -"}, {"another port", "app", "REMOTE:9999", "15001 REMOTE:9999"},
	}},
	{"-c", true, func(o *iptables.Options) { o.ExcludeInterfaces = []string{"eth0"} }, []truth{
		{"in", "outside", "POD:8080", "app -"}, {"out", "app", "REMOTE:8080", "remote -"}, {"self", "proxy", "POD:8080", "15006 POD:8080"},
	}},
	{"-c of many", true, func(o *iptables.Options) { o.ExcludeInterfaces = []string{"eth+"} }, []truth{
		{"in", "outside", "POD:8080", "app -"}, {"out", "app", "REMOTE:8080", "remote -"},
	}},
	{"-k", true, func(o *iptables.Options) { o.RerouteInterfaces = []string{"eth0"} }, []truth{
		{"of the virtual machine", "outside", "POD:8080", "15001 POD:8080"}, {"out", "app", "REMOTE:8080", "15001 REMOTE:8080"},
	}},
	{"groups", false, func(o *iptables.Options) { o.OwnerGroups = iptables.Selection[uint32]{Only: []uint32{5, appUID}} }, []truth{
		{"of it", "app", "REMOTE:8080", "15001 REMOTE:8080"}, {"not of it", "root", "REMOTE:8080", "remote -"},
	}},
	{"groups left out", false, func(o *iptables.Options) { o.ExcludeOwnerGroups = []uint32{appUID} }, []truth{
		{"of it", "app", "REMOTE:8080", "remote -"}, {"not of it", "root", "REMOTE:8080", "15001 REMOTE:8080"},
	}},
	{"other users", false, func(o *iptables.Options) { o.ProxyUIDs, o.ProxyGIDs = []uint32{77, appUID}, []uint32{77} }, []truth{
		{"a proxy", "app", "REMOTE:8080", "remote -"}, {"none any more", "proxy", "REMOTE:8080", "15001 REMOTE:8080"},
	}},
}

func ranges(texts ...string) (s iptables.Selection[netip.Prefix]) {
	for _, text := range texts {
		s.Only = append(s.Only, netip.MustParsePrefix(text))
	}
	return s
}

func ports(numbers ...uint16) (s iptables.Selection[iptables.PortRange]) {
	for _, number := range numbers {
		s.Only = append(s.Only, iptables.SinglePort(number))
	}
	return s
}

// portRanges returns the ranges with these ends.
func portRanges(ends ...uint16) (list []iptables.PortRange) {
	for end := range slices.Chunk(ends, 2) {
		list = append(list, iptables.PortRange{First: end[0], Last: end[1]})
	}
	return list
}

// TestSelections reconciles one pod with each selection in turn, which also tests that nothing is
// left of the previous one.
func TestSelections(t *testing.T) {
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			if manner != "nftables" { // TestTruthTable compares all manners
				longtest.Test(t)
			}
			pod, outside := transparentPod(t)
			requireManner(t, options)
			if options.ProxyMark != 0 {
				skipOrFail(t, "users and groups cannot be told apart here")
			}
			for _, mode := range []iptables.InterceptionMode{iptables.Redirect, iptables.TPROXY} {
				for _, s := range selections {
					if mode == iptables.TPROXY && !s.tproxy {
						continue
					}
					t.Run(string(mode)+"/"+s.name, func(t *testing.T) {
						selected := options
						selected.InboundMode, selected.Reconcile = mode, true
						s.set(&selected)
						mustRun(t, pod, selected)
						for _, row := range s.rows {
							checkTruth(t, pod, outside, callers("uid"), row, families["IPv4"])
							checkTruth(t, pod, outside, callers("uid"), row, families["IPv6"])
						}
					})
				}
			}
		})
	}
}
