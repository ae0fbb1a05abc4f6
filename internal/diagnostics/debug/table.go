package debug

import (
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
)

// page is one entry of the table of pages.
type page struct {
	name     string // below /debug/
	audience audience
	help     string
	answer   func(question) (answer, error)
	// changes reports whether a query changes state and therefore requires POST. If nil, the page
	// is read-only.
	changes func(url.Values) bool
	// variants are queries with a separate line in the index.
	variants []string
}

// pageTable returns the table of pages, sorted by name. Workloads may read only config_dump, edsz,
// explain and ndsz; the other pages are for operators. adsz with ?push, cachez with ?clear and
// force_disconnect require POST. force_disconnect is there only if streams can be closed.
func (p *Pages) pageTable() []page {
	list := []page{
		{"adsz", operators, "connected proxies and their subscriptions; POST ?push=true sends all resources again",
			p.adsz, hasParameter("push"), []string{"push=true"}},
		{"authorizationz", operators, "authorization policies by namespace", p.authorizationz, nil, nil},
		{"cachez", operators, "generated resources in use, by type; ?sizes=true their bytes", p.cachez,
			hasParameter("clear"), []string{"sizes=true", "clear=true"}},
		{"clusterz", operators, "clusters that services are read from", p.clusterz, nil, nil},
		{"config_dump", owners, "configuration sent to a proxy, in the format of Envoy's config_dump (?proxyID=)",
			p.configDump, nil, nil},
		{"configz", operators, "all config objects", p.configz, nil, nil},
		{"connections", operators, "connected proxies and where they connect from", p.connectionsPage, nil, nil},
		{"describe", operators, "services, rules and policies of a proxy (?proxyID=) or a service (?service=); ?text as text",
			p.describePage, nil, nil},
		{"ecdsz", operators, "extension configurations sent to a proxy (?proxyID=)", p.typedPage("ecds"), nil, nil},
		{"edsz", owners, "endpoints sent to a proxy (?proxyID=)", p.typedPage("eds"), nil, nil},
		{"endpointShardz", operators, "all endpoints by service and by source", p.endpointShardz, nil, nil},
		{"endpointz", operators, "all endpoints by service and port; ?brief as lines of text", p.endpointz, nil, nil},
		{"explain", owners, "where a proxy sends a call, and which objects decide it (?proxyID=&url=)", p.explainPage,
			nil, nil},
		{"inject", operators, "injection templates", p.injectPage, nil, nil},
		{"instancesz", operators, "the service ports that each connected proxy serves", p.instancesz, nil, nil},
		{"krtz", operators, "content of the current snapshot, by collection", p.krtz, nil, nil},
		{"list", operators, "the names of all pages", p.pageNames, nil, nil},
		{"mcsz", operators, "services of the Kubernetes multi-cluster services API", p.mcsz, nil, nil},
		{"mesh", operators, "the mesh configuration in use", p.meshPage, nil, nil},
		{"nackz", operators, "resources that proxies rejected, with the reason, the time and the source objects",
			p.nackz, nil, nil},
		{"ndsz", owners, "name table sent to a proxy (?proxyID=)", p.typedPage("nds"), nil, nil},
		{"networkz", operators, "gateways between networks", p.networkz, nil, nil},
		{"problemz", operators, "invalid or ignored fields of config objects", p.problemz, nil, nil},
		{"push_status", operators, "problems found when the current snapshot was pushed", p.pushStatus, nil, nil},
		{"pushcontext", operators, "authorization policies and network gateways of the current state", p.pushContext,
			nil, nil},
		{"registryz", operators, "all services", p.registryz, nil, nil},
		{"resourcesz", operators, "the kinds of config objects that are read", p.resourcesz, nil, nil},
		{"scopez", operators, "log scopes and their levels", p.scopez, nil, nil},
		{"sidecarz", operators, "services and rules visible to a proxy (?proxyID=)", p.sidecarz, nil, nil},
		{"syncz", operators, "per proxy and type: version sent and version acknowledged", p.syncz, nil, nil},
		{"telemetryz", operators, "Telemetry objects by namespace; ?proxyID= those of a proxy", p.telemetryz, nil, nil},
	}
	if p.Disconnect != nil {
		list = append(
			list,
			page{"force_disconnect", operators, "closes a proxy's stream; the proxy reconnects (POST ?proxyID=)",
				p.forceDisconnect, alwaysChanges, nil},
		)
	}
	slices.SortFunc(list, func(a, b page) int { return strings.Compare(a.name, b.name) })
	return list
}

// hasParameter returns a function that reports whether a query has a non-empty value for the
// parameter.
func hasParameter(name string) func(url.Values) bool {
	return func(q url.Values) bool { return q.Get(name) != "" }
}

// alwaysChanges returns true for every query: each request of the page changes state.
func alwaysChanges(url.Values) bool { return true }

// entry is a line of the index.
type entry struct{ Path, Help string }

// indexEntries returns the lines of the index: each page and its variants, and pprof if enabled.
func (p *Pages) indexEntries() []entry {
	var list []entry
	for _, x := range p.table {
		list = append(list, entry{"/debug/" + x.name, x.help})
		for _, v := range x.variants {
			list = append(list, entry{"/debug/" + x.name + "?" + v, ""})
		}
	}
	if p.Profile {
		list = append(list, entry{"/debug/pprof/", "profiles of the control plane itself"})
	}
	return list
}

// indexPage serves the HTML list of all pages.
func (p *Pages) indexPage(question) (answer, error) {
	var b strings.Builder
	b.WriteString(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>meshpilot debug pages</title>
<style>body{font-family:system-ui,sans-serif;margin:2rem}td{padding:.2rem 1.5rem .2rem 0;vertical-align:top}</style>
<h1>meshpilot debug pages</h1><p>Add <b>pretty</b> to the query for indented JSON.</p><table>
`)
	for _, e := range p.indexEntries() {
		path := html.EscapeString(e.Path)
		fmt.Fprintf(&b, "<tr><td><a href='%s'>%s</a></td><td>%s</td></tr>\n", path, path, html.EscapeString(e.Help))
	}
	b.WriteString("</table></html>\n")
	return answer{"text/html; charset=utf-8", []byte(b.String())}, nil
}

// pageNames serves the names that istioctl x internal-debug accepts: all of the index except the
// list itself and pprof. Variants with a query are included.
func (p *Pages) pageNames(q question) (answer, error) {
	list := []string{}
	for _, e := range p.indexEntries() {
		name := strings.TrimPrefix(e.Path, "/debug/")
		if name != "list" && !strings.HasPrefix(name, "pprof") {
			list = append(list, name)
		}
	}
	return jsonAnswer(q, list)
}
