package command

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/base/portrange"
	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// parsedValue implements pflag.Value by a variable and its parser.
type parsedValue[T any] struct {
	target *T
	parse  func(string) (T, error)
	kind   string
}

// bindValue defines a flag that sets *target to the result of parse. kind is the name of the value
// in the help.
func bindValue[T any](
	fs *pflag.FlagSet, target *T, parse func(string) (T, error), kind, name, shorthand, usage string,
) {
	fs.VarP(&parsedValue[T]{target: target, parse: parse, kind: kind}, name, shorthand, usage)
}

// Set parses s and sets the target. After an error the target is unchanged.
func (v *parsedValue[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err != nil {
		return err
	}
	*v.target = parsed
	return nil
}

// Type returns the kind that help shows for the value.
func (v *parsedValue[T]) Type() string { return v.kind }

// String returns the default that help shows. Without a target it is empty; items of lists are
// separated by commas.
func (v *parsedValue[T]) String() string {
	if v.target == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*v.target), " ", ","), "[]")
}

// valueError returns the error for the value got, which is not want.
func valueError(got, want string) error {
	return fmt.Errorf("%q is not %s", got, want)
}

// wildcard selects everything.
const wildcard = "*"

// parseList returns the items of a comma-separated list, or nil if there are none. Empty items are
// skipped. It returns the first error of parse. Spaces around items are removed.
func parseList[T any](s string, parse func(string) (T, error)) ([]T, error) {
	var list []T
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		parsed, err := parse(item)
		if err != nil {
			return nil, err
		}
		list = append(list, parsed)
	}
	return list, nil
}

// parseSelection returns a selection of everything for "*", and otherwise of the items of a
// comma-separated list. An empty list selects nothing, and the first error of parse is returned.
func parseSelection[T any](s string, parse func(string) (T, error)) (iptables.Selection[T], error) {
	if strings.TrimSpace(s) == wildcard {
		return iptables.Selection[T]{All: true}, nil
	}
	only, err := parseList(s, parse)
	return iptables.Selection[T]{Only: only}, err
}

// parsePorts parses a comma-separated list of ports and ranges of ports, or nil for none. It
// returns the first error.
func parsePorts(s string) ([]iptables.PortRange, error) { return parseList(s, parsePortRange) }

// parsePortSelection parses "*" for all ports, or a comma-separated list of ports and ranges of
// ports, which may be empty. It returns the first error.
func parsePortSelection(s string) (iptables.Selection[iptables.PortRange], error) {
	return parseSelection(s, parsePortRange)
}

// parsePortRange parses a port or a range of ports (portrange.Parse).
func parsePortRange(s string) (iptables.PortRange, error) {
	r, err := portrange.Parse(s)
	return iptables.PortRange(r), err
}

// parseRanges parses a comma-separated list of CIDRs, or nil for none. It returns the first error.
func parseRanges(s string) ([]netip.Prefix, error) { return parseList(s, parseRange) }

// parseRangeSelection parses "*" for all addresses, or a comma-separated list of CIDRs, which may
// be empty. It returns the first error.
func parseRangeSelection(s string) (iptables.Selection[netip.Prefix], error) {
	return parseSelection(s, parseRange)
}

// parseRange parses a CIDR and clears the bits after its prefix. IPv4-mapped ranges are errors.
func parseRange(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, valueError(s, "a CIDR such as 10.0.0.0/8")
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, valueError(s, "an IPv4 or IPv6 range: IPv4-mapped ranges must be written as IPv4")
	}
	return p.Masked(), nil
}

// parseNames returns the non-empty items of a comma-separated list, which it does not check.
func parseNames(s string) ([]string, error) {
	return parseList(s, func(name string) (string, error) { return name, nil })
}
