package command

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// bindFlags defines the flags in the order of Options, with the values in o as defaults.
func bindFlags(fs *pflag.FlagSet, o *iptables.Options, users Users) {
	fs.SortFlags = false
	bindPortFlags(fs, o)
	bindProxyFlags(fs, o, users)
	bindSelectionFlags(fs, o)
	bindFeatureFlags(fs, o)
	bindApplyFlags(fs, o)
}

// bindPortFlags binds the flags of Envoy's ports to o.
func bindPortFlags(fs *pflag.FlagSet, o *iptables.Options) {
	bindValue(fs, &o.ProxyPort, parsePort, "port", "envoy-port", "p",
		"port of Envoy's outbound listener, to which captured outbound TCP traffic is redirected")
	bindValue(fs, &o.InboundCapturePort, parsePort, "port", "inbound-capture-port", "z",
		"port of Envoy's inbound listener, to which captured inbound TCP traffic is redirected")
	bindValue(fs, &o.InboundTunnelPort, parsePort, "port", "inbound-tunnel-port", "e",
		"port of Envoy's tunnel (HBONE), which is never captured")
}

// bindProxyFlags defines the flags proxy-uid, proxy-gid and proxy-mark, by which the proxy's own
// traffic is recognized. Parsing fs stores their values in o, whose current values are the
// defaults. users resolves the names of users and groups.
func bindProxyFlags(fs *pflag.FlagSet, o *iptables.Options, users Users) {
	uid := func(s string) ([]uint32, error) { return parseIDs(s, users.UID) }
	gid := func(s string) ([]uint32, error) { return parseIDs(s, users.GID) }
	bindValue(fs, &o.ProxyUIDs, uid, "uids", "proxy-uid", "u",
		"users whose traffic is the proxy's and is not captured, by uid or name, separated by commas "+
			"(default: the uid of the user istio-proxy or of $ENVOY_USER, else 1337)")
	bindValue(fs, &o.ProxyGIDs, gid, "gids", "proxy-gid", "g",
		"groups whose traffic is the proxy's and is not captured, by gid or name, separated by commas "+
			"(default: as --proxy-uid)")
	bindValue(fs, &o.ProxyMark, parseNumber, "mark", "proxy-mark", "",
		"identify the proxy's traffic by this packet mark (SO_MARK) instead of uid and gid, "+
			"for user namespaces that map only one uid; 0 is off; not an option of Istio")
	for _, name := range []string{"proxy-uid", "proxy-gid"} {
		fs.Lookup(name).DefValue = ""
	}
}

// bindSelectionFlags defines the flags of the inbound mode, of TPROXY's mark and routing table, and
// of the ports, addresses and interfaces to capture or exclude. Parsing fs stores their values in
// o, whose current values are the defaults. The proxy's users and groups are flags of
// bindProxyFlags.
func bindSelectionFlags(fs *pflag.FlagSet, o *iptables.Options) {
	bindValue(fs, &o.InboundMode, parseMode, "mode", "istio-inbound-interception-mode", "m",
		"how inbound connections are redirected to Envoy: REDIRECT, or TPROXY, which preserves the client's address")
	bindValue(fs, &o.TProxyMark, parseNumber, "mark", "istio-inbound-tproxy-mark", "t",
		"packet mark of TPROXY mode; the next number is used too")
	bindValue(fs, &o.TProxyRouteTable, parseNumber, "table", "istio-inbound-tproxy-route-table", "r",
		"routing table of TPROXY mode")
	bindValue(fs, &o.InboundPorts, parsePortSelection, "ports", "istio-inbound-ports", "b",
		"inbound ports and ranges (8000:8010) to capture, separated by commas, or * for all; none if empty")
	bindValue(fs, &o.ExcludeInbound, parsePorts, "ports", "istio-local-exclude-ports", "d",
		"inbound ports and ranges to exclude if all are captured, separated by commas")
	bindValue(fs, &o.ExcludeInterfaces, parseNames, "interfaces", "istio-exclude-interfaces", "c",
		"interfaces to exclude in both directions, separated by commas")
	bindValue(fs, &o.OutboundRanges, parseRangeSelection, "cidrs", "istio-service-cidr", "i",
		"outbound destinations to capture, as CIDRs separated by commas, or * for all; none if empty")
	bindValue(fs, &o.ExcludeRanges, parseRanges, "cidrs", "istio-service-exclude-cidr", "x",
		"outbound destinations to exclude, as CIDRs separated by commas")
	bindValue(fs, &o.OutboundPorts, parsePorts, "ports", "istio-outbound-ports", "q",
		"outbound ports and ranges to capture at every destination that is not excluded, separated by commas")
	bindValue(fs, &o.ExcludeOutbound, parsePorts, "ports", "istio-local-outbound-ports-exclude", "o",
		"outbound ports and ranges to exclude, separated by commas")
	bindValue(fs, &o.RerouteInterfaces, parseNames, "interfaces", "kube-virt-interfaces", "k",
		"interfaces of virtual machines, whose traffic into the pod is outbound traffic, separated by commas")
}

