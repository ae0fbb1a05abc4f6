package debug

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Nack is one resource that proxies rejected for one reason, as listed by nackz.
type Nack struct {
	Type string `json:"type"`
	// Resource and Version identify the rejected resource. They are empty if the message names
	// none.
	Resource string `json:"resource,omitempty"`
	Version  string `json:"version,omitempty"`
	// Message is the part of the proxies' error that concerns the resource, without dumps of
	// protobuf messages.
	Message string `json:"message"`
	// From are the objects that the resource was generated from.
	From []NamedObject `json:"from,omitempty"`
	// Since and Last are the times of the first and the last rejection.
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	// Proxies is the number of proxies that rejected the resource. Names lists at most maxNames of
	// them. Times is the number of rejections.
	Proxies int      `json:"proxies"`
	Names   []string `json:"names"`
	Times   int      `json:"times"`
	// Standing is true if one of the proxies is still connected and has not acknowledged a later
	// response of the type.
	Standing bool `json:"standing"`
	// Quarantined is true if the resource is withheld from the proxies that it was generated for.
	// Instead describes the replacement: "the version before it", "nothing", or "it without
	// EnvoyFilter NAMESPACE/NAME". It is empty if no earlier state is known; then each proxy keeps
	// its current resource.
	Quarantined bool   `json:"quarantined"`
	Instead     string `json:"instead,omitempty"`
	// Witnesses are the identities whose rejections caused the quarantine. Attempt is the number of
	// quarantines of this version. NextRetry is when the resource is offered to all proxies again.
	Witnesses []string   `json:"witnesses,omitempty"`
	Attempt   int        `json:"attempt,omitempty"`
	NextRetry *time.Time `json:"nextRetry,omitempty"`
}

// NamedObject identifies a config object in JSON.
type NamedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns "Kind/namespace/name".
func (o NamedObject) String() string {
	return config.Key{Kind: api.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}.String()
}

// maxNames is the maximum number of proxies that are listed for one rejected resource.
const maxNames = 10

// nackz serves the rejected and the quarantined resources.
func (p *Pages) nackz(q question) (answer, error) { return jsonAnswer(q, p.RejectedResources()) }

// RejectedResources returns one entry per rejected resource, version and reason, the latest
// rejection first, with the names of at most maxNames proxies. Rejections that have ended are
// included, and a NACK that names no resource has an entry without one. Quarantined resources are
// always included, however old their last rejection is. The caller may modify the entries.
func (p *Pages) RejectedResources() []Nack {
	g := nackGroups{}
	for _, n := range p.Proxies.Nacks() {
		for _, r := range n.Resources {
			g.addRejection(n, r)
		}
		if len(n.Resources) == 0 {
			g.addRejection(n, push.Refused{})
		}
	}
	for _, k := range p.Proxies.Quarantine() {
		g.addQuarantined(k)
	}
	out := []Nack{}
	for _, e := range g {
		e.Proxies = max(e.Proxies, len(e.proxies))
		names := sortedKeys(e.proxies)
		e.Names = append([]string{}, names[:min(len(names), maxNames)]...) // not null in JSON
		out = append(out, e.Nack)
	}
	slices.SortFunc(out, func(a, b Nack) int {
		return cmp.Or(
			b.Last.Compare(a.Last),
			cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return out
}

// nackKey identifies rejections that are merged into one entry. A suspended EnvoyFilter has an
// entry of its own.
type nackKey struct {
	typeURL, resource, version, message string

	suspended config.Key
}

// nackGroups are the entries of nackz while they are built.
type nackGroups map[nackKey]*nackGroup

// nackGroup is an entry and the names of the proxies that rejected its resource.
type nackGroup struct {
	Nack
	proxies map[string]bool
}

// entry returns the entry of k and adds it if it is missing. It extends the time range of the entry
// to include at. from is used only for a new entry.
func (g nackGroups) entry(k nackKey, at time.Time, from []config.Key) *nackGroup {
	e := g[k]
	if e == nil {
		e = &nackGroup{proxies: map[string]bool{}, Nack: Nack{
			Type: api.ShortType(
				k.typeURL,
			),
			Resource: k.resource,
			Version:  k.version,
			Message:  k.message,
			Since:    at,
			Last:     at,
		}}
		for _, f := range from {
			e.From = append(e.From, NamedObject{string(f.Kind), f.Namespace, f.Name})
		}
		g[k] = e
	}
	if at.Before(e.Since) {
		e.Since = at
	}
	if at.After(e.Last) {
		e.Last = at
	}
	return e
}

// addQuarantined records a resource or an EnvoyFilter that is in quarantine, and what proxies have
// instead. That is the resource without the suspended filter, else the version before, else
// nothing. If none of these applies, Instead stays unset. The objects in k.From are recorded only
// with a new entry.
func (g nackGroups) addQuarantined(k push.Quarantined) {
	e := g.entry(nackKey{k.TypeURL, k.Name, k.Version, k.Message, k.Suspended}, k.Since, k.From)
	e.Quarantined, e.Witnesses, e.Attempt, e.Proxies = true, k.Witnesses, k.Attempt, k.Connections
	if !k.Until.IsZero() {
		e.NextRetry = &k.Until
	}
	switch {
	case k.Suspended != (config.Key{}):
		e.Instead = "it without EnvoyFilter " + k.Suspended.Namespace + "/" + k.Suspended.Name
	case k.Replaced:
		e.Instead = "the version before it"
	case k.Withheld:
		e.Instead = "nothing"
	}
}

// addRejection records the rejection of the resource r in the NACK n, in the entry of its type,
// name, version and reason. It adds one to Times and the name of the proxy, which is counted once.
// The entry is standing if one of its NACKs is.
func (g nackGroups) addRejection(n push.Nack, r push.Refused) {
	e := g.entry(
		nackKey{typeURL: n.TypeURL, resource: r.Name, version: r.Version, message: n.ReasonFor(r.Name)},
		n.Time,
		r.From,
	)
	e.proxies[DisplayName(n.Proxy)] = true
	e.Times++
	e.Standing = e.Standing || n.Standing
}

// reasonText returns the Reason of a Problem for the rejection. It contains no time, so that status
// conditions do not change with each retry.
func (n Nack) reasonText() string {
	text := fmt.Sprintf("proxies refuse the %s resource %q that it shapes", n.Type, n.Resource)
	if n.Instead != "" {
		text += ", and are served " + n.Instead
		if !strings.HasPrefix(n.Instead, "it ") {
			text += " instead"
		}
	}
	if len(n.Witnesses) > 0 {
		text += " until it is offered again; refused by " + strings.Join(n.Witnesses, " and ")
	}
	return text + ": " + strings.Join(strings.Fields(n.Message), " ")
}

// refusalProblems returns Problems for the objects from which currently rejected or quarantined
// resources were generated. There is one for each pair of a RejectedResources entry and an object,
// so an object may have several. The severity is Error if the resource is in quarantine, otherwise
// Warning.
func (p *Pages) refusalProblems() []config.Problem {
	s := p.Snapshot()
	var list []config.Problem
	for _, n := range p.RejectedResources() {
		if !n.Standing && !n.Quarantined {
			continue
		}
		x := config.Problem{Code: code.ProxyRejected, Severity: config.Warning, Reason: n.reasonText()}
		if n.Quarantined {
			x.Severity = config.Error
		}
		for _, o := range n.From {
			x.Key = config.Key{Kind: api.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
			x.Origin = ""
			if c := s.Config(x.Key); c != nil {
				x.Origin = c.Origin
			}
			list = append(list, x)
		}
	}
	return list
}
