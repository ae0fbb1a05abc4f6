package debug

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/view"
)

// Options are what the pages show.
type Options struct {
	// Snapshot gives the current one.
	Snapshot func() *snapshot.Snapshot
	// Analysis gives what is wrong or not honoured in the current config beyond what its sources found.
	Analysis func() []config.Problem
	// Conflicts gives what services and rules do not get in one View because others have it.
	Conflicts func(v *view.View) []config.Problem
	Proxies   Proxies
	// Push asks for a push to all proxies of all they have (adsz?push=true).
	Push func()
}

// page is one line of the index.
type page struct {
	path, help string
	handler    http.HandlerFunc
}

type pages struct {
	Options
	list []page
}

// New makes the handler of everything under /debug.
func New(o Options) http.Handler {
	p := &pages{Options: o}
	p.list = []page{
		{"/debug/adsz", "connected proxies and what they watch (?push=true sends them everything again)", p.adsz},
		{"/debug/syncz", "per proxy and type: what was sent and what was acknowledged", p.syncz},
		{"/debug/connections", "how many proxies of which version are connected, and from where", p.connections},
		{"/debug/config_dump", "what a proxy was sent, in the form of Envoy's config_dump (?proxyID=name.namespace)", p.configDump},
		{"/debug/edsz", "the endpoints that a proxy was sent (?proxyID=name.namespace)", p.edsz},
		{"/debug/nackz", "what proxies refused: which resource, why, and the objects it came from", p.nackz},
		{"/debug/problemz", "what is wrong with config objects or not honoured yet", p.problemz},
		{"/debug/push_status", "what came up in the last push", p.pushStatus},
		{"/debug/registryz", "all services", p.registryz},
		{"/debug/endpointz", "all endpoints by service and port", p.endpointz},
		{"/debug/endpointShardz", "all endpoints by service and the object that lists them", p.endpointShardz},
		{"/debug/configz", "all config objects", p.configz},
		{"/debug/mesh", "the mesh configuration in use", p.mesh},
		{"/debug/networkz", "the mesh networks in use", p.networkz},
	}
	mux := http.NewServeMux()
	for _, x := range p.list {
		mux.HandleFunc(x.path, readOnly(x.handler))
	}
	mux.HandleFunc("/debug", readOnly(p.index))
	mux.HandleFunc("/debug/{$}", readOnly(p.index))
	mux.HandleFunc("/debug/list", readOnly(p.names))
	return mux
}

// readOnly refuses everything but GET and HEAD.
func readOnly(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "debug pages are read with GET", http.StatusMethodNotAllowed)
			return
		}
		h(w, r)
	}
}

var indexPage = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>meshpilot debug pages</title>
<style>body{font-family:system-ui,sans-serif;margin:2rem}td{padding:.2rem 1.5rem .2rem 0;vertical-align:top}</style>
<h1>meshpilot debug pages</h1><table>
{{range .}}<tr><td><a href="{{.Path}}">{{.Path}}</a><td>{{.Help}}
{{end}}</table></html>
`))

func (p *pages) index(w http.ResponseWriter, _ *http.Request) {
	type row struct{ Path, Help string }
	var rows []row
	for _, x := range p.list {
		rows = append(rows, row{x.path, x.help})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = indexPage.Execute(w, rows) // the client went away
}

func (p *pages) names(w http.ResponseWriter, _ *http.Request) {
	var names []string
	for _, x := range p.list {
		names = append(names, x.path)
	}
	writeJSON(w, names)
}

// writeJSON answers with a value as indented JSON; an empty list is [] and not null.
func writeJSON[T any](w http.ResponseWriter, v T) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, fmt.Sprintf("write answer: %v", err), http.StatusInternalServerError)
		return
	}
	if string(b) == "null" {
		b = []byte("[]")
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n')) // the client went away
}
