package debug

import (
	"bytes"
	"fmt"
	"html/template"
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

// all returns the table of pages, sorted by name.
func (p *Pages) all() []page {
	list := []page{
		{"adsz", operators, "connected proxies and what they watch; POST ?push=true sends them everything again", p.adsz, asks("push"), []string{"push=true"}},
		{"authorizationz", operators, "authorization policies by namespace", p.authorizationz, nil, nil},
		{"cachez", operators, "generated resources that are held, by type; ?sizes=true their bytes", p.cachez, asks("clear"), []string{"sizes=true", "clear=true"}},
		{"clusterz", operators, "clusters that services are read from", p.clusterz, nil, nil},
		{"config_dump", owners, "what a proxy was sent, in the form of Envoy's config_dump (?proxyID=)", p.configDump, nil, nil},
		{"configz", operators, "all config objects", p.configz, nil, nil},
		{"connections", operators, "connected proxies and where they connect from", p.connections, nil, nil},
		{"ecdsz", operators, "the extension configurations that a proxy was sent (?proxyID=)", p.typed("ecds"), nil, nil},
		{"edsz", owners, "the endpoints that a proxy was sent (?proxyID=)", p.typed("eds"), nil, nil},
		{"endpointShardz", operators, "all endpoints by service and by who says so", p.endpointShardz, nil, nil},
		{"endpointz", operators, "all endpoints by service and port; ?brief as lines of text", p.endpointz, nil, nil},
		{"explain", owners, "where a call of a proxy goes, and which objects decide it (?proxyID=&url=)", p.explain, nil, nil},
		{"inject", operators, "injection templates", p.inject, nil, nil},
		{"instancesz", operators, "the service ports that each connected proxy serves", p.instancesz, nil, nil},
		{"krtz", operators, "what the current snapshot holds, by collection", p.krtz, nil, nil},
		{"list", operators, "the names of all pages", p.names, nil, nil},
		{"mcsz", operators, "services of the Kubernetes multi-cluster services API", p.mcsz, nil, nil},
		{"mesh", operators, "the mesh configuration in use", p.mesh, nil, nil},
		{"nackz", operators, "what proxies refused: which resource, why, since when, and the objects it came from", p.nackz, nil, nil},
		{"ndsz", owners, "the table of names that a proxy was sent (?proxyID=)", p.typed("nds"), nil, nil},
		{"networkz", operators, "gateways between networks", p.networkz, nil, nil},
		{"problemz", operators, "what is wrong with config objects or not honoured", p.problemz, nil, nil},
		{"push_status", operators, "what came up when the current state was pushed", p.pushStatus, nil, nil},
		{"pushcontext", operators, "authorization policies and network gateways of the current state", p.pushContext, nil, nil},
		{"registryz", operators, "all services", p.registryz, nil, nil},
		{"resourcesz", operators, "the kinds of config objects that are read", p.resourcesz, nil, nil},
		{"scopez", operators, "log scopes and their levels", p.scopez, nil, nil},
		{"sidecarz", operators, "what a proxy sees of the mesh (?proxyID=)", p.sidecarz, nil, nil},
		{"syncz", operators, "per proxy and type: what was sent and what was acknowledged", p.syncz, nil, nil},
		{"telemetryz", operators, "Telemetry objects by namespace; ?proxyID= those of a proxy", p.telemetryz, nil, nil},
	}
	if p.Disconnect != nil {
		list = append(list, page{"force_disconnect", operators, "ends a proxy's stream; it connects again (POST ?proxyID=)", p.forceDisconnect, always, nil})
	}
	slices.SortFunc(list, func(a, b page) int { return strings.Compare(a.name, b.name) })
	return list
}

// asks returns a function that reports whether a query has a non-empty value for the parameter.
func asks(name string) func(url.Values) bool {
	return func(q url.Values) bool { return q.Get(name) != "" }
}

// always reports that every query changes state.
func always(url.Values) bool { return true }

// entry is a line of the index.
type entry struct{ Path, Help string }

// entries returns the lines of the index: each page and its variants, and pprof if enabled.
func (p *Pages) entries() []entry {
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

// newIndexTemplate returns the HTML template of the index.
func newIndexTemplate() *template.Template {
	return template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>meshpilot debug pages</title>
<style>body{font-family:system-ui,sans-serif;margin:2rem}td{padding:.2rem 1.5rem .2rem 0;vertical-align:top}</style>
<h1>meshpilot debug pages</h1><p>Add <b>pretty</b> to the query for indented JSON.</p><table>
{{range .}}<tr><td><a href='{{.Path}}'>{{.Path}}</a></td><td>{{.Help}}</td></tr>
{{end}}</table></html>
`))
}

// index serves the HTML list of all pages.
func (p *Pages) index(question) (answer, error) {
	var b bytes.Buffer
	if err := newIndexTemplate().Execute(&b, p.entries()); err != nil {
		return answer{}, fmt.Errorf("write the index: %w", err)
	}
	return answer{"text/html; charset=utf-8", b.Bytes()}, nil
}

// names serves the names that istioctl x internal-debug accepts.
func (p *Pages) names(q question) (answer, error) {
	list := []string{}
	for _, e := range p.entries() {
		name := strings.TrimPrefix(e.Path, "/debug/")
		if name != "list" && !strings.HasPrefix(name, "pprof") {
			list = append(list, name)
		}
	}
	return written(q, list)
}
