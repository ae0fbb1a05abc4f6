package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shownDomains is the maximum number of domains that the table shows of a virtual host.
const shownDomains = 2

// routeTable returns the route configurations named s.name, or all if it is empty, with one row per
// route. Virtual hosts without routes have none. Of more than shownDomains domains, the others are
// only counted.
func routeTable(d *dump, s selection) answer {
	x := answer{header: "NAME\tVHOST NAME\tDOMAINS\tMATCH\tVIRTUAL SERVICE", none: "no routes"}
	list := []json.RawMessage{}
	for _, r := range d.Routes {
		if s.name != "" && r.Name != s.name {
			continue
		}
		list = append(list, r.raw)
		for _, h := range r.VirtualHosts {
			domains := strings.Join(h.Domains[:min(len(h.Domains), shownDomains)], ", ")
			if more := len(h.Domains) - shownDomains; more > 0 {
				domains += fmt.Sprintf(" + %d more...", more)
			}
			for _, route := range h.Routes {
				x.rows = append(
					x.rows,
					[]string{r.Name, h.Name, domains, matchText(route.Match), route.Metadata.objectName()},
				)
			}
		}
	}
	x.whole = list
	return x
}

// matchText describes the requests that a route matches: the path as a pattern, and whether headers
// or query parameters are matched too. A prefix ends in "/*", an exact path does not, and a regular
// expression is "regex TEXT". Any other path match, or none, is "/*".
func matchText(m map[string]any) string {
	text := "/*"
	for _, key := range []string{"prefix", "pathSeparatedPrefix", "path", "safeRegex"} {
		switch v := m[key].(type) {
		case string:
			text = v
			if key != "path" {
				text = strings.TrimSuffix(v, "/") + "/*"
			}
		case map[string]any:
			text = fmt.Sprintf("regex %v", v["regex"])
		}
	}
	var more []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key == "headers" || key == "queryParameters" {
			more = append(more, key)
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text
}
