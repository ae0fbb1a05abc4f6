package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// listing is our part of a table as text, sorted by chain name. It is empty if there are no rules
// of ours.
type listing []chainListing

// chainListing is our part of a chain. Its lines are rules as iptables-save prints them, without
// the chain.
type chainListing struct {
	name    string
	builtin bool
	first   []string // inserted before other rules; empty in a listing parsed from iptables-save
	lines   []string
}

// rules returns all lines, in order.
func (c chainListing) rules() []string { return slices.Concat(c.first, c.lines) }

// newListing returns the listing of a planned table. Builtin chains without rules are left out.
// Chains of ours are there even without rules.
func newListing(t Table) listing {
	var l listing
	for _, c := range t.Chains {
		entry := chainListing{
			name: c.Name, builtin: c.isBuiltin(),
			first: renderRules(c.First, t.Family), lines: renderRules(c.Rules, t.Family),
		}
		if entry.builtin && len(entry.rules()) == 0 {
			continue
		}
		l = append(l, entry)
	}
	return l
}

// renderRules returns the rules as iptables-save prints them, in order.
func renderRules(rules []Rule, f Family) []string {
	lines := make([]string, len(rules))
	for i, r := range rules {
		lines[i] = r.iptables(f)
	}
	return lines
}

// chain returns the entry of a chain, or an empty one and false if there is none.
func (l listing) chain(name string) (chainListing, bool) {
	i := slices.IndexFunc(l, func(c chainListing) bool { return c.name == name })
	if i < 0 {
		return chainListing{name: name}, false
	}
	return l[i], true
}

// restoreInput returns input for iptables-restore --noflush that changes a table from have to want
// in one transaction, so that no packet sees a part of the rules. Its commands remove and add all
// rules, even if both are equal. It returns "" if both are empty.
func restoreInput(table string, have, want listing) string {
	var declare, remove, add, drop []string
	for _, c := range want {
		if !c.builtin {
			// With --noflush this line creates the chain or flushes an existing one.
			declare = append(declare, fmt.Sprintf(":%s - [0:0]", c.name))
		}
		for i, line := range c.first {
			add = append(add, fmt.Sprintf("-I %s %d %s", c.name, i+1, line))
		}
		for _, line := range c.lines {
			add = append(add, fmt.Sprintf("-A %s %s", c.name, line))
		}
	}
	for _, c := range have {
		if c.builtin {
			for _, line := range c.rules() {
				remove = append(remove, fmt.Sprintf("-D %s %s", c.name, line))
			}
		} else if _, stays := want.chain(c.name); !stays {
			declare = append(declare, fmt.Sprintf(":%s - [0:0]", c.name))
			drop = append(drop, "-X "+c.name)
		}
	}
	body := slices.Concat(declare, remove, add, drop)
	if len(body) == 0 {
		return ""
	}
	return "*" + table + "\n" + strings.Join(body, "\n") + "\nCOMMIT\n"
}

// diffListings returns a line for each rule or chain that is only in have (-) or only in want (+),
// or that states that the same rules are in another order. It returns nothing if, and only if, both
// are equal. Chains are sorted by name.
func diffListings(have, want listing) []string {
	names := map[string]bool{}
	for _, c := range slices.Concat(have, want) {
		names[c.name] = true
	}
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		h, present := have.chain(name)
		w, wanted := want.chain(name)
		if slices.Equal(h.rules(), w.rules()) && present == wanted {
			continue
		}
		before := len(diff)
		diff = append(diff, diffLines("-A "+name+" ", "-", h.rules(), w.rules())...)
		diff = append(diff, diffLines("-A "+name+" ", "+", w.rules(), h.rules())...)
		switch {
		case len(diff) > before:
		case present && wanted:
			diff = append(diff, "~ "+name+": the same rules in another order or number")
		case present:
			diff = append(diff, "-N "+name)
		default:
			diff = append(diff, "+N "+name)
		}
	}
	return diff
}

// diffLines returns the lines of a that are not in b, with sign and prefix, or nil.
func diffLines(prefix, sign string, a, b []string) []string {
	var lines []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			lines = append(lines, sign+" "+prefix+line)
		}
	}
	return lines
}