// bindFeatureFlags binds the flags of DNS, invalid packets and dual stack to o.
func bindFeatureFlags(fs *pflag.FlagSet, o *iptables.Options) {
	fs.BoolVar(&o.RedirectDNS, "redirect-dns", o.RedirectDNS,
		"capture DNS to the name servers of resolv.conf and redirect it to the agent (port 15053)")
	fs.BoolVar(&o.CaptureAllDNS, "capture-all-dns", o.CaptureAllDNS, "with --redirect-dns, capture DNS to all servers")
	fs.BoolVar(&o.DropInvalid, "drop-invalid", o.DropInvalid, "drop inbound packets that conntrack considers invalid")
	fs.BoolVar(&o.DualStack, "dual-stack", o.DualStack, "capture IPv6 too in a pod with addresses of both families")
}

// bindApplyFlags defines the flags about how rules are printed, applied and validated. Parsing fs
// stores their values in o, whose current values are the defaults. restore-format and
// skip-rule-apply set AsCommands and ApplyRules to the opposite. Both force-iptables-binary and
// iptables-version set Variant.
func bindApplyFlags(fs *pflag.FlagSet, o *iptables.Options) {
	fs.BoolVarP(&o.DryRun, "dry-run", "n", o.DryRun, "print the rules and change nothing")
	bindValue(fs, &o.AsCommands, parseNegated, "bool", "restore-format", "f",
		"print the rules of a dry run as input for iptables-restore instead of commands; "+
			"an option of earlier releases of Istio")
	fs.Lookup("restore-format").NoOptDefVal, fs.Lookup("restore-format").DefValue = "true", "true"
	bindValue(fs, &o.ApplyRules, parseNegated, "bool", "skip-rule-apply", "",
		"change nothing, for use with --run-validation")
	fs.Lookup("skip-rule-apply").NoOptDefVal, fs.Lookup("skip-rule-apply").DefValue = "true", "false"
	fs.BoolVar(&o.RunValidation, "run-validation", o.RunValidation,
		"verify that connections are captured; exit status 126 if not")
	bindValue(fs, &o.ProbePort, parsePort, "port", "iptables-probe-port", "",
		"destination port of the validation's connection")
	fs.DurationVar(&o.ProbeTimeout, "probe-timeout", o.ProbeTimeout, "timeout of the validation")
	fs.StringVar(&o.NetworkNamespace, "network-namespace", o.NetworkNamespace,
		"network namespace to work in, a path or a name of ip-netns (default: the caller's)")
	fs.BoolVar(&o.CNIMode, "cni-mode", o.CNIMode, "lock per network namespace, as a CNI plugin should")
	fs.BoolVar(&o.Reconcile, "reconcile", o.Reconcile,
		"replace rules of an earlier run that differ, instead of failing")
	fs.BoolVar(&o.CleanupOnly, "cleanup-only", o.CleanupOnly, "remove the rules and add none")
	fs.BoolVar(&o.ForceApply, "force-apply", o.ForceApply, "write the rules even if they exist already")
	fs.BoolVar(&o.NativeNftables, "native-nftables", o.NativeNftables,
		"use nftables over netlink instead of the iptables programs")
	bindValue(fs, &o.Variant, parseVariant, "variant", "force-iptables-binary", "",
		"iptables programs to use: legacy or nft")
	bindValue(fs, &o.Variant, parseVersion, "version", "iptables-version", "",
		"version string of the iptables program to use, for example \"v1.8.9 (nf_tables)\"; "+
			"an option of earlier releases of Istio")
}

// parsePort parses a port. 0 is an error.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, valueError(s, "a port (1 to 65535)")
	}
	return uint16(n), nil
}

// parseNumber parses a number of 32 bits, in decimal or with a prefix such as 0x. Any other text is
// an error.
func parseNumber(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, valueError(s, "a number of 32 bits")
	}
	return uint32(n), nil
}

// parseMode parses an interception mode. An empty one is REDIRECT, as in Istio. Any other than
// REDIRECT and TPROXY is an error.
func parseMode(s string) (iptables.InterceptionMode, error) {
	switch mode := iptables.InterceptionMode(s); mode {
	case "":
		return iptables.Redirect, nil
	case iptables.Redirect, iptables.TPROXY:
		return mode, nil
	}
	return "", valueError(s, "REDIRECT or TPROXY")
}

// parseVariant parses a variant of the iptables programs: legacy or nft, or AnyVariant for "". Any
// other is an error.
func parseVariant(s string) (iptables.Variant, error) {
	switch v := iptables.Variant(s); v {
	case iptables.AnyVariant, iptables.LegacyVariant, iptables.NftVariant:
		return v, nil
	}
	return "", valueError(s, "legacy or nft")
}

// parseNegated parses a boolean flag with the opposite meaning of its option, and returns the
// option's value. A text that is no boolean is an error.
func parseNegated(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, valueError(s, "true or false")
	}
	return !b, nil
}

// parseVersion parses the output of `iptables --version`. It selects NftVariant if that contains
// "nf_tables", LegacyVariant if it contains "legacy". A number without either, or nothing, selects
// AnyVariant; other texts are an error.
func parseVersion(s string) (iptables.Variant, error) {
	switch {
	case strings.Contains(s, "nf_tables"):
		return iptables.NftVariant, nil
	case strings.Contains(s, "legacy"):
		return iptables.LegacyVariant, nil
	}
	if v := strings.TrimPrefix(strings.TrimSpace(s), "v"); v != "" && (v[0] < '0' || v[0] > '9') {
		return "", valueError(s, "a version such as 1.8.9 or v1.8.9 (nf_tables)")
	}
	return iptables.AnyVariant, nil
}
