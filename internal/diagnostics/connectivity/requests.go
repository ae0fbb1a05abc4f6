package connectivity

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// maxRequests limits the requests that a question without a path is evaluated for.
const maxRequests = 12

// plannedRequests returns the different requests of a question, at most maxRequests. A question
// with a path has one request. Otherwise they are the question's method, by default GET, at "/",
// and one for each method and path of the policies' rules (addOperation). If the port's protocol is
// neither HTTP nor detected, the list is a single nil.
func (e *evaluation) plannedRequests() []*explain.Request {
	port, _ := e.question.Service.Port(e.question.Port)
	if !port.Protocol.IsHTTP() && port.Protocol != mesh.Auto {
		return []*explain.Request{nil}
	}
	var list []*explain.Request
	add := func(method, path string) {
		same := func(r *explain.Request) bool { return r.Method == method && r.Path == path }
		if len(list) < maxRequests && !slices.ContainsFunc(list, same) {
			list = append(list, &explain.Request{
				Method: method, Scheme: "http", Authority: string(e.question.Service.Host), Path: path,
			})
		}
	}
	q := e.question
	if add(cmp.Or(q.Method, http.MethodGet), cmp.Or(q.Path, "/")); q.Path != "" {
		return list
	}
	for _, s := range e.servers {
		for _, c := range s.policies {
			for _, r := range config.Spec[*security.AuthorizationPolicy](c).GetRules() {
				for _, to := range r.GetTo() {
					addOperation(to.GetOperation(), q.Method, add)
				}
			}
		}
	}
	return list
}

// addOperation calls add for each combination of an operation's methods and paths, positive and
// negative ones, with a path that its pattern matches. The defaults are GET and "/". If method is
// not empty, it replaces the methods. "*" in a method becomes GET.
func addOperation(o *security.Operation, method string, add func(method, path string)) {
	methods, paths := slices.Concat(o.GetMethods(), o.GetNotMethods()), slices.Concat(o.GetPaths(), o.GetNotPaths())
	if method != "" || len(methods) == 0 {
		methods = []string{cmp.Or(method, http.MethodGet)}
	}
	if len(paths) == 0 {
		paths = []string{"/"}
	}
	for _, m := range methods {
		for _, p := range paths {
			add(strings.ReplaceAll(m, "*", "GET"), examplePath(p))
		}
	}
}

// examplePath returns a path that a pattern of an AuthorizationPolicy matches: "/a/*", "*/b",
// "/a/{*}/b".
func examplePath(pattern string) string {
	path := strings.NewReplacer("{**}", "x", "{*}", "x", "*", "x").Replace(pattern)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
