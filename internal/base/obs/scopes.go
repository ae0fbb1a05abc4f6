package obs

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
)

// Scope is a log scope as ControlZ and the debug pages show it.
type Scope struct {
	Name            string `json:"name"`
	Description     string `json:"description"`
	OutputLevel     string `json:"output_level"`
	StackTraceLevel string `json:"stack_trace_level"`
	LogCallers      bool   `json:"log_callers"`
}

// describe says what a scope logs.
func describe(scope string) string {
	switch scope {
	case DefaultScope:
		return "Start, stop and whatever has no scope of its own."
	case "ads":
		return "Connections of proxies, what they ask for and what they are sent."
	case "model":
		return "Sources and the snapshot of the mesh made of them, and what is wrong with objects."
	case "analysis":
		return "What the configuration asks for and does not get."
	case "file":
		return "Configuration from files."
	default:
		return described()[scope]
	}
}

// described has the scopes of the parts that only some control planes have.
func described() map[string]string {
	return map[string]string{
		"adsc":          "Configuration over xDS from another server.",
		"autoregister":  "WorkloadEntries of machines that register, and their health.",
		"ca":            "The mesh's authority: roots, certificates that are signed, and callers who prove nothing.",
		"feed":          "Configuration over xDS for other control planes.",
		"injection":     "Sidecars that are put into pods.",
		"kube":          "What is read from API servers.",
		"leader":        "Which replica leads which task.",
		"multicluster":  "Remote clusters and their Secrets.",
		"secrets":       "Certificates of gateways, from Secrets.",
		"security":      "Keys of token issuers.",
		"serviceexport": "Exports of services to other clusters.",
		"status":        "Conditions that are written to objects.",
		"validation":    "Objects that are refused before they are stored.",
		"webhooks":      "The webhooks' server, and their configurations in the API server.",
	}
}

func levelName(l slog.Level) string {
	for _, name := range []string{"debug", "info", "warn", "error"} {
		if known, err := parseLevel(name); err == nil && l <= known {
			return name
		}
	}
	return "none"
}

// Scopes gives the scopes that exist with their levels, sorted by name.
func (l *Logs) Scopes() []Scope {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Scope, 0, len(l.levels))
	for name, level := range l.levels {
		list = append(list, Scope{Name: name, Description: describe(name), OutputLevel: levelName(level.Level()), StackTraceLevel: "none"})
	}
	slices.SortFunc(list, func(a, b Scope) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// maxLevelRequest bounds the body of a request that sets a level.
const maxLevelRequest = 4 << 10

// ControlZ is the part of Istio's introspection port that istioctl admin log uses: GET /scopej/ lists the scopes, GET
// /scopej/NAME gives one, and PUT /scopej/NAME with {"output_level": "debug"} sets its level. It is to be served on the
// loopback interface only; a browser there that was led to it under a foreign name is refused.
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
		if !localHost(r.Host) {
			http.Error(w, "only for the machine itself", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

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
	if err := l.setOne(name, want.OutputLevel); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// setOne sets the level of one scope, DefaultScope being one like the others here.
func (l *Logs) setOne(scope, level string) error {
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

func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client went away
}
