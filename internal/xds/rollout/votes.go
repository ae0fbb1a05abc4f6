package rollout

import (
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Quarantined is a resource, or the part of an EnvoyFilter in one, that is not served because
// proxies refused it.
type Quarantined struct {
	TypeURL, Name, Version string
	// Scope is the part of the Key of the proxies that the resource was generated for.
	Scope view.Key
	// Message is the error message of a proxy that refused it.
	Message string
	// Witnesses are the identities that refused it, sorted. Their number is bounded.
	Witnesses []string
	// Connections is the number of their connections, also bounded.
	Connections int
	// Since is when the quarantine began, Until when the resource is offered to all proxies again.
	Since, Until time.Time
	// Attempt is the number of times that it was quarantined, from 1.
	Attempt int
	// Replaced means that the version before it is served. Withheld means that nothing is served,
	// because there was no version before. If neither is set, the version served before is unknown
	// and the resource is served.
	Replaced, Withheld bool
	// Suspended is the EnvoyFilter that is left out of the resource; zero if the resource itself is
	// quarantined.
	Suspended config.Key
	// From are the objects that the resource was generated from.
	From []config.Key
	// Affected are the IDs of the connections from which the resource or the EnvoyFilter is withheld,
	// in no particular order. Only Rollout.Quarantined sets it.
	Affected []string

	replacement *resource.Resource
}

// withStatus returns q with the fields that package quarantine decides.
func (q Quarantined) withStatus(s quarantine.Status) Quarantined {
	q.Witnesses, q.Connections, q.Since, q.Until, q.Attempt = s.Witnesses, s.Connections, s.Since, s.Until, s.Attempt
	return q
}

// votes is the quarantine of one producer's resources.
type votes struct {
	scope *quarantine.Scope
	// refused describes, by name, the resources that voters refused.
	refused map[string]*Quarantined
	// inForce are the quarantined ones.
	inForce map[string]Quarantined
}

func newVotes(o quarantine.Options) *votes {
	return &votes{scope: quarantine.New(o), refused: map[string]*Quarantined{}, inForce: map[string]Quarantined{}}
}

// isRefused reports whether a voter refused the resource of a name. It is false for a nil receiver.
func (v *votes) isRefused(name string) bool { return v != nil && v.refused[name] != nil }

// servedGroup returns the ResourceGroup of a set in which quarantined resources are replaced by
// their last good version, or missing if they have none. group is the set's own ResourceGroup,
// which it returns if nothing is quarantined. It returns old if that has the same content.
func (v *votes) servedGroup(set *resource.Set, group, old *stream.ResourceGroup, named bool) *stream.ResourceGroup {
	var replacements []*resource.Resource
	var removed []string
	for name, q := range v.inForce {
		switch {
		case q.Replaced:
			replacements = append(replacements, q.replacement)
		case q.Withheld:
			removed = append(removed, name)
		}
	}
	if len(replacements)+len(removed) == 0 && group.Set() == set {
		return group
	}
	served := set.With(replacements, removed)
	if old != nil && served.Version() == old.Set().Version() &&
		slices.Equal(group.LookedUpNames(), old.LookedUpNames()) {
		return old
	}
	if named {
		return stream.NewNamedResourceGroup(served, group.LookedUpNames())
	}
	return stream.NewResourceGroup(served)
}

// refusedFilter is an EnvoyFilter in a resource that was refused.
type refusedFilter struct {
	filter    config.Key
	hash      uint64
	candidate quarantine.Candidate
	// versions are the versions of the resource that were refused, the newest last. At most
	// maxRefusedVersions are kept.
	versions []string
	about    Quarantined
}

const maxRefusedVersions = 16

// addVersion records that a version of the resource was refused.
func (f *refusedFilter) addVersion(version string) {
	if !slices.Contains(f.versions, version) {
		f.versions = append(f.versions[max(0, len(f.versions)-maxRefusedVersions+1):], version)
	}
}

// suspensionKey returns the Key of the class whose suspensions apply to k. A change of mutual TLS
// modes does not alter it.
func suspensionKey(k view.Key) view.Key {
	k.TransitionModes = ""
	return k
}
