package command

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// value makes a pflag.Value of a variable and its parser.
type value[T any] struct {
	target *T
	parse  func(string) (T, error)
	kind   string
}

func bind[T any](fs *pflag.FlagSet, target *T, parse func(string) (T, error), kind, name, shorthand, usage string) {
	fs.VarP(&value[T]{target: target, parse: parse, kind: kind}, name, shorthand, usage)
}

func (v *value[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err != nil {
		return err
	}
	*v.target = parsed
	return nil
}

func (v *value[T]) Type() string { return v.kind }

// String is what help shows as the default.
func (v *value[T]) String() string {
	if v.target == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*v.target), " ", ","), "[]")
}

func badValue(got, want string) error {
	return fmt.Errorf("%q is not %s", got, want)
}

// wildcard selects everything.
const wildcard = "*"

// parseList splits at commas. Empty items are left out, so that trailing commas do no harm.
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

func parseSelection[T any](s string, parse func(string) (T, error)) (iptables.Selection[T], error) {
	if strings.TrimSpace(s) == wildcard {
		return iptables.Selection[T]{All: true}, nil
	}
	only, err := parseList(s, parse)
	return iptables.Selection[T]{Only: only}, err
}

func parsePorts(s string) ([]uint16, error) { return parseList(s, parsePort) }

func parsePortSelection(s string) (iptables.Selection[uint16], error) {
	return parseSelection(s, parsePort)
}

func parseRanges(s string) ([]netip.Prefix, error) { return parseList(s, parseRange) }

func parseRangeSelection(s string) (iptables.Selection[netip.Prefix], error) {
	return parseSelection(s, parseRange)
}

func parseRange(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, badValue(s, "a CIDR such as 10.0.0.0/8")
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, badValue(s, "a range of IPv4 or of IPv6: write it as IPv4")
	}
	return p.Masked(), nil
}

func parseNames(s string) ([]string, error) {
	return parseList(s, func(name string) (string, error) { return name, nil })
}
