package debug

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/describe"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// describePage serves the services, rules and policies of the service in ?service= (a host, or
// NAME.NAMESPACE), or without one of the proxy in ?proxyID=. Problems of the objects are added to
// the warnings. With ?text the response is text instead of JSON. It returns a Refusal if there is
// no such proxy or service, or several services match.
func (p *Pages) describePage(q question) (answer, error) {
	var d fmt.Stringer
	var err error
	if name := q.Get("service"); name != "" {
		d, err = p.DescribeService(name)
	} else {
		d, err = p.DescribeProxy(q.Get("proxyID"))
	}
	if err != nil {
		return answer{}, err
	}
	return describedAnswer(q, d)
}

// DescribeService returns the description of a service, with the Problems of its objects. It returns
// the Refusal of ServiceByName if there is no such service, or several.
func (p *Pages) DescribeService(name string) (*describe.Service, error) {
	svc, err := p.ServiceByName(name)
	if err != nil {
		return nil, err
	}
	d := describe.DescribeService(p.Snapshot(), svc)
	d.Warnings = append(d.Warnings, p.problemsOf(d.Keys())...)
	return d, nil
}

// DescribeProxy returns the description of a connected proxy, with the Problems of its objects. It
// returns a Refusal if id is empty or no stream matches it.
func (p *Pages) DescribeProxy(id string) (*describe.Proxy, error) {
	c, err := p.findConnection(question{Values: url.Values{"proxyID": {id}}})
	if err != nil {
		return nil, err
	}
	d := describe.DescribeProxy(p.Snapshot(), c.Proxy)
	d.Warnings = append(d.Warnings, p.problemsOf(d.Keys())...)
	return d, nil
}

// describedAnswer returns a description as JSON, or as text if the query has ?text.
func describedAnswer(q question, d fmt.Stringer) (answer, error) {
	if q.Has("text") {
		return textAnswer(d.String())
	}
	return jsonAnswer(q, d)
}

// ServiceByName returns the first service with the hostname name, or else the only one whose
// hostname begins with name and a dot. Upper case is ignored. It returns a Refusal if there is none
// (404) or several (400).
func (p *Pages) ServiceByName(name string) (*mesh.Service, error) {
	var found []*mesh.Service
	want := strings.ToLower(name)
	for _, svc := range p.Snapshot().Services() {
		host := string(svc.Host)
		if host == want {
			return svc, nil
		}
		if strings.HasPrefix(host, want+".") {
			found = append(found, svc)
		}
	}
	switch len(found) {
	case 0:
		return nil, Refusal{http.StatusNotFound, fmt.Sprintf("no service %q is known", name)}
	case 1:
		return found[0], nil
	}
	var hosts []string
	for _, svc := range found {
		hosts = append(hosts, string(svc.Host))
	}
	return nil, Refusal{http.StatusBadRequest, fmt.Sprintf("%q is ambiguous: %s", name, strings.Join(hosts, ", "))}
}

// problemsOf returns the Problems of the objects in keys as lines of text. Equal texts are not
// merged.
func (p *Pages) problemsOf(keys map[config.Key]bool) (list []string) {
	for _, x := range p.Problems() {
		if keys[x.Key] {
			list = append(list, x.String())
		}
	}
	return list
}
