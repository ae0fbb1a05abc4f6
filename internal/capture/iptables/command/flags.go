package command

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// bindFlags declares the flags in the order of Options, with the values in o as defaults.
func bindFlags(fs *pflag.FlagSet, o *iptables.Options, users Users) {
	fs.SortFlags = false
	bindPortFlags(fs, o)
	bindProxyFlags(fs, o, users)
	bindSelectionFlags(fs, o)
	bindFeatureFlags(fs, o)
	bindMannerFlags(fs, o)
}

func bindPortFlags(fs *pflag.FlagSet, o *iptables.Options) {
	bind(fs, &o.ProxyPort, parsePort, "port", "envoy-port", "p", "port of Envoy's outbound listener, to which captured outbound TCP traffic goes")
	bind(fs, &o.InboundCapturePort, parsePort, "port", "inbound-capture-port", "z", "port of Envoy's inbound listener, to which captured inbound TCP traffic goes")
	bind(fs, &o.InboundTunnelPort, parsePort, "port", "inbound-tunnel-port", "e", "port at which Envoy is reached through the tunnel (HBONE); it is never captured")
}

func bindProxyFlags(fs *pflag.FlagSet, o *iptables.Options, users Users) {
	uid := func(s string) ([]uint32, error) { return parseIDs(s, users.UID) }
	gid := func(s string) ([]uint32, error) { return parseIDs(s, users.GID) }
	bind(fs, &o.ProxyUIDs, uid, "uids", "proxy-uid", "u", "users whose traffic is the proxy's and is not captured, by uid or name, separated by commas (default: the uid of the user istio-proxy or of $ENVOY_USER, else 1337)")
	bind(fs, &o.ProxyGIDs, gid, "gids", "proxy-gid", "g", "groups whose traffic is the proxy's and is not captured, by gid or name, separated by commas (default: as --proxy-uid)")
	bind(fs, &o.ProxyMark, parseNumber, "mark", "proxy-mark", "", "know the proxy's traffic by this packet mark (SO_MARK) instead of by uid and gid, for user namespaces that map one uid only; 0 is off; not an option of Istio")
	for _, name := range []string{"proxy-uid", "proxy-gid"} {
		fs.Lookup(name).DefValue = ""
	}
}

func bindSelectionFlags(fs *pflag.FlagSet, o *iptables.Options) {
	bind(fs, &o.InboundMode, parseMode, "mode", "istio-inbound-interception-mode", "m", "how inbound connections reach Envoy: REDIRECT or TPROXY, which shows the application who its client is")
	bind(fs, &o.TProxyMark, parseNumber, "mark", "istio-inbound-tproxy-mark", "t", "packet mark of TPROXY mode; the number after it is used too")
	bind(fs, &o.TProxyRouteTable, parseNumber, "table", "istio-inbound-tproxy-route-table", "r", "routing table of TPROXY mode")
	bind(fs, &o.InboundPorts, parsePortSelection, "ports", "istio-inbound-ports", "b", "inbound ports to capture, separated by commas, or * for all; none if empty")
	bind(fs, &o.ExcludeInbound, parsePorts, "ports", "istio-local-exclude-ports", "d", "inbound ports to leave alone where all are captured, separated by commas")
	bind(fs, &o.ExcludeInterfaces, parseNames, "interfaces", "istio-exclude-interfaces", "c", "interfaces to leave alone, in both directions, separated by commas")
	bind(fs, &o.OutboundRanges, parseRangeSelection, "cidrs", "istio-service-cidr", "i", "outbound destinations to capture, as CIDRs separated by commas, or * for all; none if empty")
	bind(fs, &o.ExcludeRanges, parseRanges, "cidrs", "istio-service-exclude-cidr", "x", "outbound destinations to leave alone, as CIDRs separated by commas")
	bind(fs, &o.OutboundPorts, parsePorts, "ports", "istio-outbound-ports", "q", "outbound ports to capture at every destination that is not left alone, separated by commas")
	bind(fs, &o.ExcludeOutbound, parsePorts, "ports", "istio-local-outbound-ports-exclude", "o", "outbound ports to leave alone, separated by commas")
	bind(fs, &o.RerouteInterfaces, parseNames, "interfaces", "kube-virt-interfaces", "k", "interfaces of virtual machines, whose traffic into the pod is outbound traffic, separated by commas")
}

