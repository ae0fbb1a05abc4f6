package iptables

import (
	"log/slog"
	"net/netip"
	"time"
)

// InterceptionMode is how inbound connections reach Envoy.
type InterceptionMode string

const (
	// Redirect rewrites the destination; Envoy reads the first one from SO_ORIGINAL_DST.
	Redirect InterceptionMode = "REDIRECT"
	// TPROXY keeps both addresses, so that the application sees who its client is: Envoy connects to it in the client's name.
	// Envoy needs CAP_NET_ADMIN for that.
	TPROXY InterceptionMode = "TPROXY"
)

// Variant names a set of iptables programs.
type Variant string

const (
	// AnyVariant lets Run choose: see selectXtables.
	AnyVariant Variant = ""
	// LegacyVariant is iptables-legacy, which speaks to ip_tables.
	LegacyVariant Variant = "legacy"
	// NftVariant is iptables-nft, which speaks to nf_tables.
	NftVariant Variant = "nft"
)

// Selection is a list that may also say "everything". The zero value selects nothing.
type Selection[T any] struct {
	All  bool
	Only []T // not read when All is set
}

// Options is all that can be asked of istio-iptables. The flag that sets a field stands behind it; the names, defaults and
// meanings are those of Istio's program. DefaultOptions has the defaults.
type Options struct {
	ProxyPort          uint16 // -p: where Envoy's outbound listener is
	InboundCapturePort uint16 // -z: where Envoy's inbound listener is
	InboundTunnelPort  uint16 // -e: HBONE; never captured, Envoy listens there itself

	ProxyUIDs []uint32 // -u: whose traffic is Envoy's
	ProxyGIDs []uint32 // -g
	// ProxyMark, if not 0, is the packet mark by which Envoy's traffic is known instead of by uid and gid, which are
	// then not looked at. --proxy-mark is ours, not Istio's: see the package comment.
	ProxyMark uint32

	InboundMode        InterceptionMode        // -m
	TProxyMark         uint32                  // -t: for TPROXY only; Envoy must mark with it too (original_src), and 1 more is ours as well
	TProxyRouteTable   uint32                  // -r: for TPROXY only; the routing table of packets that have the mark
	InboundPorts       Selection[uint16]       // -b: inbound ports to capture
	ExcludeInbound     []uint16                // -d: inbound ports to leave alone, where -b is *
	ExcludeInterfaces  []string                // -c: interfaces to leave alone, in and out
	RerouteInterfaces  []string                // -k: interfaces of virtual machines, what comes in there is outbound traffic
	OutboundRanges     Selection[netip.Prefix] // -i: destinations to capture
	ExcludeRanges      []netip.Prefix          // -x: destinations to leave alone
	OutboundPorts      []uint16                // -q: destination ports to capture whatever -i says
	ExcludeOutbound    []uint16                // -o: destination ports to leave alone, TCP and UDP
	OwnerGroups        Selection[uint32]       // ISTIO_OUTBOUND_OWNER_GROUPS: whose outbound traffic is captured, by gid
	ExcludeOwnerGroups []uint32                // ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE: where the former is *
	LoopbackCIDR       netip.Prefix            // ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR: the application's own IPv4 addresses

	RedirectDNS   bool // --redirect-dns: DNS to the machine's name servers goes to pilot-agent (15053)
	CaptureAllDNS bool // --capture-all-dns: with RedirectDNS, DNS to whomever does
	// Nameservers are those of the pod. They have no flag: Run sets them, from resolv.conf, where RedirectDNS needs them.
	Nameservers []netip.Addr
	DropInvalid bool // --drop-invalid: drop inbound packets that belong to no connection, instead of passing them on

	// DualStack (--dual-stack) asks for IPv6 rules in a pod that has IPv4 addresses too.
	DualStack bool
	// IPv6 says that IPv6 rules are wanted as well. It has no flag: Run sets it, from DualStack and the addresses of the
	// network namespace. IPv4 rules are always wanted.
	IPv6 bool

	DryRun           bool   // -n: print the rules, change nothing
	AsCommands       bool   // --restore-format=false: print them as commands
	SkipRuleApply    bool   // --skip-rule-apply: change nothing; for a container that only validates
	RunValidation    bool   // --run-validation: see that a connection is captured
	CleanupOnly      bool   // --cleanup-only: remove the rules
	Reconcile        bool   // --reconcile: replace rules of an earlier run that differ
	ForceApply       bool   // --force-apply: write the rules even if they are there already
	CNIMode          bool   // --cni-mode: lock per NetworkNamespace, not per machine
	NetworkNamespace string // --network-namespace: a path, or a name below /run/netns; empty: the caller's

	NativeNftables bool    // --native-nftables: nftables over netlink, no programs
	Variant        Variant // --force-iptables-binary

	ProbePort    uint16        // --iptables-probe-port: the destination that validation connects to
	ProbeTimeout time.Duration // --probe-timeout
}

