package push

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Nack is the refusal of a response by a proxy.
type Nack struct {
	Time time.Time
	// Connection is the stream's ID.
	Connection string
	Proxy      *mesh.Proxy
	TypeURL    string
	// Nonce and Version identify the refused response. Message is the proxy's error as in
	// stream.Nack.
	Nonce, Version, Message string
	// Resources are the resources that the message names.
	Resources []Refused
	// candidates are all resources that may have caused the refusal.
	candidates []Refused
	// Standing is true until the proxy disconnects, accepts a later response of the type, or no
	// longer has to accept the resources.
	Standing bool
}

// sameSubject reports whether both refusals are of one proxy, by name and namespace, and one type.
func (n *Nack) sameSubject(o *Nack) bool {
	return n.TypeURL == o.TypeURL && n.Proxy.Name == o.Proxy.Name && n.Proxy.Namespace == o.Proxy.Namespace
}

// Refused is a resource in a Nack.
type Refused struct {
	Name, Version string
	// From are the objects that it was generated from.
	From []config.Key
}

// refusedOf returns the name, version and origin of each resource, in the same order.
func refusedOf(list []*resource.Resource) []Refused {
	var out []Refused
	for _, r := range list {
		out = append(out, Refused{Name: r.Name, Version: r.Version, From: r.From})
	}
	return out
}

// blamedResources returns the resources that the error message names. If it names none, it returns
// all resources of the rejected response, any of which may be the cause.
func (n *Nack) blamedResources() []Refused {
	if len(n.Resources) > 0 {
		return n.Resources
	}
	return n.candidates
}

// ReasonFor returns the part of the error message about the resource of this name. If there is no
// such part, it returns the whole message, because that is about all resources.
//
// Envoy refuses several listeners with "Error adding/updating listener(s) NAME: why", then a line
// "NAME: why" for each of the others. gRPC writes `resource "NAME": why`, and ";" with a line break
// between them. A reason may have several lines.
func (n *Nack) ReasonFor(name string) string {
	if _, list, ok := strings.Cut(n.Message, "listener(s) "); ok {
		if _, why, ok := strings.Cut("\n"+list, "\n"+name+": "); ok {
			return strings.TrimSpace(n.untilOther(why))
		}
	}
	if _, why, ok := strings.Cut(n.Message, fmt.Sprintf("resource %q: ", name)); ok {
		why, _, _ = strings.Cut(why, ";\nresource \"")
		return strings.TrimSpace(why)
	}
	return n.Message
}

// untilOther returns the part of text before the first line about a blamed resource, or all of text
// if there is no such line.
func (n *Nack) untilOther(text string) string {
	for _, r := range n.blamedResources() {
		text, _, _ = strings.Cut(text, "\n"+r.Name+": ")
	}
	return text
}
