package iptables

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// maxOwnerGroups bounds the selected groups, because all become matches of one rule, whose number
// the kernel limits. The value is Istio's.
const maxOwnerGroups = 64

// maxInterfaceName is IFNAMSIZ minus the trailing NUL.
const maxInterfaceName = 15

// Validate returns the first error in the options, naming its flag or variable, or nil. It changes
// nothing.
func (o Options) Validate() error {
	for _, check := range []func() error{
		o.checkMode, o.checkPorts, o.checkProxy, o.checkOwnerGroups, o.checkInterfaces,
		o.checkOutbound, o.checkApplyOptions,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkMode returns an error for another mode than REDIRECT and TPROXY. With TPROXY its two marks
// must not be 0 or ProxyMark, and its routing table not 0 or one of the system's. REDIRECT is
// always valid.
func (o Options) checkMode() error {
	switch o.InboundMode {
	case Redirect:
		return nil
	case TPROXY:
	default:
		return fmt.Errorf("--istio-inbound-interception-mode (-m) %q: must be REDIRECT or TPROXY", o.InboundMode)
	}
	switch {
	case o.TProxyMark == 0 || o.selfCallMark() == 0:
		return fmt.Errorf("--istio-inbound-tproxy-mark (-t) %d: must be 1 to %d",
			o.TProxyMark, uint32(math.MaxUint32-1))
	case o.ProxyMark != 0 && (o.ProxyMark == o.TProxyMark || o.ProxyMark == o.selfCallMark()):
		return fmt.Errorf("--proxy-mark %d: conflicts with the marks of TPROXY, "+
			"--istio-inbound-tproxy-mark (-t) and the next number", o.ProxyMark)
	case o.TProxyRouteTable == 0 || o.TProxyRouteTable >= firstReservedTable && o.TProxyRouteTable <= lastReservedTable:
		return fmt.Errorf("--istio-inbound-tproxy-route-table (-r) %d: is a routing table of the system",
			o.TProxyRouteTable)
	}
	return nil
}

// The routing tables compat, default, main and local.
const (
	firstReservedTable = 252
	lastReservedTable  = 255
)

// checkPorts returns an error if a port of the proxy or of the probe is 0, or a range of ports ends
// before it begins. Lists may have port 0, as in Istio.
func (o Options) checkPorts() error {
	for _, f := range []struct {
		flag string
		port uint16
	}{
		{"--envoy-port (-p)", o.ProxyPort},
		{"--inbound-capture-port (-z)", o.InboundCapturePort},
		{"--inbound-tunnel-port (-e)", o.InboundTunnelPort},
		{"--iptables-probe-port", o.ProbePort},
	} {
		if f.port == 0 {
			return fmt.Errorf("%s: 0 is not a port", f.flag)
		}
	}
	for _, f := range []struct {
		flag  string
		ports []PortRange
	}{
		{"--istio-inbound-ports (-b)", o.InboundPorts.Only},
		{"--istio-local-exclude-ports (-d)", o.ExcludeInbound},
		{"--istio-outbound-ports (-q)", o.OutboundPorts},
		{"--istio-local-outbound-ports-exclude (-o)", o.ExcludeOutbound},
	} {
		for _, r := range f.ports {
			if r.First > r.Last {
				return fmt.Errorf("%s: %v ends before it begins", f.flag, r)
			}
		}
	}
	return nil
}

// checkProxy returns an error if neither users, groups nor a mark identify the proxy.
func (o Options) checkProxy() error {
	if o.ProxyMark == 0 && len(o.ProxyUIDs) == 0 && len(o.ProxyGIDs) == 0 {
		return errors.New("--proxy-uid (-u): empty, as are --proxy-gid and --proxy-mark: " +
			"the proxy's own traffic would be captured in a loop")
	}
	return nil
}

// checkOwnerGroups returns an error if more than maxOwnerGroups single groups are selected. A
// selection of all groups is accepted.
func (o Options) checkOwnerGroups() error {
	if n := len(o.OwnerGroups.Only); !o.OwnerGroups.All && n > maxOwnerGroups {
		return fmt.Errorf("ISTIO_OUTBOUND_OWNER_GROUPS: %d groups, at most %d can be captured", n, maxOwnerGroups)
	}
	return nil
}

// checkInterfaces returns an error for a name of an interface that is empty, longer than
// maxInterfaceName or has an invalid character. A final + is allowed, but not alone.
func (o Options) checkInterfaces() error {
	for _, f := range []struct {
		flag  string
		names []string
	}{
		{"--istio-exclude-interfaces (-c)", o.ExcludeInterfaces},
		{"--kube-virt-interfaces (-k)", o.RerouteInterfaces},
	} {
		for _, name := range f.names {
			switch {
			case name == "" || name == "+":
				return fmt.Errorf("%s: %q is not an interface", f.flag, name)
			case len(name) > maxInterfaceName:
				return fmt.Errorf("%s: %q has more than %d characters", f.flag, name, maxInterfaceName)
			case strings.ContainsFunc(name, isInvalidInterfaceRune):
				return fmt.Errorf("%s: %q has a character that is invalid in interface names", f.flag, name)
			}
		}
	}
	return nil
}

// isInvalidInterfaceRune reports whether an interface name must not contain r: white space, control
// characters, characters beyond ASCII, and / ! " ' \ * and comma.
func isInvalidInterfaceRune(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/!"'\*,`, r)
}

// checkOutbound returns an error for an invalid range in OutboundRanges or ExcludeRanges, or a
// LoopbackCIDR that is not within 127.0.0.0/8.
func (o Options) checkOutbound() error {
	c := o.LoopbackCIDR
	if !c.IsValid() || !c.Addr().Is4() || !c.Addr().IsLoopback() || c.Bits() < 8 {
		return fmt.Errorf("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR %v: must be within 127.0.0.0/8", c)
	}
	for _, p := range o.OutboundRanges.Only {
		if !p.IsValid() {
			return errors.New("--istio-service-cidr (-i): has an invalid range")
		}
	}
	for _, p := range o.ExcludeRanges {
		if !p.IsValid() {
			return errors.New("--istio-service-exclude-cidr (-x): has an invalid range")
		}
	}
	return nil
}

// checkApplyOptions returns an error for an unknown Variant, NativeNftables with a Variant, CNIMode
// without NetworkNamespace, and RunValidation with CleanupOnly or without a positive ProbeTimeout.
func (o Options) checkApplyOptions() error {
	switch o.Variant {
	case AnyVariant, LegacyVariant, NftVariant:
	default:
		return fmt.Errorf("--force-iptables-binary %q: must be legacy or nft", o.Variant)
	}
	switch {
	case o.NativeNftables && o.Variant != AnyVariant:
		return errors.New("--native-nftables: conflicts with --force-iptables-binary")
	case o.CNIMode && o.NetworkNamespace == "":
		return errors.New("--cni-mode: requires --network-namespace")
	case o.RunValidation && o.CleanupOnly:
		return errors.New("--run-validation: conflicts with --cleanup-only")
	case o.RunValidation && o.ProbeTimeout <= 0:
		return fmt.Errorf("--probe-timeout %v: must be positive", o.ProbeTimeout)
	}
	return nil
}
