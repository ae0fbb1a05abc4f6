package iptables

import (
	"fmt"
	"strconv"
	"strings"
)

// Render returns rs as input for iptables-restore --noflush and ip6tables-restore --noflush: one transaction for each family,
// under a comment that says which program it is for. It is what a clean network namespace is given.
//
// Rules are written in the very form in which iptables-save prints them, so that wanted and present rules can be compared
// line by line.
func Render(rs Ruleset) string {
	var b strings.Builder
	for _, t := range rs.Tables {
		fmt.Fprintf(&b, "# %s-restore --noflush\n", program(t.Family))
		b.WriteString(transition(listing{}, listingOf(t)))
	}
	return b.String()
}

// program is the name of a family's iptables program.
func program(f Family) string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// String is the rule as iptables-save prints it, without the chain.
func (r Rule) String() string {
	var w words
	w.address("-s", r.Src)
	w.address("-d", r.Dst)
	w.option("-i", r.In)
	w.option("-o", r.Out)
	w.option("-p", string(r.Proto))
	if r.DPort.Number != 0 {
		w.option("-m", string(r.Proto))
		w.not(r.DPort.Not)
		w.option("--dport", strconv.Itoa(int(r.DPort.Number)))
	}
	if r.Mark.Value != 0 {
		w.option("-m", "mark")
		w.not(r.Mark.Not)
		w.option("--mark", fmt.Sprintf("%#x", r.Mark.Value))
	}
	for _, o := range r.Owners {
		w.option("-m", "owner")
		w.not(o.Not)
		w.option("--"+string(o.By)+"-owner", strconv.FormatUint(uint64(o.ID), 10))
	}
	switch {
	case r.Then.RedirectTo != 0:
		w.option("-j", "REDIRECT")
		w.option("--to-ports", strconv.Itoa(int(r.Then.RedirectTo)))
	case r.Then.Jump != "":
		w.option("-j", r.Then.Jump)
	default:
		w.option("-j", "RETURN")
	}
	return strings.Join(w, " ")
}

// words are the parts of a rule's text.
type words []string

// option adds a name and its value, or nothing if there is no value.
func (w *words) option(name, value string) {
	if value != "" {
		*w = append(*w, name, value)
	}
}

func (w *words) not(negated bool) {
	if negated {
		*w = append(*w, "!")
	}
}

// address leaves out the range of all addresses, as iptables-save does.
func (w *words) address(name string, n Net) {
	if n.Prefix.IsValid() && n.Prefix.Bits() > 0 {
		w.not(n.Not)
		w.option(name, n.Prefix.String())
	}
}

// joinComma is the text of a list as flags have it.
func joinComma[T any](list []T) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, ",")
}
