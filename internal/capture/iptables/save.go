package iptables

import (
	"slices"
	"strings"
)

// parseSave parses the output of iptables-save and returns our part of the table from: all chains
// named ISTIO_*, and of the kernel's chains the rules that are in wanted, jump to such a chain, or
// belong to such a jump (see ownLines). Chains are sorted, and builtin ones without such rules are
// left out.
func parseSave(text, from string, wanted listing) listing {
	chains := map[string][]string{}
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case table != from:
		case strings.HasPrefix(line, ":"):
			name, _, _ := strings.Cut(line[1:], " ")
			chains[name] = nil
		case strings.HasPrefix(line, "-A "):
			name, rule, _ := strings.Cut(line[len("-A "):], " ")
			chains[name] = append(chains[name], rule)
		}
	}
	var l listing
	for name, lines := range chains {
		entry := chainListing{name: name, lines: lines, builtin: !strings.HasPrefix(name, chainPrefix)}
		if entry.builtin {
			w, _ := wanted.chain(name)
			entry.lines = ownLines(lines, w.rules())
			if len(entry.lines) == 0 {
				continue
			}
		}
		l = append(l, entry)
	}
	slices.SortFunc(l, compareChains)
	return l
}

// compareChains orders the kernel's chains first, then by name.
func compareChains(a, b chainListing) int {
	if a.builtin != b.builtin {
		if a.builtin {
			return -1
		}
		return 1
	}
	return strings.Compare(a.name, b.name)
}

// ownLines returns our rules in a chain of the kernel: rules in wanted, and jumps to our chains. An
// earlier run with other options for -c or -k may have written a plain "-i eth1 -j RETURN". Such a
// line is taken as ours if it is adjacent to a rule of ours: it would continue to exempt its
// interface.
func ownLines(lines, wanted []string) []string {
	own := make([]bool, len(lines))
	for i, line := range lines {
		own[i] = slices.Contains(wanted, line) ||
			strings.Contains(line, "-j "+chainPrefix) || strings.Contains(line, "-g "+chainPrefix)
	}
	spread := func(i, from int) {
		if from >= 0 && from < len(own) && own[from] && returnsInterface(lines[i]) {
			own[i] = true
		}
	}
	for i := range lines {
		spread(i, i-1)
	}
	for i := len(lines) - 1; i >= 0; i-- {
		spread(i, i+1)
	}
	var picked []string
	for i, line := range lines {
		if own[i] {
			picked = append(picked, line)
		}
	}
	return picked
}

// returnsInterface reports whether a rule is exactly "-i NAME -j RETURN" or "-o NAME -j RETURN".
func returnsInterface(line string) bool {
	f := strings.Fields(line)
	return len(f) == 4 && (f[0] == "-i" || f[0] == "-o") && f[2] == "-j" && f[3] == "RETURN"
}
