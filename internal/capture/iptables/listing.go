package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// listing is what is ours in a table, as text, sorted by the names of the chains. An empty listing is a clean table.
type listing []chainListing

// chainListing is the part of a chain that is ours. Its lines are rules as iptables-save prints them, without the chain.
type chainListing struct {
	name    string
	builtin bool
	first   []string // to be inserted ahead of other rules; empty in a listing read from iptables-save
	lines   []string
}

// rules returns all lines, in order.
func (c chainListing) rules() []string { return slices.Concat(c.first, c.lines) }

func listingOf(t Table) listing {
	var l listing
	for _, c := range t.Chains {
		entry := chainListing{name: c.Name, builtin: c.builtin(), first: texts(c.First, t.Family), lines: texts(c.Rules, t.Family)}
		if entry.builtin && len(entry.rules()) == 0 {
			continue
		}
		l = append(l, entry)
	}
	return l
}

func texts(rules []Rule, f Family) []string {
	lines := make([]string, len(rules))
	for i, r := range rules {
		lines[i] = r.iptables(f)
	}
	return lines
}

// chain returns the entry of that name, which is empty if there is none.
func (l listing) chain(name string) (chainListing, bool) {
	i := slices.IndexFunc(l, func(c chainListing) bool { return c.name == name })
	if i < 0 {
		return chainListing{name: name}, false
	}
	return l[i], true
}

// transition returns the input for iptables-restore --noflush that turns have into want in a table, as one transaction: at no
// time is a packet met by part of the rules. With nothing to do it returns "".
func transition(table string, have, want listing) string {
	var declare, remove, add, drop []string
	for _, c := range want {
		if !c.builtin {
			// With --noflush this line creates the chain, or empties it if it is there.
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

// difference says how have differs from want, a line for each rule or chain that is only in one of them (- for have, + for
// want), or that rules are the same in another order. It is empty if, and only if, the two are alike.
func difference(have, want listing) []string {
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
		diff = append(diff, only("-A "+name+" ", "-", h.rules(), w.rules())...)
		diff = append(diff, only("-A "+name+" ", "+", w.rules(), h.rules())...)
		switch {
		case len(diff) > before:
		case present && wanted:
			diff = append(diff, "~ "+name+": other order or number of the same rules")
		case present:
			diff = append(diff, "-N "+name)
		default:
			diff = append(diff, "+N "+name)
		}
	}
	return diff
}

// only lists the lines of a that are not in b.
func only(prefix, sign string, a, b []string) []string {
	var lines []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			lines = append(lines, sign+" "+prefix+line)
		}
	}
	return lines
}