// DefaultOptions returns what the program does without any flag: the chains are there, but nothing is sent to them, for
// neither inbound ports (-b) nor outbound ranges (-i) are selected.
func DefaultOptions() Options {
	return Options{
		ProxyPort:          15001,
		InboundCapturePort: 15006,
		InboundTunnelPort:  15008,
		ProxyUIDs:          []uint32{1337},
		ProxyGIDs:          []uint32{1337},
		InboundMode:        Redirect,
		TProxyMark:         1337,
		TProxyRouteTable:   133,
		OwnerGroups:        Selection[uint32]{All: true},
		LoopbackCIDR:       netip.MustParsePrefix("127.0.0.1/32"),
		ProbePort:          15002,
		ProbeTimeout:       5 * time.Second,
	}
}

// LogValue shows the options under the names of their flags.
func (o Options) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Any("envoy-port", o.ProxyPort),
		slog.Any("inbound-capture-port", o.InboundCapturePort),
		slog.Any("inbound-tunnel-port", o.InboundTunnelPort),
		slog.String("proxy-uid", joinComma(o.ProxyUIDs)),
		slog.String("proxy-gid", joinComma(o.ProxyGIDs)),
		slog.Any("proxy-mark", o.ProxyMark),
		slog.Any("istio-inbound-interception-mode", o.InboundMode),
		slog.Any("istio-inbound-tproxy-mark", o.TProxyMark),
		slog.Any("istio-inbound-tproxy-route-table", o.TProxyRouteTable),
		slog.String("istio-inbound-ports", o.InboundPorts.String()),
		slog.String("istio-local-exclude-ports", joinComma(o.ExcludeInbound)),
		slog.String("istio-exclude-interfaces", joinComma(o.ExcludeInterfaces)),
		slog.String("kube-virt-interfaces", joinComma(o.RerouteInterfaces)),
		slog.String("istio-service-cidr", o.OutboundRanges.String()),
		slog.String("istio-service-exclude-cidr", joinComma(o.ExcludeRanges)),
		slog.String("istio-outbound-ports", joinComma(o.OutboundPorts)),
		slog.String("istio-local-outbound-ports-exclude", joinComma(o.ExcludeOutbound)),
		slog.String("owner-groups", o.OwnerGroups.String()),
		slog.String("owner-groups-exclude", joinComma(o.ExcludeOwnerGroups)),
		slog.Any("ipv4-loopback-cidr", o.LoopbackCIDR),
		slog.Bool("redirect-dns", o.RedirectDNS),
		slog.Bool("capture-all-dns", o.CaptureAllDNS),
		slog.Bool("drop-invalid", o.DropInvalid),
		slog.Bool("dual-stack", o.DualStack),
		slog.Bool("dry-run", o.DryRun),
		slog.Bool("restore-format", !o.AsCommands),
		slog.Bool("skip-rule-apply", o.SkipRuleApply),
		slog.Bool("run-validation", o.RunValidation),
		slog.Bool("cleanup-only", o.CleanupOnly),
		slog.Bool("reconcile", o.Reconcile),
		slog.Bool("force-apply", o.ForceApply),
		slog.Bool("cni-mode", o.CNIMode),
		slog.String("network-namespace", o.NetworkNamespace),
		slog.Bool("native-nftables", o.NativeNftables),
		slog.Any("force-iptables-binary", o.Variant),
		slog.Any("iptables-probe-port", o.ProbePort),
		slog.String("probe-timeout", o.ProbeTimeout.String()),
	)
}

// String is "*" or the list, as the flags have it.
func (s Selection[T]) String() string {
	if s.All {
		return "*"
	}
	return joinComma(s.Only)
}
