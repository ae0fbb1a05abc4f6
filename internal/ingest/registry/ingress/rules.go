package ingress

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// rules is a parsed Ingress.
type rules struct {
	name
	created time.Time
	origin  string
	// hosts has its rules by host, in the order of the Ingress; "*" is any host.
	hosts map[string][]rule
	// fallback is the destination of requests that no rule matches (spec.defaultBackend), or nil.
	fallback *networking.Destination
	tls      []*networking.Server
	// services are the Services whose ports it references by name.
	services map[name]struct{}
	problems []config.Problem
}

// rule is the destination of the requests for a path.
type rule struct {
	path
	to *networking.Destination
	// field is the path of the rule in the object.
	field string
}

// older compares Ingresses by age, then name and namespace; the older is first. If several have a
// rule for one path, that of the older Ingress is used.
func older(a, b *rules) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

// reader parses one Ingress.
type reader struct {
	*rules
	converter *Converter
	key       config.Key
}

// readRules returns the rules of an Ingress. Invalid parts are left out and reported in its
// problems. A default backend serves the host "*", also without rules for it.
func (c *Converter) readRules(k name, object *config.Config) *rules {
	r := reader{
		&rules{name: k, created: object.Created, origin: object.Origin, hosts: map[string][]rule{}},
		c,
		object.Key,
	}
	spec := &config.Spec[*networkingv1.Ingress](object).Spec
	if spec.DefaultBackend != nil {
		r.fallback = r.destination("spec.defaultBackend", spec.DefaultBackend)
	}
	for i := range spec.Rules {
		r.addRules(fmt.Sprintf("spec.rules[%d]", i), &spec.Rules[i])
	}
	if r.fallback != nil && len(r.hosts["*"]) == 0 {
		r.hosts["*"] = nil // the host is served by the default backend alone
	}
	for i := range spec.TLS {
		r.addServer(i, &spec.TLS[i])
	}
	return r.rules
}

// addProblem adds an Error about a field of the Ingress.
func (r *reader) addProblem(field, format string, args ...any) {
	r.problems = append(
		r.problems,
		config.Problem{
			Code:     code.RouteNotConverted,
			Key:      r.key,
			Field:    field,
			Reason:   fmt.Sprintf(format, args...),
			Severity: config.Error,
			Origin:   r.origin,
		},
	)
}

// addRules adds the rules of one host, "*" if none is named. Paths with an invalid backend are left
// out, and reported by destination. A host without a valid path is added without rules, for the
// default backend. If spec.HTTP is nil and there is no default backend, it adds only a Problem.
func (r *reader) addRules(field string, spec *networkingv1.IngressRule) {
	host := cmp.Or(strings.ToLower(spec.Host), "*")
	if spec.HTTP == nil && r.fallback == nil {
		r.addProblem(field+".http", "is missing, and there is no defaultBackend: no route is created for host %q", host)
		return
	}
	if _, known := r.hosts[host]; !known {
		r.hosts[host] = nil
	}
	if spec.HTTP == nil {
		return
	}
	for i := range spec.HTTP.Paths {
		p := &spec.HTTP.Paths[i]
		at := fmt.Sprintf("%s.http.paths[%d]", field, i)
		if to := r.destination(at+".backend", &p.Backend); to != nil {
			r.hosts[host] = append(r.hosts[host], rule{parsePath(p), to, at})
		}
	}
}

// destination returns the destination of a backend. It returns nil, with a Problem, if the backend
// is not a Service or names a port that does not exist. Named ports make the Ingress depend on the
// Service. A port number is not checked.
func (r *reader) destination(field string, backend *networkingv1.IngressBackend) *networking.Destination {
	if backend.Service == nil {
		r.addProblem(field+".service", "is missing: only Services can be backends")
		return nil
	}
	service := name{Namespace: r.Namespace, Name: backend.Service.Name}
	port := uint32(max(backend.Service.Port.Number, 0))
	if port == 0 {
		if r.services == nil {
			r.services = map[name]struct{}{}
		}
		r.services[service] = struct{}{}
		if port = r.converter.ports[service][backend.Service.Port.Name]; port == 0 {
			r.addProblem(field+".service.port.name",
				"Service %q has no port %q, or does not exist: no route is created", service.Name,
				backend.Service.Port.Name)
			return nil
		}
	}
	return &networking.Destination{
		Host: service.Name + "." + service.Namespace + ".svc." + r.converter.options.Domain,
		Port: &networking.PortSelector{Number: port},
	}
}