func bindFeatureFlags(fs *pflag.FlagSet, o *iptables.Options) {
	fs.BoolVar(&o.RedirectDNS, "redirect-dns", o.RedirectDNS, "capture DNS to the name servers of resolv.conf, for the agent to answer (port 15053)")
	fs.BoolVar(&o.CaptureAllDNS, "capture-all-dns", o.CaptureAllDNS, "with --redirect-dns, capture DNS to all servers")
	fs.BoolVar(&o.DropInvalid, "drop-invalid", o.DropInvalid, "drop inbound packets that connection tracking finds invalid")
	fs.BoolVar(&o.DualStack, "dual-stack", o.DualStack, "capture IPv6 too in a pod that has addresses of both families")
}

func bindMannerFlags(fs *pflag.FlagSet, o *iptables.Options) {
	fs.BoolVarP(&o.DryRun, "dry-run", "n", o.DryRun, "print the rules and change nothing")
	bind(fs, &o.AsCommands, parseNot, "bool", "restore-format", "f", "print the rules of a dry run as input for iptables-restore, rather than as commands; an option of earlier releases of Istio")
	fs.Lookup("restore-format").NoOptDefVal, fs.Lookup("restore-format").DefValue = "true", "true"
	fs.BoolVar(&o.SkipRuleApply, "skip-rule-apply", o.SkipRuleApply, "change nothing, for use with --run-validation")
	fs.BoolVar(&o.RunValidation, "run-validation", o.RunValidation, "see that connections are captured; exit status 126 if not")
	bind(fs, &o.ProbePort, parsePort, "port", "iptables-probe-port", "", "destination port of the connection that validation makes")
	fs.DurationVar(&o.ProbeTimeout, "probe-timeout", o.ProbeTimeout, "how long validation waits for its connection")
	fs.StringVar(&o.NetworkNamespace, "network-namespace", o.NetworkNamespace, "network namespace to work in, a path or a name of ip-netns; empty is the caller's")
	fs.BoolVar(&o.CNIMode, "cni-mode", o.CNIMode, "lock for each network namespace on its own, as a CNI plugin should")
	fs.BoolVar(&o.Reconcile, "reconcile", o.Reconcile, "replace rules of an earlier run that differ, instead of failing")
	fs.BoolVar(&o.CleanupOnly, "cleanup-only", o.CleanupOnly, "remove the rules, add none")
	fs.BoolVar(&o.ForceApply, "force-apply", o.ForceApply, "write the rules even if they are in place")
	fs.BoolVar(&o.NativeNftables, "native-nftables", o.NativeNftables, "use nftables over netlink instead of the iptables programs")
	bind(fs, &o.Variant, parseVariant, "variant", "force-iptables-binary", "", "iptables programs to use: legacy or nft")
	bind(fs, &o.Variant, parseVersion, "version", "iptables-version", "", "what the iptables program to use says its version is, for example \"v1.8.9 (nf_tables)\"; an option of earlier releases of Istio")
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, badValue(s, "a port (1 to 65535)")
	}
	return uint16(n), nil
}

func parseNumber(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, badValue(s, "a number of 32 bits")
	}
	return uint32(n), nil
}

// parseMode takes no mode for REDIRECT, as Istio does.
func parseMode(s string) (iptables.InterceptionMode, error) {
	switch mode := iptables.InterceptionMode(s); mode {
	case "":
		return iptables.Redirect, nil
	case iptables.Redirect, iptables.TPROXY:
		return mode, nil
	}
	return "", badValue(s, "REDIRECT or TPROXY")
}

func parseVariant(s string) (iptables.Variant, error) {
	switch v := iptables.Variant(s); v {
	case iptables.AnyVariant, iptables.LegacyVariant, iptables.NftVariant:
		return v, nil
	}
	return "", badValue(s, "legacy or nft")
}

// parseNot is for a flag that says the opposite of the option.
func parseNot(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, badValue(s, "true or false")
	}
	return !b, nil
}

// parseVersion takes what `iptables --version` prints, or a number alone, which leaves the choice open.
func parseVersion(s string) (iptables.Variant, error) {
	switch {
	case strings.Contains(s, "nf_tables"):
		return iptables.NftVariant, nil
	case strings.Contains(s, "legacy"):
		return iptables.LegacyVariant, nil
	}
	if v := strings.TrimPrefix(strings.TrimSpace(s), "v"); v != "" && (v[0] < '0' || v[0] > '9') {
		return "", badValue(s, "a version such as 1.8.9 or v1.8.9 (nf_tables)")
	}
	return iptables.AnyVariant, nil
}
