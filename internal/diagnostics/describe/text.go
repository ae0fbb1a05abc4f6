package describe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// separator is the line between the parts of a description.
const separator = "--------------------\n"

// String returns the description as lines of text. Unknown values, and sections other than the
// authorization policies, are left out if empty.
func (d *Proxy) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Pod: %s (%s)\n", d.Name, d.Type)
	writeLine(&b, "   Addresses: ", strings.Join(d.Addresses, ", "))
	writeLine(&b, "   Labels: ", snapshot.SelectorText(d.Labels))
	writeLine(&b, "   Service account: ", d.Account)
	writeLine(&b, "   Envoy: ", d.Envoy)
	for _, s := range d.Services {
		b.WriteString(separator)
		s.write(&b)
	}
	for _, x := range d.Gateways {
		b.WriteString(separator)
		x.write(&b, "")
	}
	b.WriteString(separator)
	if d.MutualTLS != nil {
		d.MutualTLS.write(&b)
	}
	fmt.Fprintf(&b, "Authorization policies:%s\n", noneText(len(d.AuthorizationPolicies)))
	for _, p := range d.AuthorizationPolicies {
		dry := ""
		if p.DryRun {
			dry = ", dry run"
		}
		fmt.Fprintf(&b, "   %s %s.%s (%s%s)\n", p.Action, p.Name, p.Namespace, countText(p.Rules, "rule"), dry)
	}
	if len(d.Objects) > 0 {
		b.WriteString("Other objects that select the proxy:\n   " + strings.Join(d.Objects, "\n   ") + "\n")
	}
	writeWarnings(&b, d.Warnings)
	return b.String()
}

// write appends the modes, by port in the order of texts, and the objects that define them to b.
func (m *MutualTLS) write(b *strings.Builder) {
	b.WriteString("Effective PeerAuthentication:\n")
	fmt.Fprintf(b, "   Workload mTLS mode: %s\n", m.Mode)
	for _, port := range slices.Sorted(maps.Keys(m.Ports)) {
		fmt.Fprintf(b, "   Port %s mTLS mode: %s\n", port, m.Ports[port])
	}
	fmt.Fprintf(b, "Applied PeerAuthentication:%s\n", noneText(len(m.From)))
	for _, from := range m.From {
		fmt.Fprintf(b, "   %s\n", from)
	}
}

// String returns the description as lines of text.
func (d *Service) String() string {
	var b strings.Builder
	d.write(&b)
	return b.String()
}

// write appends the service with its ports, number of endpoints, DestinationRule, VirtualServices,
// Gateways and warnings to b.
func (d *Service) write(b *strings.Builder) {
	fmt.Fprintf(b, "Service: %s (%s, namespace %s)\n", d.Host, d.Registry, d.Namespace)
	writeLine(b, "   Addresses: ", strings.Join(d.Addresses, ", "))
	for _, p := range d.Ports {
		fmt.Fprintf(b, "   Port: %s %d/%s", p.Name, p.Number, p.Protocol)
		if p.Target != 0 {
			fmt.Fprintf(b, " targets pod port %d", p.Target)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "   Endpoints: %d, %d healthy", d.Endpoints, d.Healthy)
	if d.WithoutTLS > 0 {
		fmt.Fprintf(b, ", %d without mutual TLS", d.WithoutTLS)
	}
	b.WriteString("\n")
	if d.DestinationRule != nil {
		d.DestinationRule.write(b)
	}
	for _, vs := range d.VirtualServices {
		vs.write(b, d)
	}
	for _, x := range d.Gateways {
		x.write(b, "Exposed on ")
	}
	writeWarnings(b, d.Warnings)
}

// write appends the objects, the subsets with their number of endpoints, the TLS mode and the
// policy of the rule to b.
func (r *DestinationRule) write(b *strings.Builder) {
	b.WriteString(objectsText(r.From) + "\n")
	for _, s := range r.Subsets {
		match := ""
		if s.Matches {
			match = ", matches this pod"
		}
		fmt.Fprintf(b, "   Subset: %s (%s): %s%s\n", s.Name, snapshot.SelectorText(s.Labels),
			countText(s.Endpoints, "endpoint"), match)
	}
	writeLine(b, "   TLS mode: ", r.TLS)
	writeLine(b, "   Traffic policy: ", cmp.Or(strings.Join(r.Policy, ", "), "none"))
}

// write appends the objects, hosts, gateways and routes to b. A route without a name is named by
// its field, and a destination with the host of d is written as "this service".
func (v *VirtualService) write(b *strings.Builder, d *Service) {
	b.WriteString(objectsText(v.From) + "\n")
	fmt.Fprintf(b, "   Hosts: %s; gateways: %s\n", strings.Join(v.Hosts, ", "), strings.Join(v.Gateways, ", "))
	for _, r := range v.Routes {
		fmt.Fprintf(b, "   Route %s: %s", cmp.Or(r.Name, r.Field), cmp.Or(r.Match, "all"))
		if r.Action != "" {
			fmt.Fprintf(b, " -> %s", r.Action)
		}
		var targets []string
		for _, dest := range r.Destinations {
			targets = append(targets, dest.text(d.Host, len(r.Destinations) > 1))
		}
		if len(targets) > 0 {
			fmt.Fprintf(b, " -> %s", strings.Join(targets, ", "))
		}
		b.WriteString("\n")
	}
}

// objectsText returns objects of one kind, KIND/NAMESPACE/NAME, as "KIND: NAME.NAMESPACE, …". It
// panics for names of another form.
func objectsText(list []string) string {
	kind, names := "", []string(nil)
	for _, text := range list {
		parts := strings.SplitN(text, "/", 3) //nolint:mnd // see above
		kind = parts[0]
		names = append(names, parts[2]+"."+parts[1])
	}
	return kind + ": " + strings.Join(names, ", ")
}

// text returns the host, subset and port of a destination. A host that equals host is "this
// service"; the weight is added if weighted is set.
func (d Destination) text(host string, weighted bool) string {
	text := d.Host
	if d.Host == host {
		text = "this service"
	}
	if d.Subset != "" {
		text += " subset " + d.Subset
	}
	if d.Port != 0 {
		text += " port " + strconv.FormatUint(uint64(d.Port), 10)
	}
	if weighted {
		text += " weight " + strconv.Itoa(int(d.Weight))
	}
	return text
}

// write writes prefix and the server of a Gateway, with its addresses and VirtualServices.
func (x Exposure) write(b *strings.Builder, prefix string) {
	fmt.Fprintf(b, "%s%s port %d/%s, hosts %s\n", prefix, x.Gateway, x.Port, x.Protocol, strings.Join(x.Hosts, ", "))
	writeLine(b, "   Addresses: ", strings.Join(x.Addresses, ", "))
	writeLine(b, "   VirtualServices: ", strings.Join(x.VirtualServices, ", "))
}

// writeWarnings writes a line for each warning.
func writeWarnings(b *strings.Builder, list []string) {
	for _, w := range list {
		fmt.Fprintf(b, "WARNING: %s\n", w)
	}
}

// writeLine writes a line unless the text is empty.
func writeLine(b *strings.Builder, prefix, text string) {
	if text != "" {
		b.WriteString(prefix + text + "\n")
	}
}

// noneText returns " none" if n is 0, and otherwise "".
func noneText(n int) string {
	if n == 0 {
		return " none"
	}
	return ""
}

// countText returns the number with its noun, in the plural unless n is 1.
func countText(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
