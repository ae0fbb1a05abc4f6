package iptables

import (
	"fmt"
	"strconv"
	"strings"
)

// Render returns rs as input for iptables-restore --noflush and ip6tables-restore --noflush: one
// transaction per table, with a comment that names the program. It applies to a network namespace
// without our rules.
//
// Rules have exactly the form in which iptables-save prints them, so that planned and existing
// rules can be compared line by line.
func Render(rs Ruleset) string {
	var b strings.Builder
	b.WriteString(rs.routingComment())
	for i, t := range rs.Tables {
		if i == 0 || rs.Tables[i-1].Family != t.Family {
			fmt.Fprintf(&b, "# %s-restore --noflush\n", iptablesProgram(t.Family))
		}
		b.WriteString(restoreInput(t.Name, listing{}, newListing(t)))
	}
	return b.String()
}

// RenderCommands returns rs as shell commands: the routing, and then for each table its chains and
// rules.
func RenderCommands(rs Ruleset) string {
	var b strings.Builder
	for _, d := range rs.Diverts {
		for _, c := range d.commands() {
			fmt.Fprintln(&b, c)
		}
	}
	for _, t := range rs.Tables {
		command := iptablesProgram(t.Family) + " -t " + t.Name
		for _, c := range t.Chains {
			if !c.isBuiltin() {
				fmt.Fprintf(&b, "%s -N %s\n", command, c.Name)
			}
		}
		for _, c := range t.Chains {
			for i, r := range c.First {
				fmt.Fprintf(&b, "%s -I %s %d %s\n", command, c.Name, i+1, r.iptables(t.Family))
			}
			for _, r := range c.Rules {
				fmt.Fprintf(&b, "%s -A %s %s\n", command, c.Name, r.iptables(t.Family))
			}
		}
	}
	return b.String()
}

// iptablesProgram returns the name of a family's iptables program.
func iptablesProgram(f Family) string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// routingComment returns the routing that the rules need, as comments.
func (rs Ruleset) routingComment() string {
	var b strings.Builder
	for _, d := range rs.Diverts {
		for _, c := range d.commands() {
			fmt.Fprintf(&b, "# %s\n", c)
		}
	}
	return b.String()
}

// commands returns the equivalent commands of ip(8).
func (d Divert) commands() []string {
	ip := fmt.Sprintf("ip -%d", d.Family)
	return []string{
		fmt.Sprintf("%s rule add fwmark %#x lookup %d", ip, d.Mark, d.Table),
		fmt.Sprintf("%s route add local default dev %s table %d", ip, loopbackInterface, d.Table),
	}
}

// iptables returns the rule as iptables-save prints it, without the chain.
func (r Rule) iptables(f Family) string {
	var w ruleWriter
	w.addAddress("-s", r.Src)
	w.addAddress("-d", r.Dst)
	w.addOption("-i", r.In)
	w.addOption("-o", r.Out)
	w.addOption("-p", string(r.Proto))
	w.addPorts(r)
	if len(r.States) > 0 {
		w.addOption("-m", "conntrack")
		w.addOption("--ctstate", joinComma(r.States))
	}
	w.mark("mark", r.Mark)
	w.mark("connmark", r.ConnMark)
	for _, o := range r.Owners {
		w.addOption("-m", "owner")
		w.addNot(o.Not)
		w.addOption("--"+string(o.By)+"-owner", strconv.FormatUint(uint64(o.ID), 10))
	}
	w.addVerdict(r.Then, f)
	return strings.Join(w, " ")
}

// ruleWriter collects the words of a rule's text.
type ruleWriter []string

// addOption adds a name and its value. It adds nothing if the value is empty.
func (w *ruleWriter) addOption(name, value string) {
	if value != "" {
		*w = append(*w, name, value)
	}
}

// addPorts adds the port conditions. A condition on one port repeats the protocol, as iptables-save
// does. Several destination ports use the multiport match.
func (w *ruleWriter) addPorts(r Rule) {
	if r.SPort != 0 {
		w.addOption("-m", string(r.Proto))
		w.addOption("--sport", strconv.Itoa(int(r.SPort)))
	}
	switch len(r.DPort.List) {
	case 0:
	case 1:
		w.addOption("-m", string(r.Proto))
		w.addNot(r.DPort.Not)
		w.addOption("--dport", joinComma(r.DPort.List))
	default:
		w.addOption("-m", "multiport")
		w.addNot(r.DPort.Not)
		w.addOption("--dports", joinComma(r.DPort.List))
	}
}

// mark adds a condition on a mark by the match module match, "mark" or "connmark". It adds nothing
// for the value 0.
func (w *ruleWriter) mark(match string, m Mark) {
	if m.Value != 0 {
		w.addOption("-m", match)
		w.addNot(m.Not)
		w.addOption("--mark", fmt.Sprintf("%#x", m.Value))
	}
}

// addVerdict adds the verdict with all parameters that iptables-save prints. An unknown action is
// RETURN.
func (w *ruleWriter) addVerdict(v Verdict, f Family) {
	const allBits = " --nfmask 0xffffffff --ctmask 0xffffffff"
	text := "RETURN"
	switch v.Action {
	case Return:
	case Jump:
		text = v.Chain
	case RedirectTo:
		text = fmt.Sprintf("REDIRECT --to-ports %d", v.Port)
	case TProxyTo:
		unspecified := "0.0.0.0"
		if f == IPv6 {
			unspecified = "::"
		}
		text = fmt.Sprintf("TPROXY --on-port %d --on-ip %s --tproxy-mark %#x/0xffffffff",
			v.Port, unspecified, v.Mark)
	case Accept:
		text = "ACCEPT"
	case Drop:
		text = "DROP"
	case SetMark:
		text = fmt.Sprintf("MARK --set-xmark %#x/0xffffffff", v.Mark)
	case SaveMark:
		text = "CONNMARK --save-mark" + allBits
	case RestoreMark:
		text = "CONNMARK --restore-mark" + allBits
	case SetZone:
		text = fmt.Sprintf("CT --zone %d", v.Zone)
	}
	w.addOption("-j", text)
}

// addNot adds "!" if negated is set.
func (w *ruleWriter) addNot(negated bool) {
	if negated {
		*w = append(*w, "!")
	}
}

// addAddress adds an address condition. Like iptables-save, it leaves out the range of all
// addresses. An invalid prefix adds nothing, too.
func (w *ruleWriter) addAddress(name string, n Net) {
	if n.Prefix.IsValid() && n.Prefix.Bits() > 0 {
		w.addNot(n.Not)
		w.addOption(name, n.Prefix.String())
	}
}

// joinComma returns the elements, formatted by fmt.Sprint, with a comma between them, or "" if
// there are none.
func joinComma[T any](list []T) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, ",")
}
