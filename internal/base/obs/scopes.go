package obs

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Scope is a log scope in the form of ControlZ and the debug pages.
type Scope struct {
	Name            string `json:"name"`
	Description     string `json:"description"`
	OutputLevel     string `json:"output_level"`
	StackTraceLevel string `json:"stack_trace_level"`
	LogCallers      bool   `json:"log_callers"`
}

// describeScope returns the description of a scope, "" for an unknown scope.
func describeScope(scope string) string {
	switch scope {
	case DefaultScope:
		return "Start, stop and whatever has no scope of its own."
	case "ads":
		return "Connections of proxies, their requests and responses."
	case "model":
		return "Sources and the snapshot of the mesh made of them, and what is wrong with objects."
	case "analysis":
		return "Configuration that has no effect."
	case "file":
		return "Configuration from files."
	default:
		return otherScopes()[scope]
	}
}

// otherScopes describes the scopes of parts that only some control planes have.
func otherScopes() map[string]string {
	return map[string]string{
		"adsc":          "Configuration over xDS from another server.",
		"autoregister":  "WorkloadEntries of machines that register, and their health.",
		"ca":            "The mesh's certificate authority: roots, issued certificates, and unauthenticated callers.",
		"consul":        "What is read from Consul.",
		"event":         "Events that are written on objects.",
		"feed":          "Configuration over xDS for other control planes.",
		"injection":     "Injection of sidecars into pods.",
		"kube":          "What is read from API servers.",
		"platform":      "What is read from platforms such as ZooKeeper.",
		"leader":        "Which replica leads which task.",
		"gateway":       "Deployment of gateways, and their GatewayClasses.",
		"multicluster":  "Remote clusters and their Secrets.",
		"secrets":       "Certificates of gateways, from Secrets.",
		"security":      "Keys of token issuers.",
		"serviceexport": "Exports of services to other clusters.",
		"status":        "Conditions that are written to objects.",
		"validation":    "Objects that are rejected before they are stored.",
		"webhooks":      "The webhooks' server, and their configurations in the API server.",
	}
}

// levelName returns the name of the lowest named level that is not below l, or "none" if l is above
// error.
func levelName(l slog.Level) string {
	for _, name := range []string{"debug", "info", "warn", "error"} {
		if known, err := parseLevel(name); err == nil && l <= known {
			return name
		}
	}
	return "none"
}

// Scopes returns the existing scopes with their levels, sorted by name.
func (l *Logs) Scopes() []Scope {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Scope, 0, len(l.levels))
	for name, level := range l.levels {
		list = append(list, Scope{
			Name: name, Description: describeScope(name), OutputLevel: levelName(level.Level()),
			StackTraceLevel: "none",
		})
	}
	slices.SortFunc(list, func(a, b Scope) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// maxLevelRequest bounds the body of a request that sets a level, in bytes.
const maxLevelRequest = 4 << 10

// ControlZ returns the part of Istio's introspection port that istioctl admin log uses. GET
// /scopej/ lists the scopes, GET /scopej/NAME returns one, and PUT /scopej/NAME with
// {"output_level": "debug"} sets its level. An unknown scope or level is 400. It must be served on
// loopback only: another Host header is refused with 403, to prevent DNS rebinding.
func (l *Logs) ControlZ() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /scopej/{$}", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, l.Scopes()) })
	mux.HandleFunc("GET /scopej", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, l.Scopes()) })
	mux.HandleFunc("GET /scopej/{scope}", func(w http.ResponseWriter, r *http.Request) {
		list := l.Scopes()
		i := slices.IndexFunc(list, func(s Scope) bool { return s.Name == r.PathValue("scope") })
		if i < 0 {
			http.Error(w, "unknown scope name: "+r.PathValue("scope"), http.StatusBadRequest)
			return
		}
		writeJSON(w, list[i])
	})
	mux.HandleFunc("PUT /scopej/{scope}", l.putScope)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopbackHost(r.Host) {
			http.Error(w, "only requests from localhost are allowed", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// putScope sets the level of the scope in the path, and responds with 202. It responds with 400 for
// an invalid body or an unknown scope or level.
func (l *Logs) putScope(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("scope")
	var want Scope
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLevelRequest)).Decode(&want); err != nil {
		http.Error(w, "unable to decode request: "+err.Error(), http.StatusBadRequest)
		return
	}
	if !slices.ContainsFunc(l.Scopes(), func(s Scope) bool { return s.Name == name }) {
		http.Error(w, "unknown scope name: "+name, http.StatusBadRequest)
		return
	}
	if err := l.setScopeLevel(name, want.OutputLevel); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// setScopeLevel sets the level of one scope. DefaultScope is a scope like any other here. It does
// nothing for an unknown scope, and returns an error for an unknown level.
func (l *Logs) setScopeLevel(scope, level string) error {
	parsed, err := parseLevel(level)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.levels[scope]; v != nil {
		v.Set(parsed)
	}
	return nil
}

// isLoopbackHost reports whether a Host header, with or without a port, is "localhost" in lower
// case or a loopback address.
func isLoopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else if h, found := strings.CutPrefix(host, "["); found {
		host = strings.TrimSuffix(h, "]") // an IPv6 address without a port
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// writeJSON writes v as a JSON response with status 200.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails if the client has disconnected
}
