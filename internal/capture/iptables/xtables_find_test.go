package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a fake Tools with the output of each save program, and the programs that fail.
type machine struct {
	// saves maps installed variants, by the name of their IPv4 program, to the output of their save
	// program.
	saves map[string]string
	// legacy are the variants that use ip_tables.
	legacy map[string]bool
	// unreadable variants may not list rules, broken ones are not supported by the kernel.
	unreadable, broken map[string]bool
	// noIPv6 are variants without IPv6 programs.
	noIPv6 map[string]bool
}

func (m machine) split(name string) (tool, action string, ipv6 bool) {
	tool = filepath.Base(name)
	i := strings.LastIndex(tool, "-")
	tool, action = tool[:i], tool[i+1:]
	if rest, ok := strings.CutPrefix(tool, "ip6tables"); ok {
		return "iptables" + rest, action, true
	}
	return tool, action, false
}

func (m machine) Find(name string) (string, error) {
	tool, _, ipv6 := m.split(name)
	if _, ok := m.saves[tool]; !ok || ipv6 && m.noIPv6[tool] {
		return "", errors.New("no " + name)
	}
	return "/sbin/" + name, nil
}

func (m machine) Run(_ context.Context, call Call) (string, error) {
	tool, action, _ := m.split(call.Path)
	switch {
	case len(call.Args) > 0 && call.Args[0] == "--version" && m.legacy[tool]:
		return tool + " v1.8.9 (legacy)", nil
	case len(call.Args) > 0 && call.Args[0] == "--version":
		return tool + " v1.8.9 (nf_tables)", nil
	case action == "save" && m.unreadable[tool]:
		return "", fmt.Errorf("listing: %w", ErrNotPermitted)
	case action == "save":
		return m.saves[tool], nil
	case m.broken[tool]:
		return "", errors.New("the kernel has no such tables")
	}
	return "", nil
}

func TestSelection(t *testing.T) {
	const rules = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n"
	set := func(names ...string) map[string]bool {
		m := map[string]bool{}
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	const legacy, nft, plain = "iptables-legacy", "iptables-nft", "iptables"
	all := map[string]string{legacy: "", nft: "", plain: ""}
	for _, c := range []struct {
		name    string
		machine machine
		options Options
		want    string // the name of the variant, or a part of the error
	}{
		{"nft is preferred", machine{saves: all, legacy: set(legacy)}, Options{}, nft},
		{"legacy has rules", machine{saves: map[string]string{legacy: rules, nft: ""}, legacy: set(legacy)}, Options{}, legacy},
		{"both have rules", machine{saves: map[string]string{legacy: rules, nft: rules}, legacy: set(legacy)}, Options{}, legacy},
		{"nft is broken", machine{saves: all, legacy: set(legacy), broken: set(nft)}, Options{}, legacy},
		{"legacy cannot be read", machine{saves: all, legacy: set(legacy), unreadable: set(legacy)}, Options{}, nft},
		{"only the plain name", machine{saves: map[string]string{plain: ""}}, Options{}, plain},
		{"plain only if nothing else", machine{saves: map[string]string{legacy: "", plain: rules}, legacy: set(legacy)}, Options{}, legacy},
		{"forced", machine{saves: all, legacy: set(legacy)}, Options{Variant: LegacyVariant}, legacy},
		{"forced and not there", machine{saves: map[string]string{nft: ""}}, Options{Variant: LegacyVariant}, "no iptables-legacy-save"},
		{"no ip6tables, not needed", machine{saves: all, legacy: set(legacy), noIPv6: set(nft)}, Options{}, nft},
		{"no ip6tables", machine{saves: all, legacy: set(legacy), noIPv6: set(nft)}, Options{IPv6: true}, legacy},
		{"nothing works", machine{saves: all, legacy: set(legacy), broken: set(nft, legacy)}, Options{}, "iptables-nft is not usable: the kernel has no such tables; iptables-legacy is not"},
		{"nothing installed", machine{}, Options{}, "no iptables-legacy-save; no iptables-nft-save; no iptables-save"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := Environment{Tools: c.machine, Log: slog.New(slog.DiscardHandler)}
			found, err := findXtables(t.Context(), c.options, env)
			var got string
			if err == nil {
				var x *xtables
				if x, err = selectXtables(t.Context(), found, Ruleset{Tables: []Table{{Family: IPv4, Name: tableNAT}}}); err == nil {
					got = x.name()
				}
			}
			if err != nil {
				got = err.Error()
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
