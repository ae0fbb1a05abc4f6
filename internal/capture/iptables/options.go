package iptables

import (
	"log/slog"
	"net/netip"
	"time"
)

// InterceptionMode is how inbound connections are redirected to Envoy.
type InterceptionMode string

const (
	// Redirect rewrites the destination. Envoy reads the original one from SO_ORIGINAL_DST.
	Redirect InterceptionMode = "REDIRECT"
	// TPROXY keeps both addresses, so that the application sees its client's address: Envoy
	// connects to it with that source address. Envoy needs CAP_NET_ADMIN.
	TPROXY InterceptionMode = "TPROXY"
)

// Variant is a variant of the iptables programs.
type Variant string

const (
	// AnyVariant lets Run choose, see selectXtables.
	AnyVariant Variant = ""
	// LegacyVariant is iptables-legacy, which uses ip_tables.
	LegacyVariant Variant = "legacy"
	// NftVariant is iptables-nft, which uses nf_tables.
	NftVariant Variant = "nft"
)

// Selection is a list or everything. The zero value selects nothing.
type Selection[T any] struct {
	All  bool
	Only []T // ignored if All is set
}

// Options are the options of istio-iptables. Each field is followed by its flag; names, defaults
// and meanings are Istio's. DefaultOptions returns the defaults.
type Options struct {
	ProxyPort          uint16 // -p: port of Envoy's outbound listener
	InboundCapturePort uint16 // -z: port of Envoy's inbound listener
	InboundTunnelPort  uint16 // -e: HBONE; never captured, because Envoy listens there

	ProxyUIDs []uint32 // -u: users whose traffic is Envoy's
	ProxyGIDs []uint32 // -g
	// ProxyMark, if not 0, is the packet mark that identifies Envoy's traffic instead of uid and
	// gid, which are then ignored. --proxy-mark is an extension of Istio: see the package comment.
	ProxyMark uint32

	InboundMode        InterceptionMode        // -m
	TProxyMark         uint32                  // -t: TPROXY only; set by Envoy too; the next number is also used
	TProxyRouteTable   uint32                  // -r: TPROXY only; routing table of packets with the mark
	InboundPorts       Selection[PortRange]    // -b: inbound ports to capture
	ExcludeInbound     []PortRange             // -d: inbound ports to exclude if -b is *
	ExcludeInterfaces  []string                // -c: interfaces to exclude, in and out
	RerouteInterfaces  []string                // -k: interfaces of virtual machines, whose incoming traffic is outbound
	OutboundRanges     Selection[netip.Prefix] // -i: destinations to capture
	ExcludeRanges      []netip.Prefix          // -x: destinations to exclude
	OutboundPorts      []PortRange             // -q: destination ports to capture regardless of -i
	ExcludeOutbound    []PortRange             // -o: destination ports to exclude, TCP and UDP
	OwnerGroups        Selection[uint32]       // ISTIO_OUTBOUND_OWNER_GROUPS: gids whose outbound traffic is captured
	ExcludeOwnerGroups []uint32                // ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE: gids to exclude for *
	LoopbackCIDR       netip.Prefix            // ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR: the application's own IPv4s

	RedirectDNS   bool // --redirect-dns: redirect DNS to the host's name servers to pilot-agent (15053)
	CaptureAllDNS bool // --capture-all-dns: with RedirectDNS, redirect DNS to any server
	// Nameservers are the pod's name servers. They have no flag: Run sets them from resolv.conf if
	// RedirectDNS needs them.
	Nameservers []netip.Addr
	DropInvalid bool // --drop-invalid: drop inbound packets that belong to no connection

	// DualStack (--dual-stack) adds IPv6 rules also in a pod with IPv4 addresses.
	DualStack bool
	// IPv6 adds IPv6 rules. It has no flag: Run sets it from DualStack and the addresses of the
	// network namespace. IPv4 rules are always added.
	IPv6 bool

	DryRun           bool   // -n: print the rules, change nothing
	AsCommands       bool   // --restore-format=false: print them as commands
	ApplyRules       bool   // add or remove rules (default true); --skip-rule-apply: only validate
	RunValidation    bool   // --run-validation: verify that a connection is captured
	CleanupOnly      bool   // --cleanup-only: remove the rules
	Reconcile        bool   // --reconcile: replace different rules of an earlier run
	ForceApply       bool   // --force-apply: write the rules even if they exist already
	CNIMode          bool   // --cni-mode: lock per NetworkNamespace instead of per host
	NetworkNamespace string // --network-namespace: path, or name below /run/netns; if empty, the caller's

	NativeNftables bool    // --native-nftables: nftables over netlink, no programs
	Variant        Variant // --force-iptables-binary

	ProbePort    uint16        // --iptables-probe-port: the destination that validation connects to
	ProbeTimeout time.Duration // --probe-timeout
}

// DefaultOptions returns the options without any flag: the chains exist but nothing is sent to
// them, because neither inbound ports (-b) nor outbound ranges (-i) are selected.
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
		ApplyRules:         true,
		ProbePort:          15002,
		ProbeTimeout:       5 * time.Second,
	}
}

// LogValue returns the options under the names of their flags.
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
		slog.Bool("skip-rule-apply", !o.ApplyRules),
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

// String returns "*" or the comma-separated list, as in flags.
func (s Selection[T]) String() string {
	if s.All {
		return "*"
	}
	return joinComma(s.Only)
}
